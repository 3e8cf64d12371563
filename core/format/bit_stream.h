// Bits in a byte buffer, least significant first: the ground the operation codec stands on.
//
// Writer and reader have the same members, so that one function can describe a format for both
// directions: `bits(value, n)` writes `value` or overwrites it. Neither touches a byte outside the
// span it was given, whatever it is asked for.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rollcall {

// Widths in bits of the eight classes of a number; the class costs three bits.
struct NumberWidths {
  uint8_t bits[8];
};

class BitWriter {
 public:
  static constexpr bool kWriting = true;
  explicit BitWriter(std::span<uint8_t> out) noexcept : out_(out) {}

  template <class T>
  void bits(T& value, unsigned count) noexcept {
    put(static_cast<uint64_t>(value), count);
  }
  void flag(bool& value) noexcept { put(value ? 1 : 0, 1); }
  void number(uint64_t& value, const NumberWidths& widths) noexcept {
    // Counted, not searched: the class is as random as the data, and a branch on it would be
    // mispredicted every other time. The last class holds everything.
    const auto needed = static_cast<unsigned>(std::bit_width(value));
    unsigned number_class = 0;
    for (unsigned i = 0; i < 7; ++i) number_class += widths.bits[i] < needed ? 1 : 0;
    put(number_class, 3);
    put(value, widths.bits[number_class]);
  }
  // Bytes used, the last one padded with zero bits; 0 when the span was too small.
  size_t finish() noexcept {
    while (held_bits_ > 0) {
      if (used_ == out_.size()) return 0;
      out_[used_++] = static_cast<uint8_t>(held_);
      held_ >>= 8;
      held_bits_ = held_bits_ > 8 ? held_bits_ - 8 : 0;
    }
    return overflow_ ? 0 : used_;
  }
  bool failed() const noexcept { return overflow_; }
  void fail() noexcept { overflow_ = true; }

 private:
  void put(uint64_t value, unsigned count) noexcept {
    if (count > 32) {
      put(value & 0xffffffff, 32);
      value >>= 32;
      count -= 32;
    }
    if (count < 32) value &= (uint64_t{1} << count) - 1;
    held_ |= value << held_bits_;  // held_bits_ < 32 here, so nothing is shifted out
    held_bits_ += count;
    if (held_bits_ < 32) return;
    if (out_.size() - used_ < 4) {
      overflow_ = true;
      held_ = held_bits_ = 0;
      return;
    }
    auto low = static_cast<uint32_t>(held_);
    if constexpr (std::endian::native == std::endian::big) low = __builtin_bswap32(low);
    std::memcpy(out_.data() + used_, &low, 4);
    used_ += 4;
    held_ >>= 32;
    held_bits_ -= 32;
  }

  std::span<uint8_t> out_;
  size_t used_ = 0;
  uint64_t held_ = 0;
  unsigned held_bits_ = 0;
  bool overflow_ = false;
};

class BitReader {
 public:
  static constexpr bool kWriting = false;
  explicit BitReader(std::span<const uint8_t> in) noexcept : in_(in) {}

  template <class T>
  void bits(T& value, unsigned count) noexcept {
    value = static_cast<T>(take(count));
  }
  void flag(bool& value) noexcept { value = take(1) != 0; }
  void number(uint64_t& value, const NumberWidths& widths) noexcept {
    value = take(widths.bits[take(3)]);
  }
  size_t finish() noexcept { return failed_ ? 0 : (at_bits_ + 7) / 8; }
  // After running past the end every value reads as 0.
  bool failed() const noexcept { return failed_; }
  void fail() noexcept { failed_ = true; }

 private:
  // The eight bytes from the one with the next bit on, zeros behind the end.
  uint64_t word() const noexcept {
    const size_t byte = at_bits_ / 8;
    uint64_t word = 0;
    if (in_.size() - byte >= sizeof word) {
      std::memcpy(&word, in_.data() + byte, sizeof word);
      if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
      return word;
    }
    for (size_t i = byte; i < in_.size(); ++i) word |= uint64_t{in_[i]} << (i - byte) * 8;
    return word;
  }

  uint64_t take(unsigned count) noexcept {
    // With up to 7 bits of the first byte already taken, a word holds no more for certain.
    if (count > 56) {
      const uint64_t low = take(32);
      return low | take(count - 32) << 32;
    }
    if (count > in_.size() * 8 - at_bits_) {
      failed_ = true;
      at_bits_ = in_.size() * 8;
      return 0;
    }
    const uint64_t value = word() >> at_bits_ % 8 & ((uint64_t{1} << count) - 1);
    at_bits_ += count;
    return value;
  }

  std::span<const uint8_t> in_;
  size_t at_bits_ = 0;
  bool failed_ = false;
};

}  // namespace rollcall
