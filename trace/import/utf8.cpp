// UTF-16 as UTF-8.
#include <algorithm>
#include <cstring>

#include "trace/import/byte_stream.h"

namespace rollcall::trace {
namespace {

enum class Encoding : uint8_t { bytes, utf8_marked, utf16_little, utf16_big };

struct Guess {
  Encoding encoding = Encoding::bytes;
  size_t mark_bytes = 0;
};

// Text of mostly ASCII in UTF-16 has a zero in every second byte.
Encoding guess_by_zeros(std::span<const uint8_t> head) {
  size_t zeros[2] = {};
  for (size_t i = 0; i < head.size(); ++i) zeros[i % 2] += head[i] == 0;
  const size_t half = head.size() / 2;
  const auto is_most = [&](size_t count) { return count * 10 > half * 9; };
  const auto is_few = [&](size_t count) { return count * 20 < half; };
  if (half < 8) return Encoding::bytes;
  if (is_most(zeros[1]) && is_few(zeros[0])) return Encoding::utf16_little;
  if (is_most(zeros[0]) && is_few(zeros[1])) return Encoding::utf16_big;
  return Encoding::bytes;
}

Guess guess(std::span<const uint8_t> head) {
  const auto begins = [&](std::string_view mark) {
    return head.size() >= mark.size() && std::memcmp(head.data(), mark.data(), mark.size()) == 0;
  };
  if (begins("\xef\xbb\xbf")) return {Encoding::utf8_marked, 3};
  // A mark alone is little evidence: a pickle or a picture may begin so.
  const Encoding by_zeros = guess_by_zeros(head);
  if (begins("\xff\xfe") && by_zeros != Encoding::utf16_big && head.size() % 2 == 0) {
    return {Encoding::utf16_little, 2};
  }
  if (begins("\xfe\xff") && by_zeros != Encoding::utf16_little && head.size() % 2 == 0) {
    return {Encoding::utf16_big, 2};
  }
  return {by_zeros, 0};
}

void append_utf8(uint32_t code, std::vector<uint8_t>& to) {
  const auto put = [&](uint32_t byte) { to.push_back(static_cast<uint8_t>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

class Utf16Stream final : public ByteStream {
 public:
  Utf16Stream(std::unique_ptr<ByteStream> inner, bool is_big)
      : inner_(std::move(inner)), is_big_(is_big), units_(kBufferBytes) {}

  size_t read(void* to, size_t bytes) override {
    size_t done = 0;
    while (done < bytes) {
      if (taken_ == text_.size() && !refill()) break;
      const size_t piece = std::min(bytes - done, text_.size() - taken_);
      std::memcpy(static_cast<uint8_t*>(to) + done, text_.data() + taken_, piece);
      taken_ += piece;
      done += piece;
    }
    return done;
  }
  std::string complaint() const override { return inner_->complaint(); }
  bool is_refused() const override { return inner_->is_refused(); }

 private:
  static constexpr size_t kBufferBytes = 1 << 16;
  static constexpr uint32_t kReplacement = 0xfffd;

  bool refill() {
    text_.clear();
    taken_ = 0;
    while (text_.empty()) {
      const size_t got = inner_->read(units_.data(), units_.size());
      if (got < 2) return false;
      for (size_t i = 0; i + 1 < got; i += 2) {
        take(is_big_ ? units_[i] << 8 | units_[i + 1] : units_[i + 1] << 8 | units_[i]);
      }
    }
    return true;
  }

  void take(int unit_value) {
    const auto unit = static_cast<uint32_t>(unit_value);
    const bool is_second = unit >= 0xdc00 && unit < 0xe000;
    if (first_ != 0 && is_second) {
      append_utf8(0x10000 + ((first_ - 0xd800) << 10) + (unit - 0xdc00), text_);
      first_ = 0;
      return;
    }
    if (first_ != 0) append_utf8(kReplacement, text_);
    first_ = unit >= 0xd800 && unit < 0xdc00 ? unit : 0;
    if (first_ == 0) append_utf8(is_second ? kReplacement : unit, text_);
  }

  std::unique_ptr<ByteStream> inner_;
  bool is_big_;
  std::vector<uint8_t> units_;
  std::vector<uint8_t> text_;
  size_t taken_ = 0;
  uint32_t first_ = 0;  // of two that make a character
};

}  // namespace

std::unique_ptr<ByteStream> as_utf8(std::unique_ptr<ByteStream> inner) {
  constexpr size_t kLookedAt = 4096;
  auto stream = std::make_unique<PeekStream>(std::move(inner));
  const Guess found = guess(stream->peek(kLookedAt));
  uint8_t mark[4];
  stream->read(mark, found.mark_bytes);
  const bool is_big = found.encoding == Encoding::utf16_big;
  if (!is_big && found.encoding != Encoding::utf16_little) return stream;
  return std::make_unique<Utf16Stream>(std::move(stream), is_big);
}

}  // namespace rollcall::trace
