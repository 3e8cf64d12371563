// Who came last to the collectives of a communicator, and how long the others waited for it: by the
// times of the host's calls, where they are on file.
//
// Each time is of its host's own clock (trace/clocks.h): across hosts a lateness is as good as the
// clocks agree.
//
// Cost: linear in the records on file. Threads: plain functions.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/record/index.h"

namespace rollcall::report {

struct RankLateness {
  uint32_t member = 0;      // index into Group::members
  uint64_t times_last = 0;  // of the calls that all ranks made, with times
  int64_t behind_ns = 0;    // in these together: how much later it came than the one before it
  int64_t median_ns = 0;    // of how much later than the first it came, in all calls
};

struct LateCall {
  uint64_t seq = 0;
  uint32_t member = 0;    // that came last
  int64_t spread_ns = 0;  // from the first to the last
};

struct Lateness {
  uint64_t calls = 0;  // that are judged
  bool across_hosts = false;
  int64_t doubt_ns = 0;             // of clocks that were moved, the largest; 0: none was
  std::vector<RankLateness> ranks;  // most often last first; those that never were are left out
  std::vector<LateCall> latest;     // the largest spread first
};

inline constexpr size_t kLateCallsMax = 20;

// Of the positions at which every member has a time. Members of other recorders may have none: then
// `calls` is 0.
Lateness lateness_of(const analysis::Index& index, uint32_t group);

}  // namespace rollcall::report
