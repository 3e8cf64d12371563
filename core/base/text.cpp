#include "core/base/text.h"

#include <cstring>

namespace rollcall {

TextWriter& TextWriter::text(std::string_view text) noexcept {
  const size_t room = storage_.size() - used_;
  const size_t taken = text.size() < room ? text.size() : room;
  if (taken != 0) std::memcpy(storage_.data() + used_, text.data(), taken);
  used_ += taken;
  cut_ += text.size() - taken;
  return *this;
}

TextWriter& TextWriter::character(char c) noexcept { return text({&c, 1}); }

TextWriter& TextWriter::number(uint64_t value) noexcept { return padded(value, 1); }

TextWriter& TextWriter::signed_number(int64_t value) noexcept {
  if (value >= 0) return number(static_cast<uint64_t>(value));
  return character('-').number(~static_cast<uint64_t>(value) + 1);
}

TextWriter& TextWriter::padded(uint64_t value, unsigned digits) noexcept {
  char reversed[24];
  unsigned count = 0;
  while (value != 0 || count < digits) {
    if (count == sizeof(reversed)) break;
    reversed[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  while (count != 0) character(reversed[--count]);
  return *this;
}

TextWriter& TextWriter::hex(uint64_t value, unsigned digits) noexcept {
  unsigned count = 16;
  while (count > digits && count > 1 && (value >> (count - 1) * 4) == 0) --count;
  while (count != 0) {
    --count;
    character("0123456789abcdef"[value >> count * 4 & 0xf]);
  }
  return *this;
}

TextWriter& TextWriter::escaped(std::string_view text_in) noexcept {
  for (const char c : text_in) {
    if (c == '\\') {
      text("\\\\");
    } else if (c == '\n') {
      text("\\n");
    } else if (c == '\0') {
      text("\\0");
    } else {
      character(c);
    }
  }
  return *this;
}

TextWriter& TextWriter::json(std::string_view text_in) noexcept {
  for (const char c : text_in) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      character('\\').character(c);
    } else if (code < 0x20) {
      text("\\u").hex(code, 4);
    } else {
      character(c);
    }
  }
  return *this;
}

const char* TextWriter::c_str() noexcept {
  if (storage_.empty()) return "";
  if (used_ == storage_.size()) {
    --used_;
    ++cut_;
  }
  storage_[used_] = '\0';
  return storage_.data();
}

void copy_padded(std::span<char> to, std::string_view text) noexcept {
  const size_t taken = text.size() < to.size() ? text.size() : to.size();
  if (taken != 0) std::memcpy(to.data(), text.data(), taken);
  if (taken < to.size()) std::memset(to.data() + taken, 0, to.size() - taken);
}

std::string_view padded_view(std::span<const char> field) noexcept {
  size_t bytes = 0;
  while (bytes < field.size() && field[bytes] != '\0') ++bytes;
  return {field.data(), bytes};
}

bool parse_decimal(std::string_view text, uint64_t& value) noexcept {
  if (text.empty()) return false;
  uint64_t result = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (result > (UINT64_MAX - digit) / 10) return false;
    result = result * 10 + digit;
  }
  value = result;
  return true;
}

}  // namespace rollcall
