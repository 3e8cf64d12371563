// What a rank does at each moment, as far as its calls tell.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/model.h"

namespace rollcall::report::perfetto {

// Of several at once it is the last one of this list.
#define ROLLCALL_RANK_STATES(X)                              \
  X(outside, "outside NCCL")                                 \
  X(enqueued, "enqueued") /* and not yet begun by the GPU */ \
  X(in_call, "in a call")                                    \
  X(on_gpu, "on the GPU")                                    \
  X(stopped, "process stopped")                              \
  X(ended, "process ended")                                  \
  X(dead, "process dead")
enum class RankState : uint8_t {
#define ROLLCALL_X(name, text) name,
  ROLLCALL_RANK_STATES(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
inline constexpr std::string_view kRankStates[] = {
#define ROLLCALL_X(name, text) text,
    ROLLCALL_RANK_STATES(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr size_t kRankStateCount = static_cast<size_t>(RankState::Count);

struct StateChange {
  int64_t time_ns = 0;
  RankState state = RankState::outside;  // from then on
};

// In the order of their times, which differ, as do the states of neighbours. Outside until the
// first; the last one lasts.
std::vector<StateChange> states_of(const trace::Process& process);

// Whether a call without a return is one that has not returned.
bool is_still_inside(const trace::Process& process, const trace::Op& op);

}  // namespace rollcall::report::perfetto
