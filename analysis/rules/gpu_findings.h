// What is found of calls that GPUs do not come to, or to no end with.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/gpu/gpu_calls.h"
#include "analysis/rules/replay_waits.h"
#include "analysis/words/draft.h"

namespace rollcall::analysis {

// Of the fronts of one process the one with the oldest call.
Front oldest_of(const Facts& facts, std::span<const Front> fronts);
// Neither called nor at the front of its stream for less time than counts.
bool waits_long(const Facts& facts, const Front& front);

// Of a replay that all ranks have begun: where a rank stands together with all that it waits for,
// or, where there is none, where the first one stands.
InsideReplay place_of_replay(const Facts& facts, const GpuCall& call);

// Streams that do not come to their fronts, one of each process. Of ranks on which nothing else
// runs, the first leads.
Draft draft_blocked(const GpuView& gpu, const std::vector<Front>& blocked);
// A call that all ranks have begun. `rivals`: a circle that it is in; empty if it is in none.
Draft draft_stuck(const GpuView& gpu, const GpuCall& call, const CallCircle& rivals);
// A call that all ranks have begun, the last one too short a time ago to call it stuck.
Draft draft_young(const GpuView& gpu, const GpuCall& call);
// GPUs that have come to the calls of several communicators in different orders; nothing where
// there are none, or where each keeps to the order of its host's calls.
std::optional<Draft> draft_crossed(const GpuView& gpu);

}  // namespace rollcall::analysis
