// Replays of CUDA graphs of which nothing on file tells any more what they hold.
//
// A graph is captured at a job's start. Without history, or in a file of a recorder that kept
// nothing aside, that is overwritten, and whom a replay waits for cannot be told: neither is the
// rank to blame whose host waits for such a replay, nor who owes the call that it is inside of.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/record/index.h"
#include "analysis/words/draft.h"

namespace rollcall::analysis {

// The launch that each process stands in; those without one are left out. By process.
std::vector<OpRef> find_unread_replays(const Facts& facts);
// Says so; `replays` are some.
Draft draft_unread_replays(const Facts& facts, const std::vector<OpRef>& replays);

}  // namespace rollcall::analysis
