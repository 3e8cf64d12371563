// Thrift's compact protocol, as much of it as the metadata of a Parquet file needs.
//
// By its specification (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md): a struct
// is its fields by rising number and a 0; a field is a byte, the difference to the number before <<
// 4 | its type, and the value; numbers are varints, signed ones zigzag; a list is a byte, its size
// << 4 | the elements' type (from 15 on 0xf0 | type and a varint), and the elements.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rollcall::report::parquet {

inline void append_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}
inline void append_zigzag(std::string& bytes, int64_t value) {
  append_varint(bytes, static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}

enum class ThriftType : uint8_t {
  yes = 1,
  no = 2,
  i32 = 5,
  i64 = 6,
  binary = 8,
  list = 9,
  structure = 12
};

// Appends one struct to `bytes`, which outlives it. Fields come by rising number.
class ThriftStruct {
 public:
  explicit ThriftStruct(std::string& bytes) : bytes_(bytes) {}
  ThriftStruct(ThriftStruct& outer, uint8_t field) : bytes_(outer.bytes_) {
    outer.begin(field, ThriftType::structure);
  }
  ~ThriftStruct() { bytes_.push_back(0); }
  ThriftStruct(const ThriftStruct&) = delete;
  ThriftStruct& operator=(const ThriftStruct&) = delete;

  void i32(uint8_t field, int32_t value) {
    begin(field, ThriftType::i32);
    append_zigzag(bytes_, value);
  }
  void i64(uint8_t field, int64_t value) {
    begin(field, ThriftType::i64);
    append_zigzag(bytes_, value);
  }
  void text(uint8_t field, std::string_view value) {
    begin(field, ThriftType::binary);
    append_text(value);
  }
  // The elements follow: structs of their own, or by append_text() and append_zigzag().
  void list(uint8_t field, ThriftType type, size_t size) {
    begin(field, ThriftType::list);
    if (size < 15) {
      bytes_.push_back(static_cast<char>(size << 4 | static_cast<uint8_t>(type)));
      return;
    }
    bytes_.push_back(static_cast<char>(0xf0 | static_cast<uint8_t>(type)));
    append_varint(bytes_, size);
  }
  void append_text(std::string_view value) {
    append_varint(bytes_, value.size());
    bytes_.append(value);
  }
  std::string& bytes() { return bytes_; }

 private:
  void begin(uint8_t field, ThriftType type) {
    bytes_.push_back(static_cast<char>((field - before_) << 4 | static_cast<uint8_t>(type)));
    before_ = field;
  }
  std::string& bytes_;
  uint8_t before_ = 0;
};

}  // namespace rollcall::report::parquet
