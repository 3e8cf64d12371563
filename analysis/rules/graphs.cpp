// CUDA graphs: did the ranks capture alike, and replay as often?
//
// A captured operation has its position in the order of calls like every other; it runs when its
// graph is replayed, any number of times, without NCCL being called. So ranks whose calls are equal
// may wait for each other all the same: one has captured less than the others, or has replayed less
// often. Graphs of different ranks are the same where they hold the same positions of a
// communicator; the identity that the driver gives them says nothing. Without GPU timing the
// profiler plugin knows what is captured, but neither into which graph nor when one is launched:
// what stands together on a communicator is then taken for one graph.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "analysis/gpu/captured.h"
#include "analysis/gpu/fronts.h"
#include "analysis/rules/replay_waits.h"
#include "analysis/rules/rules.h"
#include "analysis/words/label.h"
#include "analysis/words/replays.h"

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

// Whether two graphs have two numbers: what the profiler plugin hears of captures, alone or beside
// a shim that does not time the GPU, is graph 1.
bool tells_graphs_apart(const Process& process) {
  const auto timing = process.meta.find("gpu_timing");
  const bool is_timed = timing != process.meta.end() && timing->second.rfind("off", 0) != 0;
  return watches_graphs(process) || is_timed;
}

// With an entry for each graph that anything is on file of.
ReplayTable replays_of(const Process& process) {
  ReplayTable table;
  for (const trace::Graph& graph : process.graphs) table[graph.graph].launches = graph.launches;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (op.graph == 0) continue;
    Replays& replays = table[op.graph];
    if (op.kind != OpKind::GraphLaunch || op.state == trace::OpState::failed) continue;
    replays.launches = std::max(replays.launches, op.seq + 1);
    replays.last = i;
  }
  return table;
}

// Those of which all that was captured is on file.
std::set<uint32_t> whole_graphs(const Process& process) {
  std::map<uint32_t, uint64_t> on_file;
  for (const Op& op : process.ops) {
    if (is_captured(op) && !is_mark(op.kind)) ++on_file[op.graph];
  }
  std::set<uint32_t> whole;
  for (const trace::Graph& graph : process.graphs) {
    if (on_file[graph.graph] == graph.operations) whole.insert(graph.graph);
  }
  return whole;
}

// By first position. A run that may have begun earlier, in what is no longer on file or was lost,
// is left out.
std::vector<CapturedRun> runs_of(const Facts& facts, const Group& group, uint32_t m) {
  std::vector<CapturedRun> runs;
  const Lane& lane = group.members[m].lane;
  const std::set<uint32_t> whole = whole_graphs(facts.process(group.members[m].process));
  uint32_t graph = 0;   // of the call before
  bool is_cut = false;  // the run that it belongs to
  for (uint64_t seq = lane.first; seq < lane.end(); seq = lane.next(seq + 1)) {
    if (!lane.has(seq)) continue;
    const Op& op = facts.index.op_at(group.members[m], seq);
    const bool lacks_before = seq != 0 && !lane.has(seq - 1);
    const bool begins = lacks_before || op.graph != graph;
    if (begins) is_cut = lacks_before && whole.count(op.graph) == 0;
    graph = op.graph;
    if (graph == 0 || is_cut) continue;
    if (begins) runs.push_back({m, group.members[m].process, graph, seq, {}});
    runs.back().kinds.push_back(op.kind);
  }
  return runs;
}

std::string place_text(const Group& group, uint64_t seq) {
  return fmt::format("seq {} of {}", seq, group.name);
}

std::string call_at(const Facts& facts, const Member& member, uint64_t seq) {
  if (!member.lane.has(seq)) return "no call";
  return call_text(facts.index, member.process, facts.index.op_at(member, seq));
}

void add_culprit(const Facts& facts, const Member& member, uint32_t g, uint64_t seq,
                 Finding& finding) {
  Culprit culprit = culprit_of(facts, member.process, g);
  culprit.seq = seq;
  if (member.lane.has(seq)) {
    culprit.op = std::string(rollcall::name_of(facts.index.op_at(member, seq).kind));
  }
  finding.culprits.push_back(std::move(culprit));
}

// What each member has at the position at which some member's graph begins.
struct Comparison {
  uint64_t first = 0;
  std::vector<const CapturedRun*> runs;  // by member; null: nothing captured there
};

// How many ranks of the communicator's siblings captured the same at the position of a run. A
// communicator of two has no majority of its own.
size_t count_in_siblings(const Facts& facts, uint32_t g, const CapturedRun& run) {
  constexpr size_t kAskedMax = 16;
  size_t asked = 0;
  size_t same = 0;
  for (uint32_t h = 0; h < facts.index.groups().size() && asked < kAskedMax; ++h) {
    const Group& sibling = facts.group(h);
    const bool is_sibling = h != g && sibling.parent != kNone && sibling.may_be_matched &&
                            facts.index.role_of(h) == facts.index.role_of(g);
    if (!is_sibling) continue;
    ++asked;
    for (uint32_t m = 0; m < sibling.members.size(); ++m) {
      const std::vector<CapturedRun> runs = runs_of(facts, sibling, m);
      same += std::any_of(runs.begin(), runs.end(), [&](const CapturedRun& theirs) {
        return theirs.first == run.first && theirs.kinds == run.kinds;
      });
    }
  }
  return same;
}

// The commonest run, by length and operations; of equally common ones what siblings captured, or
// the longest, since the others' ranks wait for what is missing.
const CapturedRun* common_run(const Facts& facts, uint32_t g, const Comparison& comparison) {
  const auto by_kinds = [](const CapturedRun* a, const CapturedRun* b) {
    return a->kinds < b->kinds;
  };
  std::map<const CapturedRun*, size_t, decltype(by_kinds)> counts(by_kinds);
  for (const CapturedRun* run : comparison.runs) {
    if (run != nullptr) ++counts[run];
  }
  size_t most = 0;
  for (const auto& [run, count] : counts) most = std::max(most, count);
  std::erase_if(counts, [&](const auto& entry) { return entry.second != most; });
  const CapturedRun* best = nullptr;
  std::pair<size_t, size_t> best_score;
  for (const auto& [run, count] : counts) {
    const size_t siblings = counts.size() > 1 ? count_in_siblings(facts, g, *run) : 0;
    const std::pair score(siblings, run->kinds.size());
    if (best == nullptr || score > best_score) {
      best = run;
      best_score = score;
    }
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

// Whether a member without a call is past the place where another one made it, not on its way: it
// made a call that the other one made later, or it has launched the graph that lacks the call.
enum class Past : uint8_t { no, called, launched };

// The members of a group, two by two: what one that has no more calls there called since, by what
// the other one called. Each pair is looked at once.
class Passing {
 public:
  Passing(const Facts& facts, const Group& group, const std::vector<ReplayTable>& tables)
      : facts_(facts), group_(group), tables_(tables) {}

  // `run`: what the member without the call at `seq` captured where the other one's graph begins.
  Past past(uint32_t without, const CapturedRun* run, uint32_t with, uint64_t seq) {
    const Member& member = group_.members[without];
    if (run != nullptr) {
      const auto replays = tables_[member.process].find(run->graph);
      const bool is_known = replays != tables_[member.process].end();
      if (is_known && replays->second.launches > 0) return Past::launched;
    }
    const Lane& lane = group_.members[with].lane;
    const uint32_t there = lane.at(seq);
    return latest_call(without, with) > int64_t{there} ? Past::called : Past::no;
  }

 private:
  // The latest call of `with`, by its index, that `without` made behind its last one here; -1:
  // none.
  int64_t latest_call(uint32_t without, uint32_t with) {
    const auto [found, is_new] = latest_.try_emplace({without, with}, -1);
    if (!is_new) return found->second;
    const Member& member = group_.members[without];
    const std::unordered_map<uint32_t, const Lane*>& lanes = lanes_of(group_.members[with].process);
    const std::vector<Op>& ops = facts_.process(member.process).ops;
    const uint32_t last = member.lane.ops.empty() ? kNoRecord : member.lane.ops.back();
    for (uint32_t i = last == kNoRecord ? 0 : last + 1; i < ops.size(); ++i) {
      const Op& op = ops[i];
      if (op.state == trace::OpState::failed || !is_collective(op.kind)) continue;
      const auto theirs = lanes.find(facts_.index.seat(member.process, op.comm).group);
      if (theirs == lanes.end() || !theirs->second->has(op.seq)) continue;
      const uint32_t call = theirs->second->at(op.seq);
      found->second = std::max(found->second, int64_t{call});
    }
    return found->second;
  }

  const std::unordered_map<uint32_t, const Lane*>& lanes_of(uint32_t p) {
    const auto [found, is_new] = lanes_.try_emplace(p);
    if (is_new) found->second = analysis::lanes_of(facts_, p);
    return found->second;
  }

  const Facts& facts_;
  const Group& group_;
  const std::vector<ReplayTable>& tables_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> latest_;
  std::map<uint32_t, std::unordered_map<uint32_t, const Lane*>> lanes_;
};

// A member that captured otherwise than the common run did.
struct Deviant {
  uint32_t member = kNone;
  uint64_t seq = 0;  // of the first difference
  size_t captured = 0;
  bool is_certain = false;
};

// Nothing is on file of a call, though it was made, or may have been: overwritten, or torn.
bool is_lost(const Facts& facts, const Member& member, uint64_t seq) {
  return !member.lane.has(seq) && member.lane.called + facts.process(member.process).torn > seq;
}

// Nothing where the records have gaps, or where one of the two has simply not come as far.
std::optional<Deviant> deviant_of(const Facts& facts, const Group& group,
                                  const Comparison& comparison, const CapturedRun& common,
                                  uint32_t m, Passing& passing) {
  const Member& member = group.members[m];
  const Member& usual = group.members[common.member];
  const CapturedRun* run = comparison.runs[m];
  if (run != nullptr && run->kinds == common.kinds) return std::nullopt;
  const uint64_t seq = comparison.first + first_difference(common, run);
  // The run may have begun earlier, and was left out then.
  const bool knows_begin = comparison.first == 0 || !is_lost(facts, member, comparison.first - 1);
  if (!knows_begin || is_lost(facts, member, seq) || is_lost(facts, usual, seq))
    return std::nullopt;
  Deviant deviant{m, seq, run == nullptr ? 0 : run->kinds.size(), false};
  if (member.lane.has(seq) != usual.lane.has(seq)) {
    const Past past = member.lane.has(seq) ? passing.past(common.member, &common, m, seq)
                                           : passing.past(m, run, common.member, seq);
    if (past == Past::no) return std::nullopt;
    deviant.is_certain = past == Past::launched;
    return deviant;
  }
  if (!member.lane.has(seq)) return std::nullopt;
  deviant.is_certain = facts.index.op_at(member, seq).kind != facts.index.op_at(usual, seq).kind;
  // A call that both made may be through where nobody saw whether a graph was launched. Else, too,
  // ranks that make the same call without a graph, or in another one, need not wait for each other.
  const bool knows_launches =
      watches_graphs(facts.process(member.process)) || watches_graphs(facts.process(usual.process));
  if (!deviant.is_certain && !knows_launches) return std::nullopt;
  return deviant;
}

std::string operations_text(size_t least, size_t most) {
  if (least != most) return fmt::format("{} to {} operations", least, most);
  return fmt::format("{} operation{}", most, most == 1 ? "" : "s");
}

std::string counts_text(const Facts& facts, const Group& group, const Comparison& comparison,
                        const CapturedRun& common, const std::vector<Deviant>& deviants,
                        uint64_t seq) {
  const Member& usual = group.members[common.member];
  const std::string reference = rank_text(facts.process(usual.process));
  const bool knows_graph = tells_graphs_apart(facts.process(usual.process));
  std::vector<uint32_t> processes;
  size_t least = deviants.front().captured;
  size_t most = least;
  for (const Deviant& deviant : deviants) {
    processes.push_back(group.members[deviant.member].process);
    least = std::min(least, deviant.captured);
    most = std::max(most, deviant.captured);
  }
  const uint64_t position = seq - comparison.first;
  return fmt::format(
      "{} captured {} of {} {} seq {}{}, {} captured {}: the first difference is operation {} of "
      "{}, {} on {}, {}",
      processes_text(facts.index.run(), processes), operations_text(least, most), group.name,
      knows_graph ? "into the graph that begins at" : "into CUDA graphs from", comparison.first,
      knows_graph ? "" : " on", reference, common.kinds.size(), position + 1,
      knows_graph ? "the graph" : "these",
      position < common.kinds.size() ? call_at(facts, usual, seq) : "nothing", reference,
      place_text(group, seq));
}

// One graph of the communicator against the others' at the same positions.
std::optional<Draft> judge_captures(const Facts& facts, uint32_t g, const Comparison& comparison,
                                    Passing& passing) {
  const Group& group = facts.group(g);
  const CapturedRun* common = common_run(facts, g, comparison);
  if (common == nullptr) return std::nullopt;
  std::vector<Deviant> deviants;
  for (uint32_t m = 0; m < group.members.size(); ++m) {
    const std::optional<Deviant> deviant =
        deviant_of(facts, group, comparison, *common, m, passing);
    if (deviant) deviants.push_back(*deviant);
  }
  if (deviants.empty()) return std::nullopt;
  const auto by_seq = [](const Deviant& a, const Deviant& b) { return a.seq < b.seq; };
  const uint64_t seq = std::min_element(deviants.begin(), deviants.end(), by_seq)->seq;
  const bool is_certain = std::all_of(deviants.begin(), deviants.end(),
                                      [](const Deviant& deviant) { return deviant.is_certain; });
  Draft draft =
      make_draft(Verdict::graph_diverged, is_certain ? Confidence::certain : Confidence::likely);
  draft.group = g;
  draft.seq = seq;
  Finding& finding = draft.finding;
  for (const Deviant& deviant : deviants) {
    const Member& member = group.members[deviant.member];
    add_culprit(facts, member, g, deviant.seq, finding);
    if (member.lane.has(deviant.seq)) {
      finding.evidence.push_back(op_evidence(
          facts, member.process, member.lane.at(deviant.seq),
          facts.index.op_at(member, deviant.seq).graph != 0 ? "captured" : "not captured"));
    }
  }
  const Member& usual = group.members[common->member];
  if (usual.lane.has(seq)) {
    finding.evidence.push_back(op_evidence(facts, usual.process, usual.lane.at(seq), "captured"));
  }
  finding.summary = counts_text(facts, group, comparison, *common, deviants, seq);
  const trace::Process& reference = facts.process(usual.process);
  // Of the plugin alone weigh_blind_spots() says it.
  if (!tells_graphs_apart(reference) && reference.knowledge.creations) {
    finding.confidence = Confidence::likely;
    finding.summary +=
        "; launches of graphs were not recorded, as they are with GPU timing: whether one waits "
        "for the difference is not on file";
  }
  finding.next =
      "look at what decides which operations are captured: a branch on the rank, a warm-up that "
      "differs, a model part that only some ranks have";
  const Op& op = facts.index.op_at(usual, comparison.first);
  draft.since_ns = op.called_ns;
  set_victims(facts, group.processes(), finding);
  return draft;
}

std::string since_text(const Facts& facts, const Op& launch) {
  return span_text(facts.job.end_ns - launch.called_ns);
}

// It is not on its way to another replay: a call behind its last one is not through on its GPU, or
// it has ended by itself.
bool has_gone_on(const Facts& facts, uint32_t p, const Replays& replays) {
  if (facts.job.processes[p].ended_itself) return true;
  const std::vector<Op>& ops = facts.process(p).ops;
  const int64_t since_ns = replays.last == kNoRecord ? 0 : ops[replays.last].called_ns;
  return std::any_of(ops.begin(), ops.end(), [&](const Op& op) {
    return op.called_ns > since_ns && op.awaits_gpu && !is_through(op);
  });
}

// A graph that not all members have replayed as often, while the last replay of those who have most
// is not through.
struct Replayed {
  const CapturedRun* front = nullptr;  // of one who has replayed it most often
  Replays most;
  std::vector<const CapturedRun*> ahead;  // those who have
  std::vector<const CapturedRun*> behind;
  uint64_t least = 0;
  bool is_extra = false;  // most have not, and went on: those ahead have made one too many

  const std::vector<const CapturedRun*>& blamed() const { return is_extra ? ahead : behind; }
};

std::vector<uint32_t> processes_of_runs(const std::vector<const CapturedRun*>& runs) {
  std::vector<uint32_t> processes;
  for (const CapturedRun* run : runs) processes.push_back(run->process);
  return processes;
}

Replays replays_in(const std::vector<ReplayTable>& tables, const CapturedRun& run) {
  const auto found = tables[run.process].find(run.graph);
  return found == tables[run.process].end() ? Replays{} : found->second;
}

// Its last replay of a graph runs, and does not end.
bool stands(const Facts& facts, uint32_t p, const Replays& replays) {
  if (replays.last == kNoRecord) return false;
  const Op& launch = facts.index.op(p, replays.last);
  return has_begun(launch) && !is_through(launch) && is_watched_to_end(facts, p) &&
         facts.job.is_stale(started_at(launch));
}

// The one whose graph was launched most often; null where that is not on file of all.
const CapturedRun* most_launched(const Facts& facts, const Comparison& comparison,
                                 const std::vector<ReplayTable>& tables) {
  const CapturedRun* most = nullptr;
  for (const CapturedRun* run : comparison.runs) {
    if (run == nullptr || !watches_graphs(facts.process(run->process))) return nullptr;
    const bool is_more =
        most == nullptr || replays_in(tables, *run).launches > replays_in(tables, *most).launches;
    if (is_more) most = run;
  }
  return most;
}

// The last replay has waited for long, on a GPU that does not go on.
bool is_waiting(const Facts& facts, uint32_t p, const Replays& replays) {
  if (replays.last == kNoRecord) return false;
  const Op& launch = facts.index.op(p, replays.last);
  return !is_through(launch) && facts.job.is_stale(launch.called_ns) && stands_still(facts, p);
}

std::optional<Replayed> find_replayed(const Facts& facts, const Comparison& comparison,
                                      const std::vector<ReplayTable>& tables) {
  const CapturedRun* front = most_launched(facts, comparison, tables);
  if (front == nullptr) return std::nullopt;
  Replayed found;
  found.front = front;
  found.most = replays_in(tables, *front);
  if (!is_waiting(facts, front->process, found.most)) return std::nullopt;
  found.least = found.most.launches;
  for (const CapturedRun* run : comparison.runs) {
    const Replays theirs = replays_in(tables, *run);
    // Who waits in the replay before has not left this one out.
    if (theirs.launches != found.most.launches && stands(facts, run->process, theirs)) continue;
    (theirs.launches == found.most.launches ? found.ahead : found.behind).push_back(run);
    found.least = std::min(found.least, theirs.launches);
  }
  if (found.behind.empty()) return std::nullopt;
  found.is_extra = found.ahead.size() < found.behind.size() &&
                   std::all_of(found.behind.begin(), found.behind.end(), [&](const auto* run) {
                     return has_gone_on(facts, run->process, replays_in(tables, *run));
                   });
  return found;
}

std::string graph_text(const Facts& facts, uint32_t g, const Replayed& replayed) {
  const Group& group = facts.group(g);
  return fmt::format("the graph that begins with {}, {}",
                     call_at(facts, group.members[replayed.front->member], replayed.front->first),
                     place_text(group, replayed.front->first));
}

// Nothing is on file of any of them behind the last replay: none left one out, as far as that
// tells.
bool are_silent(const Facts& facts, const Replayed& replayed,
                const std::vector<ReplayTable>& tables) {
  return std::all_of(replayed.behind.begin(), replayed.behind.end(), [&](const CapturedRun* run) {
    const uint32_t last = replays_in(tables, *run).last;
    return last != kNoRecord && last + 1 == facts.process(run->process).ops.size() &&
           replays_in(tables, *run).launches + 1 == replayed.most.launches;
  });
}

Verdict verdict_of_silence(const Facts& facts, const Replayed& replayed) {
  const auto all_are = [&](auto holds) {
    return std::all_of(replayed.behind.begin(), replayed.behind.end(), [&](const CapturedRun* run) {
      return holds(facts.job.processes[run->process]);
    });
  };
  if (all_are([](const ProcessState& state) { return state.gone || state.ended_itself; })) {
    return Verdict::rank_dead;
  }
  if (all_are([](const ProcessState& state) { return state.stopped; })) {
    return Verdict::rank_stopped;
  }
  return Verdict::graph_diverged;
}

void tell_of_silence(const Facts& facts, uint32_t p, Verdict verdict, Finding& finding) {
  const std::string who = rank_text(facts.process(p));
  finding.evidence.push_back(process_evidence(facts, p));
  const bool has_died = !facts.job.processes[p].ended_itself;
  const char* ended = !has_died ? "ended" : facts.job.live ? "died" : "died, or was stopped,";
  const char* did = verdict == Verdict::rank_dead      ? ended
                    : verdict == Verdict::rank_stopped ? "was stopped"
                                                       : "has called nothing";
  finding.summary += fmt::format("; {} {} behind its last replay", who, did);
  if (verdict == Verdict::rank_dead) {
    finding.next = fmt::format("look at the log and exit status of {}", who);
  } else if (verdict == Verdict::rank_stopped) {
    finding.next = continue_text(facts.process(p), who);
  } else {
    finding.next = fmt::format("look at the stack of {}: it has not come to the next replay", who);
  }
}

// A replay counts as a call. Nothing of ranks that died or were stopped.
std::optional<Misstep> misstep_of(const Replayed& replayed, Verdict verdict, bool is_silent) {
  if (verdict != Verdict::graph_diverged) return std::nullopt;
  if (replayed.is_extra) return Misstep::made_more;
  return is_silent ? Misstep::not_reached : Misstep::left_out;
}

// Those who are behind may have ended too early, rather than that the others replayed it too often.
bool may_have_ended_early(const Facts& facts, const Replayed& replayed) {
  return replayed.is_extra &&
         std::any_of(replayed.behind.begin(), replayed.behind.end(), [&](const CapturedRun* run) {
           return facts.job.processes[run->process].ended_itself;
         });
}

// The last replay of each of those who are behind, and the one that does not end. `position`: of
// that one.
void quote_replays(const Facts& facts, const Replayed& replayed,
                   const std::vector<ReplayTable>& tables, const std::string& position,
                   Finding& finding) {
  for (const CapturedRun* run : replayed.behind) {
    const Replays theirs = replays_in(tables, *run);
    if (theirs.last == kNoRecord) continue;
    finding.evidence.push_back(
        op_evidence(facts, run->process, theirs.last, fmt::format("replay {}", theirs.launches)));
  }
  finding.evidence.push_back(op_evidence(facts, replayed.front->process, replayed.most.last,
                                         fmt::format("replay {}{}{}", replayed.most.launches,
                                                     position.empty() ? "" : ", ", position)));
}

// Who replayed it how often, against whom, and since when a replay waits.
std::string replayed_text(const Facts& facts, uint32_t g, const Replayed& replayed,
                          const std::string& position) {
  const Op& launch = facts.index.op(replayed.front->process, replayed.most.last);
  const bool is_extra = replayed.is_extra;
  const uint64_t most = replayed.most.launches;
  std::string blamed = processes_text(facts.index.run(), processes_of_runs(replayed.behind));
  std::string others = processes_text(facts.index.run(), processes_of_runs(replayed.ahead));
  if (is_extra) std::swap(blamed, others);
  return fmt::format("{} replayed {}, {}, {} {}: {} replay has been waiting for {}{}{}", blamed,
                     graph_text(facts, g, replayed), times_text(is_extra ? most : replayed.least),
                     others, times_text(is_extra ? replayed.least : most),
                     is_extra ? "its last" : "that", since_text(facts, launch),
                     position.empty() ? "" : " and ", position);
}

// Does somebody wait for replays that others have not made?
Draft draft_replayed(const Facts& facts, uint32_t g, const Replayed& replayed,
                     const std::vector<ReplayTable>& tables) {
  const CapturedRun& front = *replayed.front;
  const Op& launch = facts.index.op(front.process, replayed.most.last);
  const bool is_silent = !replayed.is_extra && are_silent(facts, replayed, tables);
  const Verdict verdict = is_silent ? verdict_of_silence(facts, replayed) : Verdict::graph_diverged;
  const bool is_sure = launch.awaits_gpu && !may_have_ended_early(facts, replayed);
  Draft draft = make_draft(verdict, is_sure ? Confidence::certain : Confidence::likely,
                           misstep_of(replayed, verdict, is_silent));
  Finding& finding = draft.finding;
  for (const CapturedRun* run : replayed.blamed()) {
    add_culprit(facts, facts.group(g).members[run->member], g, front.first, finding);
  }
  const std::string position = replay_text(facts, front.process, front.graph);
  quote_replays(facts, replayed, tables, position, finding);
  finding.summary = replayed_text(facts, g, replayed, position);
  finding.next =
      "look at what decides how often the graph is launched: the number of steps or micro-batches, "
      "a path that runs the operations without the graph";
  if (is_silent) tell_of_silence(facts, replayed.behind.front()->process, verdict, finding);
  draft.group = g;
  draft.seq = front.first;
  draft.since_ns = launch.called_ns;
  set_victims(facts, facts.index.active(), finding);
  return draft;
}

// The graph whose replay has waited longest. Of two that the same ranks replayed too often, and not
// often enough, they replayed one in place of the other.
std::optional<GraphDraft> judge_replays(const Facts& facts, uint32_t g,
                                        const std::vector<Replayed>& found,
                                        const std::vector<ReplayTable>& tables) {
  if (found.empty()) return std::nullopt;
  const auto since_ns = [&](const Replayed& replayed) {
    return facts.index.op(replayed.front->process, replayed.most.last).called_ns;
  };
  const Replayed& first = *std::min_element(
      found.begin(), found.end(),
      [&](const Replayed& a, const Replayed& b) { return since_ns(a) < since_ns(b); });
  const auto members_of = [](const Replayed& replayed) {
    std::vector<uint32_t> members;
    for (const CapturedRun* run : replayed.blamed()) members.push_back(run->member);
    return members;
  };
  Draft draft = draft_replayed(facts, g, first, tables);
  const auto other = std::find_if(found.begin(), found.end(), [&](const Replayed& replayed) {
    return replayed.is_extra != first.is_extra && members_of(replayed) == members_of(first);
  });
  if (other != found.end()) {
    draft.finding.misstep = Misstep::other_operation;
    draft.finding.summary +=
        fmt::format("; with {}, it is the other way round", graph_text(facts, g, *other));
    draft.finding.next = "look at what decides which graph is launched: the size of a batch, say";
  }
  return GraphDraft{std::move(draft), first.is_extra};
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

bool stands_in_any(const Facts& facts, uint32_t p) {
  const std::vector<Op>& ops = facts.process(p).ops;
  return is_watched_to_end(facts, p) && std::any_of(ops.begin(), ops.end(), [&](const Op& op) {
           return is_standing_replay(facts, op);
         });
}

// The draft follows from the cause, if there is one.
Draft under_cause(Draft&& draft, std::optional<Draft>&& cause) {
  if (!cause) return std::move(draft);
  cause->finding.consequences.push_back(std::move(draft.finding));
  return std::move(*cause);
}

GraphDraft follow_replays(const Facts& facts, GraphDraft&& replays) {
  const std::vector<uint32_t> blamed = culprits_of(replays.draft.finding);
  std::optional<Draft> cause = judge_gpu_cause(facts, blamed);
  const bool all_stand = std::all_of(blamed.begin(), blamed.end(),
                                     [&](uint32_t p) { return stands_in_any(facts, p); });
  // Who waits in a replay of another graph has not left this one out.
  if (!cause && all_stand && !replays.is_extra) cause = judge_replay_waits(facts);
  const bool is_extra = replays.is_extra && !cause;
  return {under_cause(std::move(replays.draft), std::move(cause)), is_extra};
}

// By process; empty where there are no graphs.
std::vector<ReplayTable> replay_tables(const Facts& facts) {
  std::vector<ReplayTable> tables(facts.index.run().processes.size());
  bool has_graphs = false;
  for (const uint32_t p : facts.index.active()) {
    tables[p] = replays_of(facts.process(p));
    has_graphs = has_graphs || !tables[p].empty();
  }
  return has_graphs ? tables : std::vector<ReplayTable>();
}

std::vector<CapturedRun> runs_of_all(const Facts& facts, const Group& group) {
  std::vector<CapturedRun> runs;
  for (uint32_t m = 0; m < group.members.size(); ++m) {
    for (CapturedRun& run : runs_of(facts, group, m)) runs.push_back(std::move(run));
  }
  return runs;
}

// What differs of the graphs of a communicator, or of several: the earliest.
struct GraphDifferences {
  std::optional<Draft> captures;
  std::optional<GraphDraft> replays;

  void add_captures(Draft&& draft) {
    if (!captures || draft.since_ns < captures->since_ns) captures = std::move(draft);
  }
  void add_replays(GraphDraft&& found) {
    if (!replays || found.draft.since_ns < replays->draft.since_ns) replays = std::move(found);
  }
};

void compare_graphs(const Facts& facts, uint32_t g, const std::vector<ReplayTable>& tables,
                    GraphDifferences& differences) {
  const Group& group = facts.group(g);
  const std::vector<CapturedRun> runs = runs_of_all(facts, group);
  Passing passing(facts, group, tables);
  std::vector<Replayed> replayed;
  const std::vector<Comparison> comparisons = comparisons_of(group, runs);
  for (const Comparison& comparison : comparisons) {
    if (std::optional<Draft> captured = judge_captures(facts, g, comparison, passing)) {
      differences.add_captures(std::move(*captured));
    } else if (std::optional<Replayed> found = find_replayed(facts, comparison, tables)) {
      replayed.push_back(std::move(*found));
    }
  }
  std::optional<GraphDraft> found = judge_replays(facts, g, replayed, tables);
  if (found) differences.add_replays(std::move(*found));
}

// Replays that wait, whatever graphs hold.
std::optional<GraphDraft> judge_waiting_replays(const Facts& facts) {
  std::optional<Draft> waits = judge_replay_waits(facts);
  if (!waits) return std::nullopt;
  // Blocked replays have no cause but that.
  std::optional<Draft> cause;
  if (waits->finding.verdict != Verdict::stream_blocked) {
    cause = judge_gpu_cause(facts, culprits_of(waits->finding));
  }
  return GraphDraft{under_cause(std::move(*waits), std::move(cause))};
}

}  // namespace

std::optional<GraphDraft> judge_graphs(const Facts& facts) {
  const std::vector<ReplayTable> tables = replay_tables(facts);
  if (tables.empty()) return std::nullopt;
  GraphDifferences differences;
  for (uint32_t g = 0; g < facts.index.groups().size(); ++g) {
    const Group& group = facts.group(g);
    if (group.may_be_matched && group.is_whole()) compare_graphs(facts, g, tables, differences);
  }
  // What was captured differently explains why replays do not end.
  if (differences.captures) return GraphDraft{std::move(*differences.captures)};
  if (differences.replays) return follow_replays(facts, std::move(*differences.replays));
  return judge_waiting_replays(facts);
}

}  // namespace rollcall::analysis
