// How we measure on machines that are shared and noisy: both things in one run, in turns, and the
// median of the paired ratios. A single slow moment then spoils one pair, not the result.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::bench {

inline uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(now.tv_nsec);
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(middle), values.end());
  return values[middle];
}

// Runs `measure` in a forked child with a fresh, empty run directory, which is removed afterwards;
// returns the numbers it wrote into `values` (at most kChildValues). The recorder is one per
// process and starts lazily, so every measurement gets one of its own. Empty when the child failed.
inline constexpr int kChildValues = 16;
using ChildMeasure = void (*)(double* values, const std::string& directory);
std::vector<double> measure_in_child(
    ChildMeasure measure, const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace rollcall::bench
