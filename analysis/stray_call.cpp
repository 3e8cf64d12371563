#include "analysis/stray_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "analysis/habit.h"
#include "analysis/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kLaterCallsMax = 64;
constexpr size_t kHistoryMax = 2048;
constexpr size_t kAskedMax = 64;

const Lane* lane_of(const std::unordered_map<uint32_t, const Lane*>& lanes, uint32_t group) {
  const auto found = lanes.find(group);
  return found == lanes.end() ? nullptr : found->second;
}

// A transfer as it compares with the rank's own earlier ones: here the peer matters.
Signature with_peer(const Op& op) {
  Signature signature = signature_of(op);
  if (is_p2p(op.kind)) signature.root = op.root_or_peer;
  signature.count ^= (uint64_t{op.comm} + 1) * 0x9e3779b97f4a7c15;
  return signature;
}

// The same transfer of this rank's steps before, with the peer that it had then; kNoRecord where
// they do not lead one to expect it here.
uint32_t precedent_of(const Case& c, uint32_t p, uint32_t i) {
  const std::vector<Op>& ops = c.process(p).ops;
  std::vector<Signature> history;
  std::vector<uint32_t> places;
  for (size_t at = i > kHistoryMax ? i - kHistoryMax : 0; at < i; ++at) {
    if (is_mark(ops[at].kind)) continue;
    history.push_back(with_peer(ops[at]));
    places.push_back(static_cast<uint32_t>(at));
  }
  const std::optional<Expectation> expectation = expectation_of(history);
  if (!expectation) return kNoRecord;
  const Op& before = ops[places[expectation->index]];
  const bool is_same = before.comm == ops[i].comm && before.root_or_peer != ops[i].root_or_peer &&
                       agree(signature_of(before), signature_of(ops[i]));
  return is_same ? places[expectation->index] : kNoRecord;
}

// Where the process waits in the other side of this transfer; kNoRecord where it does not.
uint32_t awaited_in(const Case& c, uint32_t process, const Seat& seat, const Op& transfer) {
  const int32_t rank = c.group(seat.group).members[seat.member].rank;
  for (const uint32_t i : c.progress.waiting(process)) {
    const Op& op = c.index.op(process, i);
    const bool is_it = op.kind == other_side_of(transfer.kind) && op.root_or_peer == rank &&
                       c.index.seat(process, op.comm).group == seat.group;
    if (is_it) return i;
  }
  return kNoRecord;
}

// Behind its last call on the communicator the process made one that `caller` made only behind the
// awaited one.
bool is_past(const Case& c, uint32_t p, uint32_t caller, const Node& waited) {
  const std::unordered_map<uint32_t, const Lane*> theirs = lanes_of(c, caller);
  const std::unordered_map<uint32_t, const Lane*> own = lanes_of(c, p);
  const Lane* there = lane_of(theirs, waited.group);
  const Lane* here = lane_of(own, waited.group);
  if (there == nullptr || here == nullptr || !there->has(waited.seq)) return false;
  if (here->ops.empty() || here->ops.back() == kNoRecord) return false;
  if (!c.process(p).knowledge.calls_in_order || !c.process(caller).knowledge.calls_in_order) {
    return false;
  }
  const std::vector<Op>& ops = c.process(caller).ops;
  const size_t at = there->ops[waited.seq - there->first];
  for (size_t i = at + 1; i < std::min(ops.size(), at + 1 + kLaterCallsMax); ++i) {
    // Of another thread nobody knows that it comes behind.
    if (ops[i].thread != ops[at].thread || ops[i].state == trace::OpState::failed) continue;
    const uint32_t group = c.index.seat(caller, ops[i].comm).group;
    if (!is_collective(ops[i].kind) || group == waited.group) continue;
    const Lane* lane = lane_of(own, group);
    if (lane == nullptr || !lane->has(ops[i].seq)) continue;
    if (lane->ops[ops[i].seq - lane->first] > here->ops.back()) return true;
  }
  return false;
}

// The calls of a process before one of them, and the call.
struct Place {
  std::vector<Signature> before;
  std::vector<Signature> call;  // empty: none was made there
};
Place place_of(const Case& c, uint32_t p, size_t op) {
  return {tokens(c, p, op > kHistoryMax ? op - kHistoryMax : 0, op), tokens(c, p, op, op + 1)};
}

// The steps before have no such call, and another one at this place.
bool is_new(const Place& place) {
  if (place.call.empty()) return false;
  const std::optional<Signature> usual = expected_next(place.before);
  const bool is_known =
      std::any_of(place.before.begin(), place.before.end(),
                  [&](const Signature& before) { return agree(before, place.call[0]); });
  return usual && !is_known;
}

// It made calls from this one on, and all of them as the steps before lead one to expect.
bool goes_on_as_usual(const Case& c, uint32_t p, size_t from) {
  const size_t calls = c.process(p).ops.size();
  size_t usual = 0;
  for (size_t op = from; op < std::min(calls, from + kLaterCallsMax); ++op) {
    const Place place = place_of(c, p, op);
    if (place.call.empty()) continue;  // a mark
    const std::optional<Signature> expected = expected_next(place.before);
    if (!expected || !agree(*expected, place.call[0])) return false;
    ++usual;
  }
  return usual > 0;
}

}  // namespace

bool went_past(const Case& c, const Node& waited, const std::vector<uint32_t>& absent) {
  if (waited.callers.empty()) return false;
  const uint32_t caller = waited.callers.front();
  return std::all_of(absent.begin(), absent.end(),
                     [&](uint32_t p) { return is_past(c, p, caller, waited); });
}

bool is_unheard_of(const Case& c, const Node& waited) {
  if (waited.kind != NodeKind::collective || waited.callers.empty()) return false;
  if (waited.callers.size() > kAskedMax) return false;
  for (const uint32_t p : waited.callers) {
    const auto lanes = lanes_of(c, p);
    const Lane* lane = lane_of(lanes, waited.group);
    if (lane == nullptr || !lane->has(waited.seq)) return false;
    if (!is_new(place_of(c, p, lane->ops[waited.seq - lane->first]))) return false;
  }
  size_t without = 0;
  for (const Member& member : c.group(waited.group).members) {
    const Lane& lane = member.lane;
    if (lane.called > waited.seq) continue;
    if (waited.seq == 0 || !lane.has(waited.seq - 1)) return false;
    const size_t last = lane.ops[waited.seq - 1 - lane.first];
    if (!goes_on_as_usual(c, member.process, last + 1)) return false;
    if (++without == kAskedMax) break;
  }
  return without >= waited.callers.size();
}

Draft draft_extra_call(const Case& c, uint32_t n, const std::vector<uint32_t>& absent) {
  const Node& waited = c.graph.nodes()[n];
  Draft draft = make_draft(Verdict::missing_call, Confidence::likely);
  Finding& finding = draft.finding;
  const Blocked example = example_of(c, n);
  std::vector<uint32_t> callers;
  for (const Member& member : c.group(waited.group).members) {
    if (member.lane.called <= waited.seq) continue;
    Culprit culprit = culprit_of(c, member.process, waited.group);
    culprit.seq = waited.seq;
    if (example.process != kNone) {
      culprit.op = std::string(rollcall::name_of(c.index.op(example.process, example.op).kind));
    }
    finding.culprits.push_back(culprit);
    callers.push_back(member.process);
  }
  finding.summary =
      fmt::format("{} made one call more than {}: {}", processes_text(c.index.run(), callers),
                  absent.size() == 1 ? rank_text(c.process(absent.front()))
                                     : fmt::format("the other {} ranks", absent.size()),
                  node_text(c, n));
  if (example.process != kNone) {
    finding.evidence.push_back(op_evidence(c, example.process, example.op, "waits"));
  }
  for (const uint32_t p : absent) {
    if (finding.evidence.size() < 8) finding.evidence.push_back(process_evidence(c, p));
  }
  finding.next = "compare the call sites of the last calls of the two sides";
  draft.group = waited.group;
  draft.seq = waited.seq;
  return draft;
}

std::optional<Draft> draft_stray_transfer(const Case& c, const Node& waited) {
  if (waited.kind != NodeKind::p2p) return std::nullopt;
  const Op& op = c.index.op(waited.process, waited.op);
  const Seat seat = c.index.seat(waited.process, op.comm);
  if (!is_p2p(op.kind) || op.seq != 0 || seat.member == kNone) return std::nullopt;
  const uint32_t precedent = precedent_of(c, waited.process, waited.op);
  if (precedent == kNoRecord) return std::nullopt;
  const Op& usual = c.index.op(waited.process, precedent);
  const uint32_t expecting = process_at(c, seat.group, usual.root_or_peer);
  const uint32_t addressee = process_at(c, seat.group, op.root_or_peer);
  if (expecting == kNone || addressee == kNone) return std::nullopt;
  // One that hangs outside NCCL may have been about to take part.
  if (c.progress.waiting(addressee).empty()) return std::nullopt;
  const uint32_t awaited = awaited_in(c, expecting, seat, op);
  if (awaited == kNoRecord) return std::nullopt;
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely);
  Culprit culprit = culprit_of(c, waited.process, seat.group);
  culprit.op = std::string(rollcall::name_of(op.kind));
  culprit.p2p_seq = op.seq;
  culprit.peer = op.root_or_peer;
  draft.finding.culprits.push_back(std::move(culprit));
  draft.finding.evidence.push_back(
      op_evidence(c, waited.process, waited.op, "the first between the two"));
  draft.finding.evidence.push_back(
      op_evidence(c, waited.process, precedent, "what the steps before had there"));
  draft.finding.evidence.push_back(op_evidence(c, expecting, awaited, "waits"));
  draft.finding.summary =
      fmt::format("{} called {} where its steps before had {}; {} has been waiting for that for {}",
                  rank_text(c.process(waited.process)), call_text(op), call_text(usual),
                  rank_text(c.process(expecting)),
                  span_text(c.job.end_ns - c.index.op(expecting, awaited).called_ns));
  draft.finding.next = "look at how that rank computes the peer of this transfer";
  draft.since_ns = waited.since_ns;
  return draft;
}

}  // namespace rollcall::analysis
