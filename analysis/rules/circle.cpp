#include "analysis/rules/circle.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "analysis/alignment/limits.h"
#include "analysis/rules/breach.h"
#include "analysis/rules/circle_creation.h"
#include "analysis/rules/left_out.h"
#include "analysis/rules/stray_call.h"
#include "analysis/slips/order_vote.h"
#include "analysis/slips/own_past.h"
#include "analysis/slips/usual_call.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kEdgesShownMax = 12;
constexpr const char* kOneOrder = "make every rank use its communicators in the same order";

Circle look_at(const Facts& facts, const Root& root) {
  Circle circle;
  for (const uint32_t n : root.nodes) {
    const Node& node = facts.graph.nodes()[n];
    if (node.kind == NodeKind::host) {
      circle.hosts.push_back(node.process);
      continue;
    }
    circle.calls.push_back(n);
    circle.groups.insert(node.group);
    if (node.kind == NodeKind::collective) circle.collectives.push_back(n);
    circle.has_p2p = circle.has_p2p || node.kind == NodeKind::p2p;
    // Of several the one that most ranks are in: see leading_waiter().
    const auto callers = [&](uint32_t one) { return facts.graph.nodes()[one].callers.size(); };
    const bool is_creation = node.kind == NodeKind::creation;
    if (is_creation && (circle.creation == kNone || callers(n) > callers(circle.creation))) {
      circle.creation = n;
    }
    for (const uint32_t t : node.waits_for) {
      if (!facts.graph.is_in(root, t)) continue;
      const Node& target = facts.graph.nodes()[t];
      if (target.kind == NodeKind::host) {
        circle.absent.push_back({n, target.process});
        continue;
      }
      circle.has_queued = true;
      if (node.kind == NodeKind::collective) circle.queued.emplace_back(n, t);
    }
  }
  // Where everybody called and only the order is wrong, no host is part of the circle.
  if (circle.hosts.empty()) {
    for (const uint32_t n : circle.calls) {
      const std::vector<uint32_t>& callers = facts.graph.nodes()[n].callers;
      circle.hosts.insert(circle.hosts.end(), callers.begin(), callers.end());
    }
  }
  std::sort(circle.hosts.begin(), circle.hosts.end());
  circle.hosts.erase(std::unique(circle.hosts.begin(), circle.hosts.end()), circle.hosts.end());
  return circle;
}

// Who keeps the ranks in `from` waiting: those that are in `to` and have not come to `from`.
std::vector<uint32_t> holders_of(const Facts& facts, const Node& from, const Node& to) {
  std::vector<uint32_t> here = from.callers, there = to.callers, holders;
  if (here.empty()) return holders;
  // A transfer waits for its peer alone.
  if (from.kind == NodeKind::p2p) {
    const Op& op = facts.index.op(from.process, from.op);
    const uint32_t peer =
        process_at(facts, facts.index.seat(from.process, op.comm).group, op.root_or_peer);
    if (peer != kNone) holders.push_back(peer);
    return holders;
  }
  // Not who is in `to` and has no part in `from`.
  std::vector<uint32_t> members;
  for (const Member& member : facts.group(from.group).members) members.push_back(member.process);
  std::sort(members.begin(), members.end());
  std::erase_if(there,
                [&](uint32_t p) { return !std::binary_search(members.begin(), members.end(), p); });
  std::sort(here.begin(), here.end());
  std::sort(there.begin(), there.end());
  std::set_difference(there.begin(), there.end(), here.begin(), here.end(),
                      std::back_inserter(holders));
  return holders;
}

uint32_t first_inside(const Facts& facts, const Root& root, uint32_t n) {
  const std::vector<uint32_t>& awaited = facts.graph.nodes()[n].waits_for;
  return *std::find_if(awaited.begin(), awaited.end(),
                       [&](uint32_t t) { return facts.graph.is_in(root, t); });
}

// One simple circle: from the first call along the first edge that stays inside, and back to where
// it closes.
std::vector<uint32_t> path_of(const Facts& facts, const Root& root) {
  std::vector<uint32_t> path;
  std::vector<bool> seen(facts.graph.nodes().size(), false);
  uint32_t n = root.nodes.front();
  while (!seen[n]) {
    seen[n] = true;
    path.push_back(n);
    do n = first_inside(facts, root, n);
    while (facts.graph.nodes()[n].kind == NodeKind::front);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), n));
  path.push_back(n);
  path.resize(std::min(path.size(), kEdgesShownMax + 1));
  return path;
}

// From one call or host of it to the next.
Evidence edge_of(const Facts& facts, uint32_t from, uint32_t to) {
  const Node& node = facts.graph.nodes()[from];
  const Node& target = facts.graph.nodes()[to];
  const OpRef example = example_of(facts, from);
  Evidence edge;
  std::string site;
  if (example.process != kNone) {
    const Op& op = facts.index.op(example.process, example.op);
    edge.file = facts.process(example.process).file;
    edge.record = fmt::format("op {}", op.ticket);
    site = call_site_text(facts.process(example.process), op);
    if (!site.empty()) site += ',';
  }
  const char* verb = target.kind == NodeKind::host ? "waits for a call by" : "waits behind";
  if (node.kind == NodeKind::host) verb = "waits in";
  edge.text = fmt::format("{}{} {} {}", node_text(facts, from), site, verb, node_text(facts, to));
  const std::vector<uint32_t> holders = holders_of(facts, node, target);
  if (!holders.empty()) {
    edge.text = fmt::format("{} in {}{} waiting for {}",
                            processes_text(facts.index.run(), node.callers), node_text(facts, from),
                            site.empty() ? "," : site, processes_text(facts.index.run(), holders));
  }
  return edge;
}

Draft finish(const Facts& facts, uint32_t r, const Circle& circle, Draft draft) {
  const Root& root = facts.graph.roots()[r];
  draft.root = r;
  draft.since_ns = root.since_ns;
  std::vector<uint32_t> victims = root.victims;
  victims.insert(victims.end(), circle.hosts.begin(), circle.hosts.end());
  set_victims(facts, victims, draft.finding);
  std::vector<uint32_t> path = path_of(facts, root);
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    draft.finding.evidence.push_back(edge_of(facts, path[i], path[i + 1]));
  }
  const Verdict verdict = draft.finding.verdict;
  const bool is_circle = verdict == Verdict::deadlock_comms || verdict == Verdict::deadlock_p2p ||
                         verdict == Verdict::group_mismatch;
  if (is_circle) draft.told = std::move(path);
  return draft;
}

std::string culprits_text(const Facts& facts, const Draft& draft) {
  std::vector<uint32_t> processes;
  for (const Culprit& culprit : draft.finding.culprits) processes.push_back(culprit.process);
  return processes_text(facts.index.run(), std::move(processes));
}

// The same call of this rank's steps before, inside a group; kNoRecord if there is none, or if the
// rank makes the call both ways.
struct Precedent {
  uint32_t grouped = kNoRecord;
  bool is_known = false;
};
Precedent precedent_of(const Facts& facts, uint32_t p, uint32_t op) {
  const Op& now = facts.index.op(p, op);
  Precedent precedent;
  for (uint32_t i = op; i-- > 0 && op - i <= kCallsBeforeMax;) {
    const Op& before = facts.index.op(p, i);
    const bool is_same =
        before.comm == now.comm && before.root_or_peer == now.root_or_peer &&
        agree(usual_signature(facts.sizes, p, before), usual_signature(facts.sizes, p, now));
    if (!is_same) continue;
    precedent.is_known = true;
    if (before.group == 0) return {kNoRecord, true};
    if (precedent.grouped == kNoRecord) precedent.grouped = i;
  }
  return precedent;
}

// The same send or receive of another rank: as far to its peer, at the same position.
OpRef counterpart_of(const Facts& facts, const Seat& seat, const Op& op, const Member& other) {
  const Group& group = facts.group(seat.group);
  const auto nranks = static_cast<int32_t>(group.members.size());
  const int32_t mine = group.members[seat.member].rank;
  if (!group.is_whole() || op.root_or_peer < 0 || mine < 0) return {};
  const int32_t distance = (op.root_or_peer - mine + nranks) % nranks;
  const int32_t peer = (other.rank + distance) % nranks;
  const bool is_send = op.kind == OpKind::Send;
  const uint32_t channel = is_send ? facts.index.find_channel(seat.group, other.rank, peer)
                                   : facts.index.find_channel(seat.group, peer, other.rank);
  if (channel == kNone) return {};
  const Channel& found = facts.index.channels()[channel];
  const uint32_t at = is_send ? found.send_at(op.seq) : found.recv_at(op.seq);
  return at == kNoRecord ? OpRef{} : OpRef{other.process, at};
}

// A call that stands alone in a rank's sequence, and where the same call was made inside a group:
// by the rank itself in its last step, or by most ranks outside the circle.
OpRef grouped_elsewhere(const Facts& facts, const Circle& circle, uint32_t p, uint32_t i) {
  const Op& op = facts.index.op(p, i);
  if (op.group != 0 || !facts.process(p).knowledge.groups) return {};
  const Precedent before = precedent_of(facts, p, i);
  if (before.is_known) {
    return before.grouped != kNoRecord ? OpRef{p, before.grouped} : OpRef{};
  }
  const Seat seat = facts.index.seat(p, op.comm);
  if (!is_p2p(op.kind) || seat.member == kNone) return {};
  size_t grouped = 0;
  size_t alone = 0;
  OpRef example;
  for (const Member& member : facts.group(seat.group).members) {
    if (std::binary_search(circle.hosts.begin(), circle.hosts.end(), member.process)) continue;
    const OpRef other = counterpart_of(facts, seat, op, member);
    if (other.process == kNone) continue;
    const bool is_grouped = facts.index.op(other.process, other.op).group != 0;
    ++(is_grouped ? grouped : alone);
    if (is_grouped) example = other;
  }
  return grouped > alone ? example : OpRef{};
}

size_t group_size(const Facts& facts, uint32_t p, uint32_t group) {
  const std::vector<Op>& ops = facts.process(p).ops;
  return static_cast<size_t>(std::count_if(ops.begin(), ops.end(), [&](const Op& op) {
    return op.group == group && !is_mark(op.kind);
  }));
}

// Calls that progress together inside a group wait for each other outside of one.
std::optional<Draft> draft_grouping(const Facts& facts, const Circle& circle) {
  Draft draft = make_draft(Verdict::group_mismatch, Confidence::likely);
  std::vector<uint32_t> odd;
  for (const uint32_t p : circle.hosts) {
    if (facts.playback.waiting(p).empty()) continue;
    const uint32_t i = facts.playback.waiting(p).front();
    const OpRef other = grouped_elsewhere(facts, circle, p, i);
    if (other.process == kNone) continue;
    odd.push_back(p);
    if (draft.finding.evidence.size() >= 4) continue;
    const uint32_t group = facts.index.op(other.process, other.op).group;
    draft.finding.evidence.push_back(op_evidence(facts, p, i, "outside of any group"));
    draft.finding.evidence.push_back(op_evidence(
        facts, other.process, other.op,
        fmt::format("in group {} of {} calls", group, group_size(facts, other.process, group))));
  }
  if (odd.empty()) return std::nullopt;
  blame_waiting(facts, odd, draft.finding);
  draft.finding.summary = fmt::format(
      "{} wait for each other in a circle, because {} called outside of a group what belongs into "
      "one: inside a group the calls would have gone on together",
      processes_text(facts.index.run(), circle.hosts), culprits_text(facts, draft));
  draft.finding.next = "look for the ncclGroupStart and ncclGroupEnd around these calls";
  return draft;
}

// A collective in which most of a communicator wait, and who waits in a transfer that it called
// before.
struct MixedWaits {
  std::vector<uint32_t> inside;
  std::vector<uint32_t> early;
};
MixedWaits mixed_waits(const Facts& facts, const Node& collective) {
  MixedWaits waits;
  for (const Member& member : facts.group(collective.group).members) {
    const std::vector<uint32_t>& waiting = facts.playback.waiting(member.process);
    if (waiting.empty()) continue;
    const bool has_called = member.lane.has(collective.seq);
    if (has_called && waiting.front() == member.lane.at(collective.seq)) {
      waits.inside.push_back(member.process);
    } else if (is_p2p(facts.index.op(member.process, waiting.front()).kind) &&
               (!has_called || waiting.front() < member.lane.at(collective.seq))) {
      waits.early.push_back(member.process);
    }
  }
  std::sort(waits.early.begin(), waits.early.end());
  return waits;
}

// Whether the process's steps before lead one to expect this call here, of whatever size; nothing
// where they lead to none.
std::optional<bool> is_usual_part(const Facts& facts, uint32_t p, uint32_t i) {
  const uint32_t usual = usual_part_at(facts, p, i);
  if (usual == kNoRecord) return std::nullopt;
  return is_same_part(facts.index.op(p, usual), facts.index.op(p, i));
}

// The peer of a transfer in which a rank waits as in its steps before, where the peer is in the
// collective without its side of it, and its own steps before have another call there; else kNone.
uint32_t late_peer_of(const Facts& facts, const MixedWaits& waits, uint32_t p, uint32_t i) {
  const Op& op = facts.index.op(p, i);
  if (!is_p2p(op.kind)) return kNone;
  const OpRef partner = facts.index.partner_of(p, op);
  if (!contains(waits.inside, partner.process)) return kNone;
  const uint32_t at = facts.playback.waiting(partner.process).front();
  // What it has called behind the collective comes too late, if it belongs to this at all.
  const bool is_without = partner.op == kNoRecord || partner.op > at;
  const bool is_odd = is_without && is_usual_part(facts, p, i).value_or(false) &&
                      !is_usual_part(facts, partner.process, at).value_or(true);
  return is_odd ? partner.process : kNone;
}

// Who went into the collective without its side of a transfer that belongs in front of it.
Breach find_late_transfer(const Facts& facts, const MixedWaits& waits) {
  Breach breach;
  breach.confidence = Confidence::likely;
  breach.misstep = Misstep::left_out;
  for (size_t i = 0; i < std::min(waits.early.size(), kCircleAskedMax); ++i) {
    const uint32_t p = waits.early[i];
    const uint32_t front = facts.playback.waiting(p).front();
    const uint32_t peer = late_peer_of(facts, waits, p, front);
    if (peer == kNone || contains(breach.processes, peer)) continue;
    breach.processes.push_back(peer);
    if (!breach.how.empty()) continue;
    breach.look = fmt::format("look at the branch that decides about this transfer on {}",
                              rank_text(facts.process(peer)));
    const Op& op = facts.index.op(p, front);
    const Op& call = facts.index.op(peer, facts.playback.waiting(peer).front());
    breach.how = fmt::format(
        "called {} where the steps before have another call, and without the {} that belongs to "
        "{}, in which {} waits as in the steps before",
        call_text(facts.index, peer, call), is_source(op.kind) ? "receive" : "send",
        call_text(facts.index, p, op), rank_text(facts.process(p)));
  }
  std::sort(breach.processes.begin(), breach.processes.end());
  return breach;
}

// Most wait in a collective, and few in a transfer that they called before it: unless one of the
// former has not come to its side of it. Nobody where that is not so.
Breach find_early_transfer(const Facts& facts, const Circle& circle) {
  if (circle.collectives.size() != 1) return {};
  const uint32_t n = circle.collectives.front();
  MixedWaits waits = mixed_waits(facts, facts.graph.nodes()[n]);
  if (Breach late = find_late_transfer(facts, waits); !late.processes.empty()) return late;
  if (waits.early.empty() || waits.early.size() >= waits.inside.size()) return {};
  const uint32_t first = waits.early.front();
  const Op& op = facts.index.op(first, facts.playback.waiting(first).front());
  Breach breach;
  breach.confidence = Confidence::likely;
  breach.misstep = Misstep::reordered;
  breach.how = fmt::format("called {} before {}, in which {} {}", call_text(facts.index, first, op),
                           node_text(facts, n), processes_text(facts.index.run(), waits.inside),
                           waits.inside.size() == 1 ? "waits" : "wait");
  breach.processes = std::move(waits.early);
  return breach;
}

// Some rank made its calls of the circle on several threads.
bool are_of_several_threads(const Facts& facts, const Circle& circle) {
  std::map<uint32_t, uint32_t> threads;  // by process
  for (const uint32_t n : circle.collectives) {
    const Node& node = facts.graph.nodes()[n];
    for (const Member& member : facts.group(node.group).members) {
      if (!member.lane.has(node.seq)) continue;
      const uint32_t thread = facts.index.op_at(member, node.seq).thread;
      if (threads.try_emplace(member.process, thread).first->second != thread) return true;
    }
  }
  return false;
}

// What it is that ranks call in another order.
struct OrderKind {
  Verdict verdict;
  bool is_mixed;
  const char* of_what;
  const char* cure;
};
constexpr OrderKind kOfCommunicators{Verdict::deadlock_comms, false, "", kOneOrder};
constexpr OrderKind kOfTransfers{Verdict::deadlock_p2p, false, " of sends and receives",
                                 "put the sends and receives of one exchange into one group"};
constexpr OrderKind kMixed{
    Verdict::deadlock_p2p, true, " of transfers and a collective",
    "make every rank call the transfer and the collective in the same order"};

const OrderKind& kind_of(const Circle& circle) {
  const bool has_collectives = !circle.collectives.empty();
  if (!circle.has_p2p || (has_collectives && circle.groups.size() > 1)) return kOfCommunicators;
  return has_collectives ? kMixed : kOfTransfers;
}

// What cures it: the order, or a call that may have been left out, or was.
std::string cure_of(const Breach& breach, const OrderKind& kind) {
  if (breach.misstep == Misstep::left_out && !breach.look.empty()) return breach.look;
  if (breach.look.empty()) return kind.cure;
  if (breach.is_order_first) return fmt::format("{}; or {}", kind.cure, breach.look);
  return fmt::format("{}; if it makes that later, {}", breach.look, kind.cure);
}

// Who waits in a circle, of what, and where.
std::string circle_text(const Facts& facts, const Circle& circle, const OrderKind& kind) {
  constexpr size_t kNamesMax = 4;
  std::vector<std::string> names;
  for (const uint32_t g : circle.groups) names.push_back(facts.group(g).name);
  if (names.size() > kNamesMax) names.resize(kNamesMax);
  return fmt::format(
      "{} {} in a circle{} on {}", processes_text(facts.index.run(), circle.hosts),
      circle.hosts.size() == 1 ? "and the ranks that wait for it wait" : "wait for each other",
      kind.of_what, fmt::join(names, ", "));
}

std::string breach_text(const Facts& facts, const Breach& breach, const Draft& draft) {
  if (!draft.is_decided) return "nothing on file tells which of them broke the order";
  return fmt::format("{} {}", breach.who.empty() ? culprits_text(facts, draft) : breach.who,
                     breach.how);
}

// Everybody made the calls of the circle, or will, and not in one order.
Draft draft_order(const Facts& facts, const Circle& circle, Breach breach) {
  const OrderKind& kind = kind_of(circle);
  if (kind.is_mixed && breach.processes.empty()) breach = find_early_transfer(facts, circle);
  Draft draft =
      make_draft(kind.verdict, circle.absent.empty() ? Confidence::certain : Confidence::likely,
                 breach.misstep);
  draft.is_decided = !breach.processes.empty();
  if (draft.is_decided) {
    draft.finding.confidence = std::max(draft.finding.confidence, breach.confidence);
  }
  blame_waiting(facts, draft.is_decided ? breach.processes : circle.hosts, draft.finding);
  draft.finding.summary =
      fmt::format("{}; {}", circle_text(facts, circle, kind), breach_text(facts, breach, draft));
  draft.finding.next = cure_of(breach, kind);
  if (kind.verdict == Verdict::deadlock_comms && are_of_several_threads(facts, circle)) {
    // Whoever came in another order this time did so by chance.
    draft.finding.confidence = std::max(draft.finding.confidence, Confidence::likely);
    draft.finding.next +=
        "; the calls come from several threads, whose order is chance unless something sets it";
  }
  return draft;
}

// Of one call all who left it out. That ranks left out calls of several communicators, each one,
// may as well be that they made what they wait in first.
Draft draft_left_out_or_order(const Facts& facts, const Circle& circle,
                              const std::vector<LeftOut>& left_out) {
  std::vector<uint32_t> processes;
  std::vector<uint32_t> odd;
  bool is_order = false;
  for (const LeftOut& one : left_out) {
    odd.push_back(one.process);
    if (one.node == left_out.front().node) processes.push_back(one.process);
    is_order = is_order || one.node != left_out.front().node;
  }
  for (const LeftOut& one : left_out) is_order = is_order && one.may_be_order;
  const LeftOut& first = left_out.front();
  const uint32_t waits = waits_in(facts, circle, first.process);
  if (!is_order) {
    Draft draft = draft_left_out(facts, first.node, processes, Confidence::likely);
    if (first.may_be_order && waits != kNone && processes.size() == 1) {
      draft.finding.summary += fmt::format(
          "; or it made {} too early, or once too often: what it would call next is on no file",
          node_text(facts, waits));
      draft.finding.next += fmt::format("; if it makes it later, {}", kOneOrder);
    }
    return draft;
  }
  if (waits != kNone) {
    return draft_order(facts, circle,
                       breach_without(facts, std::move(odd), waits, first.node, true));
  }
  Breach breach;
  breach.confidence = Confidence::likely;
  breach.processes = std::move(odd);
  breach.how = "left out what comes in front of the call that they wait in";
  return draft_order(facts, circle, std::move(breach));
}

std::optional<Draft> draft_creation(const Facts& facts, const Circle& circle) {
  if (circle.creation == kNone) return std::nullopt;
  return draft_circle_of_creation(facts, circle);
}

std::optional<Draft> draft_stray(const Facts& facts, const Circle& circle) {
  for (const uint32_t n : circle.calls) {
    std::optional<Draft> stray = draft_stray_transfer(facts, facts.graph.nodes()[n]);
    if (stray) return stray;
  }
  return std::nullopt;
}

std::optional<Draft> draft_missing_collective(const Facts& facts, const Circle& circle) {
  const std::vector<LeftOut> left_out = find_left_out(facts, circle);
  if (left_out.empty()) return std::nullopt;
  return draft_left_out_or_order(facts, circle, left_out);
}

std::optional<Draft> draft_extra_collective(const Facts& facts, const Circle& circle) {
  for (size_t i = 0; i < std::min(circle.collectives.size(), kCircleAskedMax); ++i) {
    const uint32_t n = circle.collectives[i];
    if (is_unheard_of(facts, facts.graph.nodes()[n])) return draft_extra_call(facts, n);
  }
  return std::nullopt;
}

std::optional<Draft> draft_unexpected_transfer(const Facts& facts, const Circle& circle) {
  for (size_t i = 0; i < std::min(circle.absent.size(), kCircleAskedMax); ++i) {
    std::optional<Draft> extra =
        draft_extra_transfer(facts, facts.graph.nodes()[circle.absent[i].node]);
    if (extra) return extra;
  }
  return std::nullopt;
}

// Something tells of another member of the circle that it is who slipped. `shifted`: who left out
// a transfer by its own steps before, if anybody did.
bool is_another(const Facts& facts, const Circle& circle, uint32_t p,
                const std::optional<Draft>& shifted) {
  if (shifted && shifted->finding.culprits[0].process != p) return true;
  const std::vector<uint32_t> odd = find_odd_caller(facts, circle);
  if (!odd.empty() && odd.front() != p) return true;
  // Who waits where most of its communicator do has only not come to the transfer yet.
  const std::vector<uint32_t> lonely = find_lonely(facts, circle);
  return !lonely.empty() && !contains(lonely, p);
}

// One without its other side, or one whose place a later one took.
std::optional<Draft> draft_missing_transfer(const Facts& facts, const Circle& circle) {
  std::optional<Draft> shifted;
  if (circle.has_p2p) shifted = draft_shifted(facts, circle);
  const AbsentEdge* edge = find_unmatched(facts, circle);
  if (edge == nullptr) return shifted;
  // Who did what it always does is not blamed where another rank did not. A slip that what
  // follows contradicts is none: the first repetition of a step may look like one.
  const std::optional<HabitBreak> habit = habit_break(facts, edge->process);
  const bool slipped = habit && habit->alignment.contradicted == 0;
  if (!slipped && is_another(facts, circle, edge->process, shifted)) return shifted;
  return draft_left_out(facts, edge->node, {edge->process},
                        slipped ? Confidence::certain : Confidence::likely);
}

// What may be behind a circle other than calls in another order. The first that is found is told.
constexpr std::optional<Draft> (*kOrigins[])(const Facts&, const Circle&) = {
    draft_ended_early,        draft_creation,         draft_stray,
    draft_missing_collective, draft_extra_collective, draft_unexpected_transfer,
    draft_missing_transfer,   draft_grouping,         draft_shifted_collective,
};

}  // namespace

void blame_waiting(const Facts& facts, const std::vector<uint32_t>& processes, Finding& finding) {
  for (const uint32_t p : processes) {
    uint32_t g = kNone;
    const std::vector<uint32_t>& waiting = facts.playback.waiting(p);
    if (!waiting.empty()) g = facts.index.seat(p, facts.index.op(p, waiting.front()).comm).group;
    Culprit culprit = culprit_of(facts, p, g);
    if (!waiting.empty()) {
      const Op& op = facts.index.op(p, waiting.front());
      culprit.op = std::string(rollcall::name_of(op.kind));
      if (!is_collective(op.kind)) {
        culprit.p2p_seq = op.seq;
        culprit.peer = op.root_or_peer;
      } else {
        culprit.seq = op.seq;
      }
    }
    finding.culprits.push_back(std::move(culprit));
  }
}

std::vector<uint32_t> processes_of(const Facts& facts, const Circle& circle) {
  std::vector<uint32_t> processes = circle.hosts;
  for (const uint32_t n : circle.calls) {
    const std::vector<uint32_t>& callers = facts.graph.nodes()[n].callers;
    processes.insert(processes.end(), callers.begin(), callers.end());
  }
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  return processes;
}

Draft draft_circle(const Facts& facts, uint32_t r) {
  const Circle circle = look_at(facts, facts.graph.roots()[r]);
  for (const auto look_for : kOrigins) {
    std::optional<Draft> draft = look_for(facts, circle);
    if (draft) return finish(facts, r, circle, std::move(*draft));
  }
  return finish(facts, r, circle, draft_order(facts, circle, find_breach(facts, circle)));
}

}  // namespace rollcall::analysis
