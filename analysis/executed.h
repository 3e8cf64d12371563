// What the ranks' GPUs were given, each replay of a CUDA graph as the calls that it holds.
//
// A captured call takes a position in the order of its communicator, though nothing runs until its
// graph is replayed, and runs as often as that. Ranks that capture at other times, twice, or not at
// all, have other positions from there on, and may run the same all the same; ranks with equal
// positions may replay two graphs in another order. So where captured calls are on file and the
// order of the calls explains nothing, or accuses somebody of a difference that nobody waits for,
// the run is judged once more as it was executed.
#pragma once

#include <optional>

#include "analysis/analysis.h"
#include "trace/model.h"

namespace rollcall::analysis {

// The run with the calls of its replays in place of what was captured, numbered anew. Nothing where
// nothing was captured, or not all of it is on file: launches unseen, records lost, more than can
// be held.
std::optional<trace::Run> as_executed(const trace::Run& run);

// `recorded`: what was found of the run as it is on file. True: `executed`, of the other, is to be
// told.
bool is_better(const trace::Run& run, const Report& recorded, const Report& executed);

}  // namespace rollcall::analysis
