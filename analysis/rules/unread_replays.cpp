#include "analysis/rules/unread_replays.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/gpu/captured.h"
#include "analysis/gpu/fronts.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Graph;
using trace::Op;
using trace::Process;

bool is_unread(const Process& process, uint32_t number) {
  const Graph* graph = graph_of(process, number);
  if (graph == nullptr) return false;
  const auto on_file = std::count_if(process.ops.begin(), process.ops.end(), [&](const Op& op) {
    return is_captured(op) && op.graph == number && !is_mark(op.kind);
  });
  return static_cast<uint64_t>(on_file) < graph->operations;
}

// In the order in which they were captured.
std::vector<const Graph*> by_capture(const Process& process) {
  std::vector<const Graph*> graphs;
  for (const Graph& graph : process.graphs) graphs.push_back(&graph);
  std::stable_sort(graphs.begin(), graphs.end(),
                   [](const Graph* a, const Graph* b) { return a->first_ns < b->first_ns; });
  return graphs;
}

// Who launched what looks like the same graph less often: "rank 7 launched its graph of 2
// operations, captured at the same place, 1 time".
void add_fewer_launches(const Facts& facts, const OpRef& standing, Finding& finding) {
  const Op& launch = facts.index.op(standing.process, standing.op);
  const std::vector<const Graph*> graphs = by_capture(facts.process(standing.process));
  const auto mine = std::find_if(graphs.begin(), graphs.end(),
                                 [&](const Graph* graph) { return graph->graph == launch.graph; });
  const auto place = static_cast<size_t>(mine - graphs.begin());
  for (const uint32_t p : facts.index.active()) {
    if (finding.evidence.size() == kEvidenceMax) return;
    const std::vector<const Graph*> theirs = by_capture(facts.process(p));
    if (theirs.size() <= place) continue;
    const Graph* other = theirs[place];
    if (other->operations != (*mine)->operations || other->launches > launch.seq) continue;
    Evidence evidence = process_evidence(facts, p);
    evidence.text = fmt::format(
        "{} launched a graph that was captured at the same place, with as many operations, {}",
        rank_text(facts.process(p)), times_text(other->launches));
    finding.evidence.push_back(std::move(evidence));
  }
}

}  // namespace

std::vector<OpRef> find_unread_replays(const Facts& facts) {
  std::vector<OpRef> replays;
  for (const uint32_t p : facts.index.active()) {
    const std::vector<Op>& ops = facts.process(p).ops;
    const auto found = std::find_if(ops.rbegin(), ops.rend(),
                                    [&](const Op& op) { return is_standing_replay(facts, op); });
    if (found == ops.rend() || !is_unread(facts.process(p), found->graph)) continue;
    replays.push_back({p, static_cast<uint32_t>(ops.rend() - found - 1)});
  }
  return replays;
}

Draft draft_unread_replays(const Facts& facts, const std::vector<OpRef>& replays) {
  const OpRef& first = replays.front();
  const Op& launch = facts.index.op(first.process, first.op);
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.since_ns = started_at(launch);
  Finding& finding = draft.finding;
  std::vector<uint32_t> processes;
  for (const OpRef& replay : replays) processes.push_back(replay.process);
  add_fewer_launches(facts, first, finding);
  for (const OpRef& replay : replays) {
    const Op& op = facts.index.op(replay.process, replay.op);
    add_evidence(facts, replay,
                 fmt::format("replay {} of a graph of {} operations", op.seq + 1,
                             graph_of(facts.process(replay.process), op.graph)->operations),
                 finding);
  }
  finding.summary = fmt::format(
      "{} {} been in a replay of a CUDA graph for {}, and what that graph holds is no longer on "
      "file: whom it waits for cannot be told",
      processes_text(facts.index.run(), processes), processes.size() == 1 ? "has" : "have",
      span_text(facts.job.end_ns - started_at(launch)));
  finding.next =
      "see whether all ranks launched their graphs equally often; with ROLLCALL_HISTORY=1, the "
      "default, what graphs hold stays on file";
  return draft;
}

}  // namespace rollcall::analysis
