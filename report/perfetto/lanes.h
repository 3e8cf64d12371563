// Slices of one track that overlap without one lying in the other: viewers cannot draw them on one
// line. They are spread over lanes, in each of which slices follow each other or lie within each
// other.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rollcall::report::perfetto {

inline constexpr int64_t kOpenEnd = INT64_MAX;  // of a slice that has none

struct Slice {
  int64_t start_ns = 0;
  int64_t end_ns = kOpenEnd;
  uint32_t item = 0;  // whatever the caller means by it
};

// A slice begins, or the innermost one of the lane ends.
struct Step {
  int64_t time_ns = 0;
  uint32_t item = 0;
  bool is_begin = true;
};

// The steps of each lane, in order. What does not fit into `lanes_max` lanes, as only a damaged
// file has it, ends with the slice of the last lane that it lies across.
std::vector<std::vector<Step>> lanes_of(std::vector<Slice> slices, size_t lanes_max = 64);

}  // namespace rollcall::report::perfetto
