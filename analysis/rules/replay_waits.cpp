#include "analysis/rules/replay_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/gpu/captured.h"
#include "analysis/gpu/fronts.h"
#include "analysis/words/label.h"
#include "analysis/words/replays.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

// A replay that has begun and is not through, and one place in it; behind its last operation there
// are none at it.
struct Standing {
  uint32_t process = kNone;
  uint32_t launch = kNoRecord;
  ReplayPlace place;
};

const Op& launch_of(const Facts& facts, const Standing& standing) {
  return facts.index.op(standing.process, standing.launch);
}

std::vector<Standing> find_standing(const Facts& facts) {
  const GpuRecord record(facts);
  std::vector<Standing> found;
  for (const Front& front : look_at_gpus(facts, record).fronts) {
    const Op& op = facts.index.op(front.process, front.op);
    const bool counts = op.kind == OpKind::GraphLaunch && front.started &&
                        is_watched_to_end(facts, front.process) &&
                        facts.job.is_stale(started_at(op));
    if (!counts) continue;
    const NewestReplay& graph = newest_replay(facts, front.process, op.graph);
    for (const ReplayPlace& place : graph.places) {
      found.push_back({front.process, front.op, place});
    }
    const bool is_behind_all = graph.has_positions && graph.places.empty();
    if (is_behind_all) found.push_back({front.process, front.op, {}});
  }
  return found;
}

// Rising.
std::vector<uint32_t> sorted_processes_of(const std::vector<Standing>& standing) {
  std::vector<uint32_t> processes = processes_of(standing);
  std::sort(processes.begin(), processes.end());
  return processes;
}

// A collective in a replay of this number. Ranks that wait in the same one wait for the same ranks.
using Call = std::tuple<uint32_t, uint64_t, uint64_t>;  // group, seq, replay
Call call_of(const Facts& facts, const Standing& s, const Op& op) {
  return {facts.index.seat(s.process, op.comm).group, op.seq, launch_of(facts, s).seq};
}

// It is known which communicator this is.
bool has_seat(const Facts& facts, const Standing& s, const Op& op) {
  const Seat seat = facts.index.seat(s.process, op.comm);
  return seat.group != kNone && seat.member != kNone && facts.group(seat.group).may_be_matched;
}

// A rank that a replay waits for.
struct Debtor {
  uint32_t process = kNone;
  uint32_t op = kNoRecord;  // its own record of the operation; kNoRecord: it never made it
  uint64_t launches = 0;    // of the graph that holds it; of an eager call 1
};

// What a rank that has the operation on file owes of it to the replay of this number.
void add_debtor(const Facts& facts, const OpRef& theirs, uint64_t replay,
                std::vector<Debtor>& debtors) {
  const Process& process = facts.process(theirs.process);
  const uint32_t graph = facts.index.op(theirs.process, theirs.op).graph;
  if (graph != 0 && !watches_graphs(process)) return;
  const uint64_t launches = graph == 0 ? 1 : newest_replay(facts, theirs.process, graph).launches;
  if (launches <= replay) debtors.push_back({theirs.process, theirs.op, launches});
}

// Of a transfer that is not on file: it was not made.
bool has_all_transfers(const Facts& facts, uint32_t p, uint32_t group) {
  const Process& process = facts.process(p);
  const trace::Comm* comm = comm_of(facts, p, group);
  if (comm == nullptr || process.torn != 0) return false;
  const auto on_file = std::count_if(process.ops.begin(), process.ops.end(), [&](const Op& op) {
    const bool is_transfer = op.kind == OpKind::Send || op.kind == OpKind::Recv;
    return is_transfer && facts.index.seat(p, op.comm).group == group;
  });
  return static_cast<uint64_t>(on_file) == comm->sends + comm->recvs;
}

std::vector<Debtor> debtors_of(const Facts& facts, uint32_t p, const Op& op, uint64_t replay) {
  std::vector<Debtor> debtors;
  const Seat seat = facts.index.seat(p, op.comm);
  if (seat.group == kNone || seat.member == kNone) return debtors;
  const Group& group = facts.group(seat.group);
  if (!group.may_be_matched || !group.is_whole()) return debtors;
  if (!is_collective(op.kind)) {
    const OpRef partner = is_p2p(op.kind) ? facts.index.partner_of(p, op) : OpRef{};
    if (partner.process == kNone) return debtors;
    if (partner.op != kNoRecord) {
      add_debtor(facts, partner, replay, debtors);
    } else if (has_all_transfers(facts, partner.process, seat.group)) {
      debtors.push_back({partner.process});
    }
    return debtors;
  }
  for (const Member& member : group.members) {
    if (member.process == p) continue;
    if (member.lane.has(op.seq)) {
      add_debtor(facts, {member.process, member.lane.at(op.seq)}, replay, debtors);
    } else if (member.lane.called + facts.process(member.process).torn <= op.seq) {
      debtors.push_back({member.process});
    }
  }
  return debtors;
}

// An operation that a replay is inside of, and who owes it.
struct Owed {
  Standing standing;
  uint32_t op = kNoRecord;
  std::vector<Debtor> debtors;
};

// Of the earliest replay that waits for somebody; `excused`, rising, waits itself.
std::optional<Owed> find_owed(const Facts& facts, const std::vector<Standing>& standing,
                              const std::vector<uint32_t>& excused) {
  std::optional<Owed> found;
  std::set<Call> asked;
  for (const Standing& s : standing) {
    if (!s.place.is_inside) continue;
    const Op& launch = launch_of(facts, s);
    if (found && launch_of(facts, found->standing).called_ns <= launch.called_ns) continue;
    for (const uint32_t i : s.place.ops) {
      const Op& op = facts.index.op(s.process, i);
      if (is_collective(op.kind) && !asked.insert(call_of(facts, s, op)).second) continue;
      std::vector<Debtor> debtors = debtors_of(facts, s.process, op, launch.seq);
      // Who stands in a replay has not come to this one, but for what it never made.
      std::erase_if(debtors, [&](const Debtor& debtor) {
        return debtor.op != kNoRecord &&
               std::binary_search(excused.begin(), excused.end(), debtor.process);
      });
      if (debtors.empty()) continue;
      found = Owed{s, i, std::move(debtors)};
      break;
    }
  }
  return found;
}

std::string debt_text(const Debtor& debtor) {
  if (debtor.op == kNoRecord) return "never made that call, neither captured nor without a graph";
  return fmt::format("launched the graph that holds it {}", times_text(debtor.launches));
}

void add_culprit(const Facts& facts, uint32_t p, uint32_t g, const Op& op, Finding& finding) {
  Culprit culprit = culprit_of(facts, p, g);
  if (is_collective(op.kind)) {
    culprit.seq = op.seq;
    culprit.op = std::string(rollcall::name_of(op.kind));
  } else {
    culprit.op = op.kind == OpKind::Send ? "Recv" : "Send";  // what it owes
  }
  finding.culprits.push_back(std::move(culprit));
}

void add_standing_evidence(const Facts& facts, const Standing& standing, Finding& finding) {
  const Op& launch = launch_of(facts, standing);
  add_evidence(facts, {standing.process, standing.launch},
               fmt::format("replay {}, {}", launch.seq + 1,
                           replay_text(facts, standing.process, launch.graph)),
               finding);
}

// It ended behind its last replay, having left none out that is on file.
bool has_died(const Facts& facts, const Debtor& debtor) {
  const ProcessState& state = facts.job.processes[debtor.process];
  if (debtor.op == kNoRecord || !(state.gone || state.ended_itself)) return false;
  const std::vector<Op>& ops = facts.process(debtor.process).ops;
  return !ops.empty() && ops.back().kind == OpKind::GraphLaunch &&
         ops.back().graph == facts.index.op(debtor.process, debtor.op).graph;
}

Draft draft_owed(const Facts& facts, const Owed& owed) {
  const uint32_t p = owed.standing.process;
  const Op& op = facts.index.op(p, owed.op);
  const Op& launch = launch_of(facts, owed.standing);
  const bool is_dead = std::all_of(owed.debtors.begin(), owed.debtors.end(),
                                   [&](const Debtor& debtor) { return has_died(facts, debtor); });
  Draft draft =
      make_draft(is_dead ? Verdict::rank_dead : Verdict::graph_diverged, Confidence::certain);
  Finding& finding = draft.finding;
  const uint32_t group = facts.index.seat(p, op.comm).group;
  if (is_collective(op.kind)) {
    draft.group = group;
    draft.seq = op.seq;
  }
  draft.since_ns = started_at(launch);
  std::vector<uint32_t> processes;
  for (const Debtor& debtor : owed.debtors) {
    processes.push_back(debtor.process);
    add_culprit(facts, debtor.process, group, op, finding);
    if (debtor.op != kNoRecord) {
      add_evidence(facts, {debtor.process, debtor.op}, debt_text(debtor), finding);
    } else if (finding.evidence.size() < kEvidenceMax) {
      finding.evidence.push_back(process_evidence(facts, debtor.process));
    }
  }
  add_standing_evidence(facts, owed.standing, finding);
  const Debtor& first = owed.debtors.front();
  finding.summary =
      fmt::format("{} launched a CUDA graph {}, and that replay has been inside {} for {}; {} {}",
                  rank_text(facts.process(p)), times_text(launch.seq + 1), place_text(facts, p, op),
                  span_text(facts.job.end_ns - launch.called_ns),
                  processes_text(facts.index.run(), processes), debt_text(first));
  finding.next =
      first.op == kNoRecord
          ? "look at what decides which operations are captured: a branch on the rank, a warm-up "
            "that differs, a model part that only some ranks have"
          : "look at what decides how often the graph is launched: the number of steps or "
            "micro-batches, a path that runs the operations without the graph";
  if (is_dead) {
    finding.summary += ", and ended behind that";
    finding.next = fmt::format("look at the log and exit status of {}",
                               rank_text(facts.process(first.process)));
  }
  set_victims(facts, facts.index.active(), finding);
  return draft;
}

// Replays that are inside nothing: those that have not come to what others are inside of, if there
// are any, else all.
struct Between {
  std::vector<Standing> standing;
  bool is_awaited = false;  // others are inside
};
Between find_between(const Facts& facts, const std::vector<Standing>& standing) {
  std::vector<Standing> inside;
  std::set<Call> reached;
  for (const Standing& s : standing) {
    if (!s.place.is_inside) continue;
    inside.push_back(s);
    for (const uint32_t i : s.place.ops) {
      const Op& op = facts.index.op(s.process, i);
      if (is_collective(op.kind) && has_seat(facts, s, op)) reached.insert(call_of(facts, s, op));
    }
  }
  // Of a graph of several streams one is told: the first that has not come to what others are
  // inside of, or to any.
  const std::vector<uint32_t> inside_processes = sorted_processes_of(inside);
  std::vector<Standing> between;
  std::vector<Standing> awaited;
  std::set<uint32_t> seen_between;
  std::set<uint32_t> seen_awaited;
  for (const Standing& s : standing) {
    if (std::binary_search(inside_processes.begin(), inside_processes.end(), s.process)) continue;
    if (seen_between.insert(s.process).second) between.push_back(s);
    if (s.place.ops.empty()) continue;
    const Op& op = facts.index.op(s.process, s.place.ops.front());
    const bool is_awaited = is_collective(op.kind) && reached.count(call_of(facts, s, op)) != 0;
    if (is_awaited && seen_awaited.insert(s.process).second) awaited.push_back(s);
  }
  if (awaited.empty()) return {std::move(between), false};
  return {std::move(awaited), true};
}

// What stands in the graph in front of the named operation, or behind the last one.
std::string between_text(const Facts& facts, const Standing& s, bool is_awaited) {
  if (s.place.ops.empty()) {
    return "is through with all its NCCL operations: something else in the graph, behind them, "
           "does "
           "not end";
  }
  const Op& op = facts.index.op(s.process, s.place.ops.front());
  return fmt::format(
      "has not come to {}{}: something else in the graph, in front of it, does not end",
      place_text(facts, s.process, op), is_awaited ? ", in which other ranks are" : "");
}

Draft draft_standing_between(const Facts& facts, const std::vector<Standing>& standing,
                             const Between& between) {
  const Standing& first = between.standing.front();
  const Op& launch = launch_of(facts, first);
  Draft draft = make_draft(Verdict::stream_blocked, Confidence::certain);
  Finding& finding = draft.finding;
  draft.since_ns = launch.called_ns;
  std::vector<uint32_t> processes;
  for (const Standing& s : between.standing) {
    processes.push_back(s.process);
    if (s.place.ops.empty()) {
      finding.culprits.push_back(culprit_of(facts, s.process, kNone));
    } else {
      const Op& next = facts.index.op(s.process, s.place.ops.front());
      add_culprit(facts, s.process, facts.index.seat(s.process, next.comm).group, next, finding);
    }
    add_standing_evidence(facts, s, finding);
  }
  for (const Standing& s : standing) {
    if (s.place.is_inside) add_standing_evidence(facts, s, finding);
  }
  finding.summary = fmt::format("replay {} of a CUDA graph has run on {} for {} and {}",
                                launch.seq + 1, processes_text(facts.index.run(), processes),
                                span_text(facts.job.end_ns - started_at(launch)),
                                between_text(facts, first, between.is_awaited));
  finding.next = fmt::format(
      "look at what that rank captured {}: a kernel, copy, host function or event wait that does "
      "not end",
      first.place.ops.empty() ? "behind its last NCCL operation" : "in front of this operation");
  set_victims(facts, facts.index.active(), finding);
  return draft;
}

// The newest replay that has begun of the graph that holds the operation.
uint32_t newest_begun(const Facts& facts, const OpRef& where) {
  const std::vector<Op>& ops = facts.process(where.process).ops;
  const uint32_t graph = facts.index.op(where.process, where.op).graph;
  const auto found = std::find_if(ops.rbegin(), ops.rend(), [&](const Op& op) {
    return op.kind == OpKind::GraphLaunch && op.graph == graph && has_begun(op);
  });
  return found == ops.rend() ? kNoRecord : static_cast<uint32_t>(ops.rend() - found - 1);
}

// Where the replay of this number of the graph that holds an operation is.
enum class Reached : uint8_t { no, inside, past };

Reached reached(const Facts& facts, const OpRef& where, uint64_t replay) {
  const Op& op = facts.index.op(where.process, where.op);
  if (op.graph == 0) {
    if (replay != 0 || is_through(op)) return Reached::past;
    return has_begun(op) ? Reached::inside : Reached::no;
  }
  const uint32_t launch = newest_begun(facts, where);
  if (launch == kNoRecord) return Reached::no;
  const uint64_t newest = facts.index.op(where.process, launch).seq;
  if (newest != replay) return newest > replay ? Reached::past : Reached::no;
  if (is_through(facts.index.op(where.process, launch))) return Reached::past;
  const NewestReplay& record = newest_replay(facts, where.process, op.graph);
  for (const ReplayPlace& place : record.places) {
    if (facts.index.op(where.process, place.ops.front()).stream != op.stream) continue;
    if (std::binary_search(place.ops.begin(), place.ops.end(), where.op)) {
      return place.is_inside ? Reached::inside : Reached::no;
    }
    return where.op < place.ops.front() ? Reached::past : Reached::no;
  }
  return record.has_positions ? Reached::past : Reached::no;
}

// Whether all ranks of an operation that a replay is inside of have come to it; notes those that
// have not, and in `ops` those that are in it.
bool is_on_all(const Facts& facts, uint32_t p, uint32_t i, uint64_t replay, InsideReplay& inside,
               std::vector<OpRef>& ops) {
  const Op& op = facts.index.op(p, i);
  const std::vector<Debtor> debtors = debtors_of(facts, p, op, replay);
  inside.is_owed = inside.is_owed || !debtors.empty();
  const Peers peers = peers_of(facts, p, i);
  bool are_all = debtors.empty() && peers.is_complete && !is_disputed(facts, p, op);
  std::vector<OpRef> ranks;
  for (const OpRef& rank : peers.ranks) {
    const Reached where = rank.process == p ? Reached::inside : reached(facts, rank, replay);
    if (where == Reached::inside) ranks.push_back(rank);
    if (where == Reached::no) inside.elsewhere.push_back(rank.process);
    if (where == Reached::past) inside.past.push_back(rank.process);
    are_all = are_all && where != Reached::no;
  }
  ops.insert(ops.end(), ranks.begin(), ranks.end());
  return are_all;
}

void keep_one_of_each(std::vector<OpRef>& ranks) {
  std::set<uint32_t> seen;
  std::erase_if(ranks, [&](const OpRef& rank) { return !seen.insert(rank.process).second; });
}

}  // namespace

InsideReplay inside_replay(const Facts& facts, uint32_t p, uint32_t launch) {
  const Op& replay = facts.index.op(p, launch);
  InsideReplay inside;
  const NewestReplay& record = newest_replay(facts, p, replay.graph);
  inside.is_known = record.has_positions;
  inside.is_between = record.has_positions;
  for (const ReplayPlace& place : record.places) {
    if (!place.is_inside) continue;
    inside.is_between = false;
    // A group ends as a whole.
    bool are_all = true;
    std::vector<OpRef> ops;
    for (const uint32_t i : place.ops) {
      are_all = is_on_all(facts, p, i, replay.seq, inside, ops) && are_all;
    }
    if (!are_all || !inside.ops.empty()) continue;
    keep_one_of_each(ops);
    for (const OpRef& rank : ops) {
      inside.launches.push_back({rank.process, newest_begun(facts, rank)});
    }
    inside.ops = std::move(ops);
  }
  return inside;
}

Draft draft_between(const Facts& facts, const std::vector<OpRef>& launches) {
  const std::vector<Standing> standing = find_standing(facts);
  const auto is_asked = [&](const Standing& s) {
    return std::any_of(launches.begin(), launches.end(), [&](const OpRef& launch) {
      return launch.process == s.process && launch.op == s.launch;
    });
  };
  Between between = find_between(facts, standing);
  std::erase_if(between.standing, [&](const Standing& s) { return !is_asked(s); });
  if (between.standing.empty()) {
    between.is_awaited = false;
    std::copy_if(standing.begin(), standing.end(), std::back_inserter(between.standing), is_asked);
  }
  std::set<uint32_t> seen;
  std::erase_if(between.standing,
                [&](const Standing& s) { return !seen.insert(s.process).second; });
  return draft_standing_between(facts, standing, between);
}

PlaceKey place_key(const Facts& facts, uint32_t p, uint32_t launch, const ReplayPlace& place) {
  PlaceKey key = {facts.index.op(p, launch).seq};
  for (const uint32_t i : place.ops) {
    const Op& op = facts.index.op(p, i);
    const Seat seat = facts.index.seat(p, op.comm);
    const bool is_shared = is_collective(op.kind) && seat.group != kNone && seat.member != kNone;
    if (!is_shared) return {facts.index.op(p, launch).seq, p, launch, i};
    key.push_back(seat.group);
    key.push_back(op.seq);
  }
  return key;
}

bool stands_in_replay(const Facts& facts, uint32_t g, uint64_t seq) {
  const std::vector<Member>& members = facts.group(g).members;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    if (!member.lane.has(seq)) return false;
    const OpRef where{member.process, member.lane.at(seq)};
    const uint32_t graph = facts.index.op(where.process, where.op).graph;
    if (graph == 0) return false;
    const std::vector<Op>& ops = facts.process(where.process).ops;
    const bool stands = std::any_of(ops.begin(), ops.end(), [&](const Op& op) {
      return op.graph == graph && is_standing_replay(facts, op);
    });
    const uint32_t launch = newest_begun(facts, where);
    return stands && is_watched_to_end(facts, where.process) && launch != kNoRecord &&
           reached(facts, where, facts.index.op(where.process, launch).seq) == Reached::inside;
  });
}

std::optional<Draft> judge_replay_waits(const Facts& facts) {
  const std::vector<Standing> standing = find_standing(facts);
  if (standing.empty()) return std::nullopt;
  const std::optional<Owed> owed = find_owed(facts, standing, sorted_processes_of(standing));
  if (owed) return draft_owed(facts, *owed);
  const Between between = find_between(facts, standing);
  if (!between.standing.empty()) return draft_standing_between(facts, standing, between);
  return std::nullopt;
}

std::optional<Draft> judge_replay_circle(const Facts& facts) {
  const std::optional<Owed> owed = find_owed(facts, find_standing(facts), {});
  if (!owed) return std::nullopt;
  Draft draft = draft_owed(facts, *owed);
  draft.finding.confidence = Confidence::likely;
  return draft;
}

}  // namespace rollcall::analysis
