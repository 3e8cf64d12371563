// What can be the matter: each rule looks at the facts, and drafts what it finds there. The order
// in which they are asked is in procedure.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// Roots of the wait graph, and differences between sequences. Unsorted. The first is asked by
// StreamOrderChoice (views/stream_order.h), of each order of streams.
std::vector<Draft> judge_waits(const Facts& facts);
std::vector<Draft> judge_differences(const Facts& facts);
// Sends and receives: pairs that disagree, and, where `quiet` (nothing else explains a hang), sends
// that nobody received.
std::vector<Draft> judge_pairs(const Facts& facts, bool quiet);
// Errors, aborts and deaths by time; may take over drafts that they explain.
void judge_errors(const Facts& facts, std::vector<Draft>& drafts);
// Process groups whose members had different lists of ranks. Nobody need wait for that.
std::vector<Draft> judge_splits(const Facts& facts);
// What is worth saying of any run: lost records, leaks, versions, settings.
std::vector<Draft> judge_records(const Facts& facts);
// Captured sequences, or numbers of replays, that differ. Harmless in itself: for jobs that hang,
// or were ended before it could be seen whether they do.
struct GraphDraft {
  Draft draft;
  bool is_extra = false;  // those who are blamed have replayed a graph too often, and stand in it
};
std::optional<GraphDraft> judge_graphs(const Facts& facts);
// A job that stands still although all ranks made the same calls: what the GPUs did with them.
// Nothing when the GPUs were not watched, or what was seen does not decide.
std::optional<Draft> judge_gpu(const Facts& facts);
// Ranks that called nothing more because their GPUs are not through with what they called: of
// drafts that blame their silence the GPU's is made, and they follow from it.
void add_gpu_causes(const Facts& facts, std::vector<Draft>& drafts);
// The same of these processes; nothing where it is not so for all of them.
std::optional<Draft> judge_gpu_cause(const Facts& facts, const std::vector<uint32_t>& silent);
// Likewise, where a host thread stands inside a call that is no operation: which, and what NCCL
// waits for there. Nothing where none does.
std::optional<Draft> judge_life_cycle(const Facts& facts);
// A running job in which calls wait, none of them for as long as a verdict needs. `early` leads
// what an impatient reader would say; nothing unless that is a hang. It accuses nobody.
std::optional<Finding> judge_waiting(const Finding& early, const Options& options);
struct Equal {
  Finding finding;
  bool may_have_hung = false;  // and nothing on file says in what
};
// Equal sequences, but for what was captured (`captured`). What the GPU did with them is on file
// only where GPU timing was on.
Equal judge_equal(const Facts& facts, const std::optional<Draft>& captured);
// Of a root: ranks that join a communicator and contradict each other about it.
Draft draft_join_dispute(const Facts& facts, uint32_t root);

}  // namespace rollcall::analysis
