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

#include "analysis/finding.h"
#include "analysis/options.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Calls of all ranks, as executed, that are held: the newest.
inline constexpr size_t kExecutedMax = 1 << 20;

struct Executed {
  // The calls of the replays in place of what was captured, each with the number that it has among
  // all that was executed. Of a run of which not all is on file, or more than can be held, the
  // newest ones.
  trace::Run run;
  bool is_whole = true;  // every call of the run is in it
  // How far each replay that runs has come is known. Else nobody knows who waits in it.
  bool knows_places = true;
};
// Nothing where nothing was replayed, or it cannot be counted: launches unseen, not all on file
// that a graph holds, newest calls lost.
std::optional<Executed> as_executed(const trace::Run& run, size_t calls_max = kExecutedMax);

// `recorded`: what was found of the run as it is on file. True: `executed`, of the other, is to be
// told. That all is well there says nothing of what is not in it.
bool is_better(const trace::Run& run, const Report& recorded, const Executed& view,
               const Report& executed);

}  // namespace rollcall::analysis
