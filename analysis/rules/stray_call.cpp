#include "analysis/rules/stray_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"
#include "analysis/slips/own_past.h"
#include "analysis/slips/usual_call.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kAskedMax = 64;

const Lane* lane_of(const std::unordered_map<uint32_t, const Lane*>& lanes, uint32_t group) {
  const auto found = lanes.find(group);
  return found == lanes.end() ? nullptr : found->second;
}

// The same transfer of this rank's steps before, with the peer that it had then; kNoRecord where
// they do not lead one to expect it here.
uint32_t former_transfer_of(const Facts& facts, uint32_t p, uint32_t i) {
  const std::vector<Op>& ops = facts.process(p).ops;
  const uint32_t usual = usual_at(facts, p, i);
  if (usual == kNoRecord) return kNoRecord;
  const bool is_same =
      ops[usual].comm == ops[i].comm && ops[usual].root_or_peer != ops[i].root_or_peer &&
      agree(usual_signature(facts.sizes, p, ops[usual]), usual_signature(facts.sizes, p, ops[i]));
  return is_same ? usual : kNoRecord;
}

// From this call on the process did what its steps before lead one to expect.
bool is_as_usual_from(const Facts& facts, uint32_t p, size_t first) {
  const std::vector<Op>& ops = facts.process(p).ops;
  for (size_t i = first; i < std::min(ops.size(), first + kCallsBehindMax); ++i) {
    if (is_mark(ops[i].kind)) continue;
    const uint32_t usual = usual_at(facts, p, i);
    if (usual == kNoRecord || !is_same_part(ops[usual], ops[i])) return false;
  }
  return true;
}

// The peer of a waiting transfer will not come to it: it waits where it always did at this place,
// or, where it waits for nothing, is about to make another call.
bool expects_none(const Facts& facts, uint32_t peer, const Seat& seat, const Op& transfer) {
  const std::vector<Op>& ops = facts.process(peer).ops;
  const std::vector<uint32_t>& waiting = facts.playback.waiting(peer);
  if (!waiting.empty()) return is_as_usual_from(facts, peer, waiting.front());
  const uint32_t last = facts.job.processes[peer].last_op;
  if (last == kNoRecord || !is_as_usual_from(facts, peer, last)) return false;
  const uint32_t usual = usual_at(facts, peer, ops.size());
  if (usual == kNoRecord) return false;
  const Op& next = ops[usual];
  const bool is_it = next.kind == other_side_of(transfer.kind) &&
                     next.root_or_peer == facts.group(seat.group).members[seat.member].rank &&
                     facts.index.seat(peer, next.comm).group == seat.group &&
                     next.count == transfer.count && next.datatype == transfer.datatype;
  return !is_it;
}

// The newest calls of most are such as their steps before had there: the job has not gone on to
// something new, which some have missed.
bool are_most_as_usual(const Facts& facts) {
  size_t asked = 0;
  size_t usual = 0;
  for (const uint32_t p : facts.index.active()) {
    const uint32_t last = facts.job.processes[p].last_op;
    if (last == kNoRecord) continue;
    usual += is_as_usual_from(facts, p, last);
    if (++asked == kAskedMax) break;
  }
  return usual * 2 >= asked;
}

// Where the process waits in the other side of this transfer; kNoRecord where it does not.
uint32_t awaited_in(const Facts& facts, uint32_t process, const Seat& seat, const Op& transfer) {
  const int32_t rank = facts.group(seat.group).members[seat.member].rank;
  for (const uint32_t i : facts.playback.waiting(process)) {
    const Op& op = facts.index.op(process, i);
    const bool is_it = op.kind == other_side_of(transfer.kind) && op.root_or_peer == rank &&
                       facts.index.seat(process, op.comm).group == seat.group;
    if (is_it) return i;
  }
  return kNoRecord;
}

bool are_in_order(const Facts& facts, uint32_t p, uint32_t caller) {
  return facts.process(p).knowledge.calls_in_order &&
         facts.process(caller).knowledge.calls_in_order;
}

// Behind its last call on the communicator the process made one that `caller` made only behind the
// awaited one. `there`: the communicator's calls of that one.
bool went_past(const Facts& facts, uint32_t p, uint32_t caller, const Lane* there,
               const Node& waited) {
  const std::unordered_map<uint32_t, const Lane*> own = lanes_of(facts, p);
  const Lane* here = lane_of(own, waited.group);
  if (there == nullptr || here == nullptr || !there->has(waited.seq)) return false;
  if (here->ops.empty() || here->ops.back() == kNoRecord) return false;
  if (!are_in_order(facts, p, caller)) return false;
  const std::vector<Op>& ops = facts.process(caller).ops;
  const size_t at = there->at(waited.seq);
  const auto is_made_past = [&](const Op& op) {
    const uint32_t group = facts.index.seat(caller, op.comm).group;
    if (!is_collective(op.kind) || group == waited.group) return false;
    const Lane* lane = lane_of(own, group);
    return lane != nullptr && lane->has(op.seq) && lane->at(op.seq) > here->ops.back();
  };
  for (size_t i = at + 1; i < std::min(ops.size(), at + 1 + kCallsBehindMax); ++i) {
    // Of another thread nobody knows that it comes behind.
    if (ops[i].thread != ops[at].thread || ops[i].state == trace::OpState::failed) continue;
    if (is_made_past(ops[i])) return true;
  }
  return false;
}

// The calls of a process before one of them, and the call.
struct Place {
  std::vector<Signature> before;
  std::vector<Signature> call;  // empty: none was made there
};
Place place_of(const Facts& facts, uint32_t p, size_t op) {
  return {tokens(facts, p, op > kCallsBeforeMax ? op - kCallsBeforeMax : 0, op),
          tokens(facts, p, op, op + 1)};
}

// The steps before have another call at this place.
bool is_unexpected(const Place& place) {
  if (place.call.empty()) return false;
  const std::optional<Signature> usual = expected_next(place.before);
  return usual && !agree(*usual, place.call[0]);
}

// And they have no such call.
bool is_new(const Place& place) {
  const bool is_known = !place.call.empty() && std::any_of(place.before.begin(), place.before.end(),
                                                           [&](const Signature& before) {
                                                             return agree(before, place.call[0]);
                                                           });
  return !is_known && is_unexpected(place);
}

// How many of its newest calls, from this one on, it made, all of them as the steps before lead one
// to expect; nothing where one is another.
std::optional<size_t> usual_calls(const Facts& facts, uint32_t p, size_t from) {
  const size_t calls = facts.process(p).ops.size();
  size_t usual = 0;
  for (size_t op = calls > from + kCallsBehindMax ? calls - kCallsBehindMax : from; op < calls;
       ++op) {
    const Place place = place_of(facts, p, op);
    if (place.call.empty()) continue;  // a mark
    const std::optional<Signature> expected = expected_next(place.before);
    if (!expected || !agree(*expected, place.call[0])) return std::nullopt;
    ++usual;
  }
  return usual;
}

// Of everybody who made the call.
bool holds_of_callers(const Facts& facts, const Node& waited, bool (*holds)(const Place&)) {
  if (waited.kind != NodeKind::collective || waited.callers.empty()) return false;
  if (waited.callers.size() > kAskedMax) return false;
  return std::all_of(waited.callers.begin(), waited.callers.end(), [&](uint32_t p) {
    const auto lanes = lanes_of(facts, p);
    const Lane* lane = lane_of(lanes, waited.group);
    return lane != nullptr && lane->has(waited.seq) &&
           holds(place_of(facts, p, lane->at(waited.seq)));
  });
}

// As many as made the call went on without it, and did what their steps before had; so did all.
bool go_on_as_usual(const Facts& facts, const Node& waited) {
  size_t without = 0;
  for (const Member& member : facts.group(waited.group).members) {
    const Lane& lane = member.lane;
    if (lane.called > waited.seq) continue;
    if (waited.seq == 0 || !lane.has(waited.seq - 1)) return false;
    const size_t last = lane.at(waited.seq - 1);
    const std::optional<size_t> usual = usual_calls(facts, member.process, last + 1);
    if (!usual) return false;
    // Who has not gone on says nothing.
    without += *usual > 0;
    if (without == kAskedMax) break;
  }
  return without >= waited.callers.size();
}

}  // namespace

std::vector<uint32_t> who_is_without(const Facts& facts, const Node& waited) {
  std::vector<uint32_t> without;
  for (const Member& member : facts.group(waited.group).members) {
    if (member.lane.called <= waited.seq) without.push_back(member.process);
  }
  return without;
}

std::vector<uint32_t> who_went_past(const Facts& facts, const Node& waited,
                                    const std::vector<uint32_t>& absent) {
  std::vector<uint32_t> past;
  if (waited.callers.empty()) return past;
  const uint32_t caller = waited.callers.front();
  const Lane* there = lane_of(lanes_of(facts, caller), waited.group);
  std::copy_if(absent.begin(), absent.end(), std::back_inserter(past),
               [&](uint32_t p) { return went_past(facts, p, caller, there, waited); });
  return past;
}

bool is_new_to_callers(const Facts& facts, const Node& waited) {
  return holds_of_callers(facts, waited, is_new);
}

bool is_against_habit(const Facts& facts, const Node& waited) {
  return holds_of_callers(facts, waited, is_unexpected) && go_on_as_usual(facts, waited);
}

bool is_unheard_of(const Facts& facts, const Node& waited) {
  return is_new_to_callers(facts, waited) && go_on_as_usual(facts, waited);
}

Draft draft_extra_call(const Facts& facts, uint32_t n) {
  const Node& waited = facts.graph.nodes()[n];
  const std::vector<uint32_t> absent = who_is_without(facts, waited);
  Draft draft = make_draft(Verdict::missing_call, Confidence::likely, Misstep::made_more);
  Finding& finding = draft.finding;
  const OpRef example = example_of(facts, n);
  std::vector<uint32_t> callers;
  for (const Member& member : facts.group(waited.group).members) {
    if (member.lane.called <= waited.seq) continue;
    Culprit culprit = culprit_of(facts, member.process, waited.group);
    culprit.seq = waited.seq;
    if (example.process != kNone) {
      culprit.op = std::string(rollcall::name_of(facts.index.op(example.process, example.op).kind));
    }
    finding.culprits.push_back(culprit);
    callers.push_back(member.process);
  }
  finding.summary =
      fmt::format("{} made one call more than {}: {}", processes_text(facts.index.run(), callers),
                  absent.size() == 1 ? rank_text(facts.process(absent.front()))
                                     : fmt::format("the other {} ranks", absent.size()),
                  node_text(facts, n));
  if (example.process != kNone) {
    finding.evidence.push_back(op_evidence(facts, example.process, example.op, "waits"));
  }
  for (const uint32_t p : absent) {
    if (finding.evidence.size() < kEvidenceMax)
      finding.evidence.push_back(process_evidence(facts, p));
  }
  finding.next = "compare the call sites of the last calls of the two sides";
  draft.group = waited.group;
  draft.seq = waited.seq;
  return draft;
}

namespace {

// Of a transfer, with what it called.
Culprit caller_of(const Facts& facts, const Node& waited, uint32_t g) {
  const Op& op = facts.index.op(waited.process, waited.op);
  Culprit culprit = culprit_of(facts, waited.process, g);
  culprit.op = std::string(rollcall::name_of(op.kind));
  culprit.p2p_seq = op.seq;
  culprit.peer = op.root_or_peer;
  return culprit;
}

}  // namespace

std::optional<Draft> draft_stray_transfer(const Facts& facts, const Node& waited) {
  if (waited.kind != NodeKind::p2p) return std::nullopt;
  const Op& op = facts.index.op(waited.process, waited.op);
  const Seat seat = facts.index.seat(waited.process, op.comm);
  if (!is_p2p(op.kind) || op.seq != 0 || seat.member == kNone) return std::nullopt;
  const uint32_t precedent = former_transfer_of(facts, waited.process, waited.op);
  if (precedent == kNoRecord) return std::nullopt;
  const Op& usual = facts.index.op(waited.process, precedent);
  const uint32_t expecting = process_at(facts, seat.group, usual.root_or_peer);
  const uint32_t addressee = process_at(facts, seat.group, op.root_or_peer);
  if (expecting == kNone || addressee == kNone) return std::nullopt;
  // One that hangs outside NCCL may have been about to take part.
  const std::vector<uint32_t>& theirs = facts.playback.waiting(addressee);
  if (theirs.empty()) return std::nullopt;
  // One that waits for the caller in its turn may come to it: a phase of the caller's step has
  // ended then, as the forward passes of a pipeline do, and the two disagree about when.
  const int32_t caller = facts.group(seat.group).members[seat.member].rank;
  const bool is_circle = std::any_of(theirs.begin(), theirs.end(), [&](uint32_t i) {
    const Op& other = facts.index.op(addressee, i);
    return is_p2p(other.kind) && other.root_or_peer == caller &&
           facts.index.seat(addressee, other.comm).group == seat.group;
  });
  if (is_circle) return std::nullopt;
  const uint32_t awaited = awaited_in(facts, expecting, seat, op);
  if (awaited == kNoRecord) return std::nullopt;
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely, Misstep::other_peer);
  draft.finding.culprits.push_back(caller_of(facts, waited, seat.group));
  draft.finding.evidence.push_back(
      op_evidence(facts, waited.process, waited.op, "the first between the two"));
  draft.finding.evidence.push_back(
      op_evidence(facts, waited.process, precedent, "what the steps before had there"));
  draft.finding.evidence.push_back(op_evidence(facts, expecting, awaited, "waits"));
  draft.finding.summary = fmt::format(
      "{} called {} where its steps before had {}; {} has been waiting for that for {}",
      rank_text(facts.process(waited.process)), call_text(facts.index, waited.process, op),
      call_text(facts.index, waited.process, usual), rank_text(facts.process(expecting)),
      span_text(facts.job.end_ns - facts.index.op(expecting, awaited).called_ns));
  draft.finding.next = "look at how that rank computes the peer of this transfer";
  draft.since_ns = waited.since_ns;
  draft.node = facts.graph.find_p2p(waited.process, waited.op);
  return draft;
}

namespace {

// Most of the others exchange with this peer, too, and have come as far with it as the caller: then
// it is the peer that has not.
bool is_made_by_most(const Facts& facts, const Seat& seat, const Op& op) {
  size_t asked = 0;
  size_t made = 0;
  for (const Member& member : facts.group(seat.group).members) {
    const bool is_caller = member.rank == facts.group(seat.group).members[seat.member].rank;
    if (is_caller || member.rank == op.root_or_peer) continue;
    const bool sends = is_source(op.kind);
    const uint32_t found = sends
                               ? facts.index.find_channel(seat.group, member.rank, op.root_or_peer)
                               : facts.index.find_channel(seat.group, op.root_or_peer, member.rank);
    if (found == kNone) continue;
    const Channel& channel = facts.index.channels()[found];
    ++asked;
    made += (sends ? channel.send_at(op.seq) : channel.recv_at(op.seq)) != kNoRecord;
    if (asked == kAskedMax) break;
  }
  return asked > 1 && made * 2 > asked;
}

}  // namespace

std::optional<Draft> draft_extra_transfer(const Facts& facts, const Node& waited) {
  if (waited.kind != NodeKind::p2p) return std::nullopt;
  const Op& op = facts.index.op(waited.process, waited.op);
  const Seat seat = facts.index.seat(waited.process, op.comm);
  if (!is_p2p(op.kind) || seat.member == kNone) return std::nullopt;
  const uint32_t peer = process_at(facts, seat.group, op.root_or_peer);
  if (peer == kNone || !is_out_of_place(facts, waited.process, waited.op)) return std::nullopt;
  if (is_made_by_most(facts, seat, op)) return std::nullopt;
  // That peer would have to wait for it: draft_stray_transfer().
  if (former_transfer_of(facts, waited.process, waited.op) != kNoRecord) return std::nullopt;
  if (!expects_none(facts, peer, seat, op) || !are_most_as_usual(facts)) return std::nullopt;
  const uint32_t usual = usual_at(facts, waited.process, waited.op);
  const Op& expected = facts.index.op(waited.process, usual);
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely, Misstep::made_more);
  draft.finding.culprits.push_back(caller_of(facts, waited, seat.group));
  draft.finding.evidence.push_back(op_evidence(facts, waited.process, waited.op, "waits"));
  draft.finding.evidence.push_back(
      op_evidence(facts, waited.process, usual, "what the steps before had there"));
  draft.finding.evidence.push_back(process_evidence(facts, peer));
  draft.finding.summary = fmt::format(
      "{} has been in {} for {}, where its steps before had {}; {} did what it always did, and "
      "expects none",
      rank_text(facts.process(waited.process)), call_text(facts.index, waited.process, op),
      span_text(facts.job.end_ns - waited.since_ns),
      call_text(facts.index, waited.process, expected), rank_text(facts.process(peer)));
  draft.finding.next = "look at the branch that decides about this call on that rank";
  draft.since_ns = waited.since_ns;
  draft.node = facts.graph.find_p2p(waited.process, waited.op);
  return draft;
}

namespace {

// How many calls from `at` on are those from `usual` on, up to `limit` and then from `again` on
// once more; nothing where one is not.
std::optional<size_t> calls_alike(const Facts& facts, uint32_t p, size_t at, size_t usual,
                                  size_t limit, size_t again) {
  const std::vector<Op>& ops = facts.process(p).ops;
  size_t alike = 0;
  while (at < ops.size() && alike < kCallsBehindMax) {
    if (usual == limit) usual = again;
    if (usual == limit) break;
    if (is_mark(ops[at].kind)) {
      ++at;
    } else if (is_mark(ops[usual].kind)) {
      ++usual;
    } else if (agree(with_peer(facts, p, ops[at++]), with_peer(facts, p, ops[usual++]))) {
      ++alike;
    } else {
      return std::nullopt;
    }
  }
  return alike;
}

// The call, if the steps before have it on another communicator there, and the calls behind it are
// as before. Not where it may be one left out in front of a usual one, one made more, or the other
// of two that changed places.
struct Misdirected {
  uint32_t process = kNone;
  uint32_t op = kNoRecord;
  uint32_t usual = kNoRecord;
};
bool is_misdirected(const Facts& facts, const Misdirected& call) {
  const uint32_t p = call.process;
  const uint32_t op = call.op;
  const uint32_t usual = call.usual;
  const std::vector<Op>& ops = facts.process(p).ops;
  const bool is_same =
      is_collective(ops[op].kind) && ops[op].comm != ops[usual].comm &&
      agree(usual_signature(facts.sizes, p, ops[op]), usual_signature(facts.sizes, p, ops[usual]));
  // Sizes that change tell nothing of where a call belongs.
  if (!is_same || facts.sizes.changes(p, ops[op]) || facts.sizes.changes(p, ops[usual]))
    return false;
  if (ops[op].state == trace::OpState::failed) return false;
  // Nor does a communicator that nothing is known of.
  const bool are_known = facts.index.seat(p, ops[op].comm).group != kNone &&
                         facts.index.seat(p, ops[usual].comm).group != kNone;
  if (!are_known) return false;
  const std::optional<size_t> behind = calls_alike(facts, p, op + 1, usual + 1, op, op);
  if (!behind) return false;
  const size_t first = op > kCallsBeforeMax ? op - kCallsBeforeMax : 0;
  const bool is_known = std::any_of(
      ops.begin() + static_cast<ptrdiff_t>(first), ops.begin() + op, [&](const Op& before) {
        return agree(with_peer(facts, p, before), with_peer(facts, p, ops[op]));
      });
  if (!is_known) return true;
  return *behind > 0 && !calls_alike(facts, p, op, usual + 1, op, usual) &&
         !calls_alike(facts, p, op + 1, usual, op, usual);
}

// The process repeated itself at least once from the usual call up to this one.
bool is_in_habit(const Facts& facts, const Misdirected& call) {
  const uint32_t step = call.op - call.usual;
  if (call.usual < step) return false;
  return calls_alike(facts, call.process, call.usual, call.usual - step, call.usual, call.usual)
      .has_value();
}

// Later steps have the call there as well, behind the same two: it belongs there. The first step
// that several equal calls begin looks like many of them.
bool comes_again(const Facts& facts, const Misdirected& call) {
  constexpr size_t kContext = 2;
  const auto& [calls, places] = own_calls(facts, call.process);
  const auto found = std::lower_bound(places.begin(), places.end(), call.op);
  const auto at = static_cast<size_t>(found - places.begin());
  const size_t first = at > kContext ? at - kContext : 0;
  const size_t length = at - first + 1;
  const size_t end = std::min(calls.size(), at + kCallsBeforeMax);
  for (size_t later = at + 1; later + length <= end; ++later) {
    const bool is_same =
        std::equal(calls.begin() + static_cast<ptrdiff_t>(first),
                   calls.begin() + static_cast<ptrdiff_t>(at + 1),
                   calls.begin() + static_cast<ptrdiff_t>(later),
                   [](const Signature& a, const Signature& b) { return agree(a, b); });
    if (is_same) return true;
  }
  return false;
}

// Near the call in which the process waits.
std::optional<Misdirected> misdirected_call(const Facts& facts, uint32_t p) {
  const std::vector<Op>& ops = facts.process(p).ops;
  const std::vector<uint32_t>& waiting = facts.playback.waiting(p);
  const size_t front = waiting.empty() ? ops.size() : waiting.front();
  if (!facts.process(p).knowledge.calls_in_order) return std::nullopt;
  for (size_t at = front - std::min(front, kCallsBehindMax);
       at < std::min(ops.size(), front + kCallsBehindMax); ++at) {
    if (is_mark(ops[at].kind)) continue;
    const Misdirected call{p, static_cast<uint32_t>(at), usual_at(facts, p, at)};
    if (call.usual == kNoRecord) continue;
    if (is_misdirected(facts, call) && is_in_habit(facts, call) && !comes_again(facts, call))
      return call;
  }
  return std::nullopt;
}

std::vector<uint32_t> who_waits_for(const Facts& facts, uint32_t group, uint64_t seq) {
  const uint32_t n = facts.graph.find_collective(group, seq);
  const uint32_t r = n == kNone ? kNone : facts.graph.root_of(n);
  return r == kNone ? std::vector<uint32_t>{} : facts.graph.roots()[r].victims;
}

// What showed becomes what followed.
void retell(const Facts& facts, const std::vector<Misdirected>& calls, Draft& draft) {
  Finding showed = std::move(draft.finding);
  Finding& finding = draft.finding;
  finding =
      make_draft(Verdict::missing_call, Confidence::likely, Misstep::other_communicator).finding;
  finding.severity = showed.severity;
  std::vector<uint32_t> processes;
  for (const auto& [p, i, usual] : calls) {
    const Seat seat = facts.index.seat(p, facts.index.op(p, usual).comm);
    Culprit culprit = culprit_of(facts, p, seat.group);
    culprit.op = std::string(rollcall::name_of(facts.index.op(p, usual).kind));
    culprit.seq = 0;
    for (uint32_t before = 0; before < i; ++before) {
      const Op& op = facts.index.op(p, before);
      if (is_collective(op.kind) && op.comm == facts.index.op(p, usual).comm)
        culprit.seq = op.seq + 1;
    }
    if (processes.empty()) {
      draft.group = seat.group;
      draft.seq = *culprit.seq;
    }
    processes.push_back(p);
    finding.culprits.push_back(std::move(culprit));
    if (finding.evidence.size() >= kEvidenceMax) continue;
    finding.evidence.push_back(op_evidence(
        facts, p, i,
        "on " + facts.group(facts.index.seat(p, facts.index.op(p, i).comm).group).name));
    finding.evidence.push_back(
        op_evidence(facts, p, usual, "in a step before, on " + facts.group(seat.group).name));
  }
  const auto& [p, i, usual] = calls.front();
  const Op& op = facts.index.op(p, i);
  const Seat seat = facts.index.seat(p, op.comm);
  finding.summary = fmt::format(
      "{} called {} on another communicator than in the steps before: {} seq {} of {}, and not seq "
      "{} of {}",
      processes_text(facts.index.run(), processes), call_text(facts.index, p, op),
      calls.size() == 1 ? "as" : rank_text(facts.process(p)) + " as", op.seq,
      facts.group(seat.group).name, draft.seq, facts.group(draft.group).name);
  finding.next = "look at which group that rank passes to this call";
  std::vector<uint32_t> others = who_waits_for(facts, draft.group, draft.seq);
  for (const Culprit& culprit : showed.culprits) others.push_back(culprit.process);
  finding.victims = std::move(showed.victims);
  set_victims(facts, others, finding);
  take_what_follows(showed, finding);
  finding.consequences.insert(finding.consequences.begin(), std::move(showed));
}

// Those that a call on another communicator may be behind, the worst and oldest first.
std::vector<Draft*> drafts_about_calls(std::vector<Draft>& drafts) {
  std::vector<Draft*> sorted;
  for (Draft& draft : drafts) {
    const Verdict verdict = draft.finding.verdict;
    const bool is_asked = is_about_calls(verdict) || verdict == Verdict::deadlock_comms;
    if (is_asked && draft.finding.culprits.size() <= kAskedMax) sorted.push_back(&draft);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const Draft* a, const Draft* b) {
    if (a->finding.severity != b->finding.severity)
      return a->finding.severity > b->finding.severity;
    return a->since_ns < b->since_ns;
  });
  return sorted;
}

// Of those who are blamed, but for whom it has been told of already.
std::vector<Misdirected> misdirected_calls(const Facts& facts, const std::vector<Culprit>& culprits,
                                           const std::set<uint32_t>& told) {
  std::vector<Misdirected> calls;
  for (const Culprit& culprit : culprits) {
    if (culprit.process == kNone || told.count(culprit.process) != 0) continue;
    const std::optional<Misdirected> call = misdirected_call(facts, culprit.process);
    if (call) calls.push_back(*call);
  }
  return calls;
}

}  // namespace

void trace_to_other_communicators(const Facts& facts, std::vector<Draft>& drafts) {
  std::set<uint32_t> told;
  for (Draft* draft : drafts_about_calls(drafts)) {
    const std::vector<Culprit>& culprits = draft->finding.culprits;
    const std::vector<Misdirected> calls = misdirected_calls(facts, culprits, told);
    const bool is_all = calls.size() == culprits.size();
    const bool may_be_some = draft->finding.confidence != Confidence::certain || !draft->is_decided;
    if (calls.empty() || (!is_all && !may_be_some)) continue;
    for (const Misdirected& call : calls) told.insert(call.process);
    retell(facts, calls, *draft);
  }
}

}  // namespace rollcall::analysis
