// From roots and differences to findings: one defect, one leading finding, what follows from it
// nested below.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/alignment/sequence.h"
#include "analysis/analysis.h"
#include "analysis/record/changing_sizes.h"
#include "analysis/record/index.h"
#include "analysis/record/process_state.h"
#include "analysis/waits/playback.h"
#include "analysis/waits/unheard_ranks.h"
#include "analysis/waits/wait_graph.h"

namespace rollcall::analysis {

// More calls than a host can queue: a stream holds about a thousand launches, then the host waits.
inline constexpr uint64_t kQueuedCallsMax = 2048;

struct Remembered;

// What every maker of findings looks at.
struct Case {
  const Index& index;
  const Options& options;
  const JobState& job;
  const std::vector<Difference>& differences;
  const Progress& progress;
  const WaitGraph& graph;
  const Doubt& doubt;
  const ChangingSizes& sizes;
  Remembered& remembered;

  const trace::Process& process(uint32_t p) const { return index.run().processes[p]; }
  const Group& group(uint32_t g) const { return index.groups()[g]; }
};

// A finding and what orders it among the others.
struct Draft {
  Finding finding;
  int64_t since_ns = 0;
  uint32_t root = kNone;   // of the wait graph
  uint32_t node = kNone;   // the waiting call that the finding is about
  bool is_decided = true;  // false: a circle of which nothing tells who began it
  // Where it is, for the table: kNone if nowhere.
  uint32_t group = kNone;
  uint64_t seq = 0;
};

// Roots of the wait graph, and differences between sequences. Unsorted.
std::vector<Draft> judge_waits(const Case& the_case);
std::vector<Draft> judge_differences(const Case& the_case);
// Sends and receives: pairs that disagree, and, where `quiet` (nothing else explains a hang), sends
// that nobody received.
std::vector<Draft> judge_pairs(const Case& the_case, bool quiet);
// Errors, aborts and deaths by time; may take over drafts that they explain.
void judge_errors(const Case& the_case, std::vector<Draft>& drafts);
// Says with a finding what the recorder could not see and the finding rests on, and how sure that
// leaves it.
void weigh_blind_spots(const Case& the_case, std::vector<Draft>& drafts);
// Process groups whose members had different lists of ranks. Nobody need wait for that.
std::vector<Draft> judge_splits(const Case& the_case);
// What is worth saying of any run: lost records, leaks, versions, settings.
std::vector<Draft> judge_records(const Case& the_case);
// Captured sequences, or numbers of replays, that differ. Harmless in itself: for jobs that hang,
// or were ended before it could be seen whether they do.
struct GraphDraft {
  Draft draft;
  bool is_extra = false;  // those who are blamed have replayed a graph too often, and stand in it
};
std::optional<GraphDraft> judge_graphs(const Case& the_case);
// A job that stands still although all ranks made the same calls: what the GPUs did with them.
// Nothing when the GPUs were not watched, or what was seen does not decide.
std::optional<Draft> judge_gpu(const Case& the_case);
// Ranks that called nothing more because their GPUs are not through with what they called: of
// drafts that blame their silence the GPU's is made, and they follow from it.
void add_gpu_causes(const Case& the_case, std::vector<Draft>& drafts);
// The same of these processes; nothing where it is not so for all of them.
std::optional<Draft> judge_gpu_cause(const Case& the_case, const std::vector<uint32_t>& silent);
// Likewise, where a host thread stands inside a call that is no operation: which, and what NCCL
// waits for there. Nothing where none does.
std::optional<Draft> judge_life_cycle(const Case& the_case);
struct Equal {
  Finding finding;
  bool may_have_hung = false;  // and nothing on file says in what
};
// Equal sequences, but for what was captured (`captured`). What the GPU did with them is on file
// only where GPU timing was on.
Equal judge_equal(const Case& the_case, const std::optional<Draft>& captured);
// Pending calls that wait for a root, as consequences of its draft.
void nest_consequences(const Case& the_case, std::vector<Draft>& drafts);

// --- shared by the makers ------------------------------------------------------------------------
Draft make_draft(Verdict verdict, Confidence confidence);
// What NCCL answered: of an asynchronous error the error, not the result of asking for it.
int result_of(const trace::Event& event);
// Destroying, finalizing or aborting a communicator.
bool is_teardown(EventKind kind);
// Calls at one position of a communicator that name other arguments.
bool is_mismatch(Verdict verdict);
// The same, or a call of a communicator that is missing or comes out of order.
bool is_about_calls(Verdict verdict);
// The processes that it blames, rising.
std::vector<uint32_t> culprits_of(const Finding& finding);
Culprit culprit_of(const Case& the_case, uint32_t process, uint32_t group);
// The process's own entry of a communicator; null when it has none.
const trace::Comm* comm_of(const Case& the_case, uint32_t process, uint32_t group);
// How the process ended its part of a communicator before the call that it waits in now, so that it
// will call nothing there any more: the record of it; null where it did not.
const trace::Event* end_before_wait(const Case& the_case, uint32_t process, uint32_t group);
// The process that is this rank of a group; kNone where it left no file.
uint32_t process_at(const Case& the_case, uint32_t group, int32_t rank);
// The ranks of a group of which no file is a member, by their numbers in it.
std::vector<int32_t> ranks_without_member(const Group& group);
// The collectives of a process, by group.
std::unordered_map<uint32_t, const Lane*> lanes_of(const Case& the_case, uint32_t process);
void set_victims(const Case& the_case, const std::vector<uint32_t>& processes, Finding& finding);
Evidence op_evidence(const Case& the_case, uint32_t process, uint32_t op, const std::string& text);
// Evidence beyond this is left out.
inline constexpr size_t kEvidenceMax = 8;
void add_evidence(const Case& the_case, const Blocked& where, const std::string& text,
                  Finding& finding);
Evidence process_evidence(const Case& the_case, uint32_t process);
// The end of a communicator.
Evidence end_evidence(const Case& the_case, uint32_t process, const trace::Event& end);
// Of a root: ranks that join a communicator and contradict each other about it.
Draft draft_join_dispute(const Case& the_case, uint32_t root);
// The record of a call that waits in a node, for quoting: {process, op}; kNone if none is on file.
Blocked example_of(const Case& the_case, uint32_t node);
// How a communicator that a node is about is made: "CommInitRank", "CommSplit", "CommShrink",
// "CommGrow"; and the verdict where some ranks do not take part.
EventKind creating_call(const Case& the_case, const Node& node);
Verdict verdict_of_creation(const Case& the_case, const Node& node);
// "AllReduce of 1024 float32 (sum), seq 11 of world".
std::string node_text(const Case& the_case, uint32_t node);

}  // namespace rollcall::analysis
