// Protocol Buffers as they lie in bytes: as much of it as a writer of traces needs.
//
// The wire format is that of https://protobuf.dev/programming-guides/encoding/: a message is a
// sequence of fields, a field is a tag (its number << 3 | its wire type) and a value. Three types
// of value occur here: 0, a varint (seven bits a byte, the lowest first, the top bit set in all but
// the last one); 1, eight bytes, the lowest first; 2, a length as a varint and so many bytes, which
// are text or another message. Nothing in the bytes says what a field means: fields.h does.
//
// Threads: an object belongs to one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace rollcall::report::perfetto {

inline void append_varint(std::string& bytes, uint64_t value) {
  char coded[10];
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) coded[size++] = static_cast<char>(value | 0x80);
  coded[size++] = static_cast<char>(value);
  bytes.append(coded, size);
}

// Appends the fields of one message to `bytes`, which outlives it.
class Message {
 public:
  explicit Message(std::string& bytes) : bytes_(bytes) {}

  void number(uint32_t field, uint64_t value) {
    append_tag(field, 0);
    append_varint(bytes_, value);
  }
  void fixed64(uint32_t field, uint64_t value) {
    append_tag(field, 1);
    char coded[8];
    for (char& byte : coded) {
      byte = static_cast<char>(value);
      value >>= 8;
    }
    bytes_.append(coded, sizeof(coded));
  }
  void real(uint32_t field, double value) { fixed64(field, std::bit_cast<uint64_t>(value)); }
  void text(uint32_t field, std::string_view value) {
    append_tag(field, 2);
    append_varint(bytes_, value.size());
    bytes_.append(value);
  }

  std::string& bytes() { return bytes_; }

 protected:
  void append_tag(uint32_t field, uint32_t type) { append_varint(bytes_, field << 3 | type); }

 private:
  std::string& bytes_;
};

// A message that is the value of a field of another one: whole when it goes out of scope. Until
// then the outer one is left alone.
class Nested : public Message {
 public:
  Nested(Message& outer, uint32_t field) : Message(outer.bytes()) {
    append_tag(field, 2);
    bytes().push_back(0);
    begin_ = bytes().size();
  }
  // Most messages are shorter than 128 bytes: one byte is kept for the length, and others move.
  ~Nested() {
    const size_t size = bytes().size() - begin_;
    if (size < 0x80) {
      bytes()[begin_ - 1] = static_cast<char>(size);
      return;
    }
    std::string length;
    append_varint(length, size);
    bytes().replace(begin_ - 1, 1, length);
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  size_t begin_ = 0;
};

}  // namespace rollcall::report::perfetto
