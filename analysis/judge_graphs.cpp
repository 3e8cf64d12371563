// CUDA graphs: did the ranks capture alike, and replay as often?
//
// A captured operation has its position in the order of calls like every other; it runs when its
// graph is replayed, any number of times, without NCCL being called. So ranks whose calls are equal
// may wait for each other all the same: one has captured less than the others, or has replayed less
// often. Graphs of different ranks are the same where they hold the same positions of a
// communicator; the identity that the driver gives them says nothing. The profiler plugin alone
// knows what is captured, but neither into which graph nor when one is launched: what stands
// together on a communicator is then taken for one graph.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "analysis/captured.h"
#include "analysis/judge.h"
#include "analysis/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

// The operations of one graph of one member on one communicator.
struct CapturedRun {
  uint32_t member = kNone;  // index into Group::members
  uint32_t process = kNone;
  uint32_t graph = 0;
  uint64_t first = 0;         // seq
  std::vector<OpKind> kinds;  // of the positions from `first` on
};

// What is known of the replays of a process's graphs.
struct Replays {
  uint64_t launches = 0;
  uint32_t last = kNoRecord;  // index into Process::ops
};
using ReplayTable = std::map<uint32_t, Replays>;

bool watches_graphs(const Process& process) {
  return process.meta.find("graph_launches") != process.meta.end();
}

ReplayTable replays_of(const Process& process, bool* has_captured) {
  ReplayTable table;
  for (const trace::Graph& graph : process.graphs) table[graph.graph].launches = graph.launches;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    *has_captured |= op.graph != 0;
    if (op.kind != OpKind::GraphLaunch || op.state == trace::OpState::failed) continue;
    Replays& replays = table[op.graph];
    replays.launches = std::max(replays.launches, op.seq + 1);
    replays.last = i;
  }
  return table;
}

// By first position. A member whose records do not reach back to the beginning of a run has a
// shorter one: its runs begin where its records do, and are left out.
std::vector<CapturedRun> runs_of(const Case& c, const Group& group, uint32_t m) {
  std::vector<CapturedRun> runs;
  const Member& member = group.members[m];
  uint32_t graph = 0;
  for (uint64_t seq = member.lane.first; seq < member.lane.end(); ++seq) {
    if (!member.lane.has(seq)) {
      graph = 0;
      continue;
    }
    const Op& op = c.index.op_at(member, seq);
    if (op.graph != 0 && op.graph != graph) {
      runs.push_back({m, member.process, op.graph, seq, {}});
    }
    graph = op.graph;
    if (graph != 0) runs.back().kinds.push_back(op.kind);
  }
  if (!runs.empty() && member.lane.first != 0 && runs.front().first == member.lane.first) {
    runs.erase(runs.begin());
  }
  return runs;
}

std::string place_text(const Group& group, uint64_t seq) {
  return fmt::format("seq {} of {}", seq, group.name);
}

std::string call_at(const Case& c, const Member& member, uint64_t seq) {
  return member.lane.has(seq) ? call_text(c.index.op_at(member, seq)) : "no call";
}

void add_culprit(const Case& c, const Member& member, uint32_t g, uint64_t seq, Finding& finding) {
  Culprit culprit = culprit_of(c, member.process, g);
  culprit.seq = seq;
  if (member.lane.has(seq)) {
    culprit.op = std::string(rollcall::name_of(c.index.op_at(member, seq).kind));
  }
  finding.culprits.push_back(std::move(culprit));
}

std::vector<uint32_t> processes_of(const Group& group) {
  std::vector<uint32_t> processes;
  for (const Member& member : group.members) processes.push_back(member.process);
  return processes;
}

// What each member has at the position at which some member's graph begins.
struct Comparison {
  uint64_t first = 0;
  std::vector<const CapturedRun*> runs;  // by member; null: nothing captured there
};

// The commonest run, by length and operations; of equally common ones the longest, since the
// others' ranks wait for what is missing.
const CapturedRun* common_run(const Comparison& comparison) {
  const CapturedRun* best = nullptr;
  size_t best_count = 0;
  for (const CapturedRun* run : comparison.runs) {
    if (run == nullptr) continue;
    const auto count = static_cast<size_t>(std::count_if(
        comparison.runs.begin(), comparison.runs.end(),
        [&](const CapturedRun* r) { return r != nullptr && r->kinds == run->kinds; }));
    const bool is_better = best == nullptr || count > best_count ||
                           (count == best_count && run->kinds.size() > best->kinds.size());
    if (is_better) best = run;
    if (is_better) best_count = count;
  }
  return best;
}

uint64_t first_difference(const CapturedRun& common, const CapturedRun* other) {
  if (other == nullptr) return 0;
  const auto [a, b] = std::mismatch(common.kinds.begin(), common.kinds.end(), other->kinds.begin(),
                                    other->kinds.end());
  (void)b;
  return static_cast<uint64_t>(a - common.kinds.begin());
}

// Whether a member without the call at this position is past it, not on its way: it has launched a
// graph since, or made a call that the other member made later.
enum class Past : uint8_t { no, called, launched };

// The lanes of a process, by group.
std::map<uint32_t, const Lane*> lanes_of(const Case& c, uint32_t p) {
  std::map<uint32_t, const Lane*> lanes;
  for (uint32_t comm = 0; comm < c.process(p).comms.size(); ++comm) {
    const Seat seat = c.index.seat(p, comm);
    if (seat.member != kNone) lanes[seat.group] = &c.group(seat.group).members[seat.member].lane;
  }
  return lanes;
}

Past past_of(const Case& c, const Member& member, const Member& usual, uint64_t seq) {
  const uint32_t last = member.lane.ops.empty() ? kNoRecord : member.lane.ops.back();
  const uint32_t there = usual.lane.ops[seq - usual.lane.first];
  const std::map<uint32_t, const Lane*> lanes = lanes_of(c, usual.process);
  const std::vector<Op>& ops = c.process(member.process).ops;
  // What is older than all records of this communicator may have been launched before.
  const bool tells_launches = last != kNoRecord || seq == 0;
  Past past = Past::no;
  for (uint32_t i = last == kNoRecord ? 0 : last + 1; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (op.state == trace::OpState::failed) continue;
    if (op.kind == OpKind::GraphLaunch && tells_launches) return Past::launched;
    if (!is_collective(op.kind)) continue;
    const auto theirs = lanes.find(c.index.seat(member.process, op.comm).group);
    if (theirs == lanes.end() || !theirs->second->has(op.seq)) continue;
    if (theirs->second->ops[op.seq - theirs->second->first] > there) past = Past::called;
  }
  return past;
}

// A member that captured otherwise than the common run did.
struct Deviant {
  uint32_t member = kNone;
  uint64_t position = 0;  // of the first difference, in the graph
};

// Nothing is on file of a call, though it was made, or may have been: overwritten, or torn.
bool is_lost(const Case& c, const Member& member, uint64_t seq) {
  return !member.lane.has(seq) && member.lane.called + c.process(member.process).torn > seq;
}

bool is_same_call(const Case& c, const Member& a, const Member& b, uint64_t seq) {
  return a.lane.has(seq) && b.lane.has(seq) &&
         c.index.op_at(a, seq).kind == c.index.op_at(b, seq).kind;
}

// Whose records have gaps, and who has not come as far, is not among them.
std::vector<Deviant> deviants_of(const Case& c, const Group& group, const Comparison& comparison,
                                 const CapturedRun& common) {
  std::vector<Deviant> deviants;
  const Member& usual = group.members[common.member];
  for (uint32_t m = 0; m < group.members.size(); ++m) {
    const Member& member = group.members[m];
    const CapturedRun* run = comparison.runs[m];
    if (member.lane.first > comparison.first) continue;
    if (run != nullptr && run->kinds == common.kinds) continue;
    const uint64_t position = first_difference(common, run);
    const uint64_t seq = comparison.first + position;
    if (is_lost(c, member, seq) || is_lost(c, usual, seq)) continue;
    const bool is_absent = !member.lane.has(seq) && usual.lane.has(seq);
    if (is_absent && past_of(c, member, usual, seq) == Past::no) continue;
    // Nobody knows whether the graph was launched: a call that both made may be through.
    const bool knows_graphs =
        watches_graphs(c.process(member.process)) || watches_graphs(c.process(usual.process));
    if (!knows_graphs && is_same_call(c, member, usual, seq)) continue;
    deviants.push_back({m, position});
  }
  return deviants;
}

std::string counts_text(const Case& c, const Group& group, const Comparison& comparison,
                        const CapturedRun& common, const std::vector<Deviant>& deviants,
                        uint64_t position) {
  const CapturedRun* first = comparison.runs[deviants.front().member];
  const Member& usual = group.members[common.member];
  const std::string reference = rank_text(c.process(usual.process));
  const bool knows_graph = !c.process(usual.process).graphs.empty();
  std::vector<uint32_t> processes;
  for (const Deviant& deviant : deviants) {
    processes.push_back(group.members[deviant.member].process);
  }
  return fmt::format(
      "{} captured {} operations of {} {} seq {}{}, {} captured {}: the first difference is "
      "operation {} of {}, {} on {}, {}",
      processes_text(c.index.run(), processes), first == nullptr ? 0 : first->kinds.size(),
      group.name, knows_graph ? "into the graph that begins at" : "into CUDA graphs from",
      comparison.first, knows_graph ? "" : " on", reference, common.kinds.size(), position + 1,
      knows_graph ? "the graph" : "these",
      position < common.kinds.size() ? call_at(c, usual, comparison.first + position) : "nothing",
      reference, place_text(group, comparison.first + position));
}

// One graph of the communicator against the others' at the same positions.
std::optional<Draft> judge_captures(const Case& c, uint32_t g, const Comparison& comparison) {
  const Group& group = c.group(g);
  const CapturedRun* common = common_run(comparison);
  if (common == nullptr) return std::nullopt;
  const std::vector<Deviant> deviants = deviants_of(c, group, comparison, *common);
  if (deviants.empty()) return std::nullopt;
  uint64_t position = ~uint64_t{0};
  for (const Deviant& deviant : deviants) position = std::min(position, deviant.position);
  const uint64_t seq = comparison.first + position;
  // Ranks that make the same call without a graph, or in another one, need not wait for each other.
  const Member& usual = group.members[common->member];
  const bool lacks_call =
      std::any_of(deviants.begin(), deviants.end(), [&](const Deviant& deviant) {
        const Member& member = group.members[deviant.member];
        if (!usual.lane.has(seq)) return false;
        if (!member.lane.has(seq)) return past_of(c, member, usual, seq) == Past::launched;
        return !is_same_call(c, member, usual, seq);
      });
  Draft draft =
      make_draft(Verdict::graph_diverged, lacks_call ? Confidence::certain : Confidence::likely);
  draft.group = g;
  draft.seq = seq;
  Finding& finding = draft.finding;
  for (const Deviant& deviant : deviants) {
    const Member& member = group.members[deviant.member];
    add_culprit(c, member, g, seq, finding);
    if (member.lane.has(seq)) {
      finding.evidence.push_back(
          op_evidence(c, member.process, member.lane.ops[seq - member.lane.first],
                      c.index.op_at(member, seq).graph != 0 ? "captured" : "not captured"));
    }
  }
  if (usual.lane.has(seq)) {
    finding.evidence.push_back(
        op_evidence(c, usual.process, usual.lane.ops[seq - usual.lane.first], "captured"));
  }
  finding.summary = counts_text(c, group, comparison, *common, deviants, position);
  finding.next =
      "look at what decides which operations are captured: a branch on the rank, a warm-up that "
      "differs, a model part that only some ranks have";
  const Op& op = c.index.op_at(usual, comparison.first);
  draft.since_ns = op.called_ns;
  set_victims(c, processes_of(group), finding);
  return draft;
}

std::string since_text(const Case& c, const Op& launch) {
  return span_text(c.job.end_ns - launch.called_ns);
}

// The same graph on all members: who has replayed it less often, and does somebody wait for that?
std::optional<Draft> judge_replays(const Case& c, uint32_t g, const Comparison& comparison,
                                   const std::vector<ReplayTable>& tables) {
  const Group& group = c.group(g);
  const auto replays = [&](const CapturedRun& run) {
    const auto found = tables[run.process].find(run.graph);
    return found == tables[run.process].end() ? Replays{} : found->second;
  };
  const CapturedRun* front = nullptr;
  for (const CapturedRun* run : comparison.runs) {
    if (run == nullptr || !watches_graphs(c.process(run->process))) return std::nullopt;
    if (front == nullptr || replays(*run).launches > replays(*front).launches) front = run;
  }
  if (front == nullptr || replays(*front).last == kNoRecord) return std::nullopt;
  const Replays most = replays(*front);
  const Op& launch = c.index.op(front->process, most.last);
  const bool is_through = launch.finished_ns != 0 || launch.mark == GpuMark::finished;
  if (is_through || !c.job.is_stale(launch.called_ns)) return std::nullopt;
  Draft draft = make_draft(Verdict::graph_diverged,
                           launch.awaits_gpu ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> behind;
  uint64_t least = most.launches;
  for (const CapturedRun* run : comparison.runs) {
    const Replays theirs = replays(*run);
    if (theirs.launches == most.launches) continue;
    const Member& member = group.members[run->member];
    behind.push_back(run->process);
    least = std::min(least, theirs.launches);
    add_culprit(c, member, g, comparison.first, finding);
    if (theirs.last != kNoRecord) {
      finding.evidence.push_back(
          op_evidence(c, run->process, theirs.last, fmt::format("replay {}", theirs.launches)));
    }
  }
  if (behind.empty()) return std::nullopt;
  const std::string position = replay_text(c, front->process, front->graph);
  finding.evidence.push_back(op_evidence(
      c, front->process, most.last,
      fmt::format("replay {}{}{}", most.launches, position.empty() ? "" : ", ", position)));
  const Member& usual = group.members[front->member];
  finding.summary = fmt::format(
      "{} replayed the graph that begins with {}, {}, {} times, {} {} times: that replay has been "
      "waiting for {}{}{}",
      processes_text(c.index.run(), behind), call_at(c, usual, comparison.first),
      place_text(group, comparison.first), least, rank_text(c.process(front->process)),
      most.launches, since_text(c, launch), position.empty() ? "" : " and ", position);
  finding.next =
      "look at what decides how often the graph is launched: the number of steps or micro-batches, "
      "a path that runs the operations without the graph";
  draft.group = g;
  draft.seq = comparison.first;
  draft.since_ns = launch.called_ns;
  set_victims(c, processes_of(group), finding);
  return draft;
}

// All graphs of a communicator, by the position at which they begin.
std::vector<Comparison> comparisons_of(const Group& group, const std::vector<CapturedRun>& runs) {
  std::map<uint64_t, Comparison> by_position;
  for (const CapturedRun& run : runs) {
    Comparison& comparison = by_position[run.first];
    comparison.first = run.first;
    comparison.runs.resize(group.members.size());
    comparison.runs[run.member] = &run;
  }
  std::vector<Comparison> comparisons;
  for (auto& [first, comparison] : by_position) comparisons.push_back(std::move(comparison));
  return comparisons;
}

void keep_earlier(std::optional<Draft>&& found, std::optional<Draft>& earliest) {
  if (found && (!earliest || found->since_ns < earliest->since_ns)) earliest = std::move(found);
}

}  // namespace

std::optional<Draft> judge_graphs(const Case& c) {
  const std::vector<uint32_t>& active = c.index.active();
  std::vector<ReplayTable> tables(c.index.run().processes.size());
  bool has_captured = false;
  for (const uint32_t p : active) {
    tables[p] = replays_of(c.process(p), &has_captured);
  }
  if (!has_captured) return std::nullopt;
  std::optional<Draft> captures;
  std::optional<Draft> replays;
  for (uint32_t g = 0; g < c.index.groups().size(); ++g) {
    const Group& group = c.group(g);
    if (!group.may_be_matched || !group.is_whole()) continue;
    std::vector<CapturedRun> runs;
    for (uint32_t m = 0; m < group.members.size(); ++m) {
      for (CapturedRun& run : runs_of(c, group, m)) runs.push_back(std::move(run));
    }
    for (const Comparison& comparison : comparisons_of(group, runs)) {
      std::optional<Draft> captured = judge_captures(c, g, comparison);
      if (!captured) keep_earlier(judge_replays(c, g, comparison, tables), replays);
      keep_earlier(std::move(captured), captures);
    }
  }
  // What was captured differently explains why replays do not end.
  return captures ? std::move(captures) : std::move(replays);
}

}  // namespace rollcall::analysis
