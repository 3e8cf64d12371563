// Sums of times and numbers that a file claims: any 64 bits may stand there.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <limits>

namespace rollcall::trace {

// Later than any clock shows, and far enough from the end that two of them can be added.
inline constexpr int64_t kTimeMaxNs = 4'000'000'000'000'000'000;

// `first` + `second`; what does not fit is the number next to it.
constexpr int64_t saturated_sum(int64_t first, int64_t second) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(first, second, &sum)) return sum;
  return second < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// `first` - `second`, likewise.
constexpr int64_t saturated_difference(int64_t first, int64_t second) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(first, second, &difference)) return difference;
  return second > 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

}  // namespace rollcall::trace
