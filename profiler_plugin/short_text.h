// Whether a text of NCCL's is a certain short name, in a few instructions: each collective brings
// four such texts, and their addresses differ from one copy of NCCL to the next.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace rollcall::profiler {

class ShortText {
 public:
  // Not null, and ended by a zero, as NCCL's literals are.
  explicit ShortText(const char* text) noexcept : text_(hidden(text)), head_(head_of(text_)) {}

  // `kBytes` counts the zero at the end of `name`, which is a constant wherever this is used.
  template <size_t kBytes>
  bool is(const char (&name)[kBytes]) const noexcept {
    return equals<kBytes>(name);
  }
  template <size_t kBytes>
  bool equals(const char* name) const noexcept {
    const uint64_t head =
        head_of_name(name, std::make_index_sequence<std::min(kBytes, kHeadBytes)>());
    if (((head_ ^ head) & kMask<kBytes>) != 0) return false;
    // Equal so far without an end: the text goes on, and so letter by letter until they differ.
    if constexpr (kBytes > kHeadBytes) {
      return rest_equals(name, std::make_index_sequence<kBytes - kHeadBytes>());
    }
    return true;
  }

 private:
  static constexpr size_t kHeadBytes = 8;
  static constexpr uintptr_t kPageBytes = 4096;  // the smallest there are
  static_assert(std::endian::native == std::endian::little);
  template <size_t kBytes>
  static constexpr uint64_t kMask = kBytes >= kHeadBytes
                                        ? ~uint64_t{0}
                                        : (uint64_t{1} << 8 * (kBytes % kHeadBytes)) - 1;

  // Of a literal the compiler would know that head_of() reaches beyond it.
  static const char* hidden(const char* text) noexcept {
    asm("" : "+r"(text));
    return text;
  }
  // The first eight bytes; those behind the text's end mean nothing. They are read although they
  // may belong to something else, but never from a page that the text does not lie in.
  __attribute__((no_sanitize("address"))) static uint64_t head_of(const char* text) noexcept {
    const uintptr_t place = reinterpret_cast<uintptr_t>(text) % kPageBytes;
    if (__builtin_expect(place > kPageBytes - kHeadBytes, 0)) return head_up_to_end(text);
    uint64_t head = 0;
    __builtin_memcpy(&head, text, kHeadBytes);
    return head;
  }
  [[gnu::noinline, gnu::cold]] static uint64_t head_up_to_end(const char* text) noexcept {
    uint64_t head = 0;
    memcpy(&head, text, strnlen(text, kHeadBytes));
    return head;
  }
  // A number in the code. Copied into a variable, the compiler stores its parts and loads the
  // whole, which waits for the stores.
  template <size_t... kAt>
  [[gnu::always_inline]] static uint64_t head_of_name(const char* name,
                                                      std::index_sequence<kAt...>) noexcept {
    return ((uint64_t{static_cast<unsigned char>(name[kAt])} << 8 * kAt) | ...);
  }
  template <size_t... kAt>
  bool rest_equals(const char* name, std::index_sequence<kAt...>) const noexcept {
    return ((text_[kHeadBytes + kAt] == name[kHeadBytes + kAt]) && ...);
  }

  const char* text_;
  uint64_t head_;
};

}  // namespace rollcall::profiler
