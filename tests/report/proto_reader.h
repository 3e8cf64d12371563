// As much of Protocol Buffers as a test needs to take a message apart, written by the documentation
// of the wire format and not by the writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::test {

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) {
    while (!bytes.empty()) fields_.push_back(take_field(bytes));
  }

  std::vector<uint64_t> numbers(uint32_t field) const {
    std::vector<uint64_t> values;
    for (const Field& one : fields_) {
      if (one.number == field) values.push_back(one.value);
    }
    return values;
  }
  // 0 where the field is absent.
  uint64_t number(uint32_t field) const {
    const std::vector<uint64_t> values = numbers(field);
    return values.empty() ? 0 : values.back();
  }
  double real(uint32_t field) const {
    const uint64_t bits = number(field);
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  bool has(uint32_t field) const { return !numbers(field).empty(); }
  std::vector<std::string> texts(uint32_t field) const {
    std::vector<std::string> values;
    for (const Field& one : fields_) {
      if (one.number == field) values.emplace_back(one.bytes);
    }
    return values;
  }
  std::string text(uint32_t field) const {
    const std::vector<std::string> values = texts(field);
    return values.empty() ? "" : values.back();
  }
  ProtoReader message(uint32_t field) const { return ProtoReader(text(field)); }

 private:
  struct Field {
    uint32_t number;
    uint64_t value;
    std::string bytes;
  };

  static uint64_t take_varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (bytes.empty()) throw std::runtime_error("a varint is cut off");
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a varint is too long");
  }

  static Field take_field(std::string_view& bytes) {
    const uint64_t tag = take_varint(bytes);
    Field field{static_cast<uint32_t>(tag >> 3), 0, {}};
    if ((tag & 7) == 0) {
      field.value = take_varint(bytes);
      return field;
    }
    if ((tag & 7) != 1 && (tag & 7) != 2) throw std::runtime_error("an unexpected wire type");
    const uint64_t size = (tag & 7) == 1 ? 8 : take_varint(bytes);
    if (size > bytes.size()) throw std::runtime_error("a field is cut off");
    field.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if ((tag & 7) == 1) std::memcpy(&field.value, field.bytes.data(), sizeof(field.value));
    return field;
  }

  std::vector<Field> fields_;
};

}  // namespace rollcall::test
