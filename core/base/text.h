// Text without allocation, locale or iostream: a bounded buffer that cuts, and says that it cut.
// What the injected libraries and the format share for names, warnings and traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rollcall {

class TextWriter {
 public:
  explicit TextWriter(std::span<char> storage) noexcept : storage_(storage) {}

  TextWriter& text(std::string_view text) noexcept;
  TextWriter& number(uint64_t value) noexcept;
  TextWriter& signed_number(int64_t value) noexcept;
  // `digits` of at least 1: padded with zeros on the left.
  TextWriter& padded(uint64_t value, unsigned digits) noexcept;
  TextWriter& hex(uint64_t value, unsigned digits = 1) noexcept;
  TextWriter& character(char c) noexcept;
  // A value of the meta area: backslash, newline and NUL as \\, \n, \0.
  TextWriter& escaped(std::string_view text) noexcept;
  // The inside of a JSON string.
  TextWriter& json(std::string_view text) noexcept;

  std::string_view view() const noexcept { return {storage_.data(), used_}; }
  size_t bytes() const noexcept { return used_; }
  // Bytes that did not fit.
  size_t cut_bytes() const noexcept { return cut_; }
  void clear() noexcept { used_ = cut_ = 0; }
  // The text with a terminating NUL; the last byte is given up for it when the buffer is full.
  const char* c_str() noexcept;

 private:
  std::span<char> storage_;
  size_t used_ = 0;
  size_t cut_ = 0;
};

// A TextWriter with its storage.
template <size_t kBytes>
class TextBuffer : public TextWriter {
 public:
  TextBuffer() noexcept : TextWriter(std::span<char>(characters_, kBytes)) {}
  TextBuffer(const TextBuffer&) = delete;
  TextBuffer& operator=(const TextBuffer&) = delete;

 private:
  char characters_[kBytes];
};

// Copies what fits and fills the rest with zeros; the last byte is not reserved.
void copy_padded(std::span<char> to, std::string_view text) noexcept;
// The text of a zero-padded field.
std::string_view padded_view(std::span<const char> field) noexcept;

// What string_view::substr gives, without the exception: empty where `from` lies behind the end.
// (Its reference to the thrower would have to be satisfied in the job, however unreachable; so
// would that of starts_with(), where nothing is optimised away.)
constexpr std::string_view part_of(std::string_view text, size_t from,
                                   size_t bytes = std::string_view::npos) noexcept {
  if (from >= text.size()) return {};
  const size_t rest = text.size() - from;
  return {text.data() + from, bytes < rest ? bytes : rest};
}

// The whole of `text` as an unsigned decimal; false on anything else, also on overflow.
bool parse_decimal(std::string_view text, uint64_t& value) noexcept;

}  // namespace rollcall
