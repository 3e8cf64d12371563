#include "analysis/rules/left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"
#include "analysis/slips/alike_ranks.h"
#include "analysis/slips/own_past.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kEdgesAskedMax = 1024;
// Who only changed the places of two calls went on with one.
constexpr uint32_t kBehindMin = 2;

// Where the calls of a process behind position seq-1 of a communicator begin; nothing where that
// record is lost.
std::optional<size_t> tail_begin(const Lane& lane, uint64_t seq) {
  if (seq == 0) return 0;
  if (!lane.has(seq - 1)) return std::nullopt;
  return lane.at(seq - 1) + 1;
}

const Lane* lane_in(const Group& group, uint32_t p) {
  const auto found = std::find_if(group.members.begin(), group.members.end(),
                                  [&](const Member& member) { return member.process == p; });
  return found == group.members.end() ? nullptr : &found->lane;
}

// How the calls of a rank behind the last common call follow from those of another.
struct TailComparison {
  Alignment alignment;
  bool is_habit = false;    // its own steps before had the same call where the two part
  bool is_at_call = false;  // they part where the other made the call that is waited in
};

// Where the calls of two ranks behind the last common one begin; nothing where that is lost.
struct Tails {
  size_t own = 0;
  size_t theirs = 0;
};
std::optional<Tails> tails_of(const Lane& own, const Lane& theirs, uint64_t seq) {
  // Both have to begin behind the same call.
  const uint64_t common = std::min({seq, own.called, theirs.called});
  const std::optional<size_t> own_begin = tail_begin(own, common);
  const std::optional<size_t> their_begin = tail_begin(theirs, common);
  if (!own_begin || !their_begin) return std::nullopt;
  return Tails{*own_begin, *their_begin};
}

// The newest calls in front of `end`, as many as count.
std::vector<Signature> tokens_before(const Facts& facts, uint32_t p, size_t end) {
  return tokens(facts, p, end > kCallsBeforeMax ? end - kCallsBeforeMax : 0, end);
}

size_t count_same(const std::vector<Signature>& calls, const std::vector<Signature>& expected) {
  const auto parting =
      std::mismatch(calls.begin(), calls.end(), expected.begin(), expected.end(),
                    [](const Signature& a, const Signature& b) { return agree(a, b); });
  return static_cast<size_t>(parting.first - calls.begin());
}

TailComparison compare_tails(const Facts& facts, uint32_t deviator, uint32_t reference,
                             const Node& call) {
  TailComparison comparison;
  comparison.alignment = {.slip = Slip::missing, .predicted = true};  // says nothing
  const Lane* own = lane_in(facts.group(call.group), deviator);
  const Lane* theirs = lane_in(facts.group(call.group), reference);
  if (own == nullptr || theirs == nullptr) return comparison;
  const std::optional<Tails> begin = tails_of(*own, *theirs, call.seq);
  if (!begin) return comparison;
  std::vector<Signature> calls = tokens(facts, deviator, begin->own, begin->own + kCallsBehindMax);
  std::vector<Signature> expected =
      tokens(facts, reference, begin->theirs, begin->theirs + kCallsBehindMax);
  // The first place where they part is what is to be explained.
  const size_t same = count_same(calls, expected);
  const size_t seen = expected.size() - same;
  if (same < expected.size() && theirs->has(call.seq)) {
    const size_t at = theirs->at(call.seq);
    comparison.is_at_call = tokens(facts, reference, begin->theirs, at).size() == same;
  }
  if (same < calls.size()) {
    std::vector<Signature> before = tokens_before(facts, deviator, begin->own);
    before.insert(before.end(), calls.begin(), calls.begin() + static_cast<ptrdiff_t>(same));
    const std::optional<Signature> usual = expected_next(before);
    comparison.is_habit = usual && agree(*usual, calls[same]);
  }
  if (const size_t wanted = calls.size() + kSlipMax; wanted > expected.size()) {
    std::vector<Signature> history = tokens_before(facts, reference, begin->theirs);
    history.insert(history.end(), expected.begin(), expected.end());
    const std::vector<Signature> later = expected_calls(history, wanted - expected.size());
    expected.insert(expected.end(), later.begin(), later.end());
  }
  calls.erase(calls.begin(), calls.begin() + static_cast<ptrdiff_t>(same));
  expected.erase(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(same));
  if (!calls.empty() && !expected.empty()) comparison.alignment = align(calls, expected, seen);
  return comparison;
}

Culprit who_left_out(const Facts& facts, const Node& node, uint32_t p, const OpRef& example) {
  Culprit culprit = culprit_of(facts, p, node.group);
  const Op& op = facts.index.op(example.process, example.op);
  if (node.kind == NodeKind::p2p) {
    culprit.p2p_seq = node.seq;
    culprit.op = std::string(rollcall::name_of(other_side_of(op.kind)));
    const Seat seat = facts.index.seat(example.process, op.comm);
    culprit.peer = facts.group(seat.group).members[seat.member].rank;
  } else {
    culprit.seq = node.seq;
    culprit.op = std::string(rollcall::name_of(op.kind));
  }
  return culprit;
}

const char* end_text(const trace::Event& end) {
  if (end.kind == EventKind::CommAbort) return "aborted the communicator without";
  return end.kind == EventKind::CommFinalize ? "finalized the communicator without"
                                             : "destroyed the communicator without";
}

// Held against some of those who made the call, of whom one may be odd itself. How many calls
// behind show it.
uint32_t calls_behind_for_all(const Facts& facts, uint32_t p, const Node& node) {
  const std::vector<uint32_t>& callers = node.callers;
  uint32_t behind = 0;
  for (const uint32_t caller : {callers.front(), callers[callers.size() / 2], callers.back()}) {
    const auto [alignment, is_habit, is_at_call] = compare_tails(facts, p, caller, node);
    // Who did what it always does left nothing out.
    const bool is_left_out = alignment.slip == Slip::missing && !alignment.predicted &&
                             alignment.contradicted == 0 && !is_habit && is_at_call;
    if (!is_left_out) return 0;
    behind = std::max(behind, alignment.matched);
  }
  return behind;
}

// One call, or several in a row; or all of one communicator up to a call on another, with others in
// between. How many calls behind show it; 0: none was left out.
uint32_t calls_behind(const Facts& facts, uint32_t p, const HabitBreak& found) {
  const Alignment& alignment = found.until_new;
  if (alignment.slip == Slip::missing && alignment.contradicted == 0) return alignment.matched;
  const std::optional<Omission> omission = omission_of(facts, p, found);
  return omission ? omission->behind : 0;
}

// And the rank's own steps before.
uint32_t calls_behind_by_habit(const Facts& facts, const AbsentEdge& edge) {
  const Node& node = facts.graph.nodes()[edge.node];
  const std::optional<HabitBreak> habit = habit_break(facts, edge.process);
  if (!habit) return 0;
  const Op& left_out = facts.index.op(edge.process, habit->precedent);
  const OpRef example = example_of(facts, edge.node);
  const bool is_it = is_collective(left_out.kind) &&
                     facts.index.seat(edge.process, left_out.comm).group == node.group &&
                     (example.process == kNone ||
                      agree(usual_signature(facts.sizes, edge.process, left_out),
                            usual_signature(facts.sizes, example.process,
                                            facts.index.op(example.process, example.op))));
  return is_it ? calls_behind(facts, edge.process, *habit) : 0;
}

// And the others.
uint32_t calls_behind_of_others(const Facts& facts, const AbsentEdge& edge, Beside& others) {
  const std::optional<Beside::Omission> beside = others.omission_of(edge.process);
  if (!beside || beside->behind < kBehindMin) return 0;
  const Op& left_out = facts.index.op(beside->left_out.process, beside->left_out.op);
  const bool is_it =
      is_collective(left_out.kind) &&
      facts.index.seat(edge.process, left_out.comm).group == facts.graph.nodes()[edge.node].group;
  return is_it ? beside->behind : 0;
}

// As many sends as receives between the rank and the peer of this call: none was left out.
bool is_balanced(const Facts& facts, uint32_t p, const Op& op) {
  const uint32_t i = facts.index.channel_of(p, op);
  if (i == kNone) return false;
  const Channel& channel = facts.index.channels()[i];
  return channel.first_send + channel.sends.size() == channel.first_recv + channel.recvs.size();
}

// The position that a call would have had in front of another one of the process.
uint64_t position_of(const Facts& facts, const Op& call, const OpRef& behind) {
  const auto counts = [&](const Op& op) {
    if (op.comm != call.comm) return false;
    if (is_collective(call.kind)) return is_collective(op.kind);
    return op.kind == call.kind && op.root_or_peer == call.root_or_peer;
  };
  uint64_t seq = 0;
  for (uint32_t i = 0; i < behind.op; ++i) {
    const Op& op = facts.index.op(behind.process, i);
    if (counts(op)) seq = op.seq + 1;
  }
  return seq;
}

// A call of its steps before that a rank left out, and a later one on the same way took its place.
// `precedent`: of one of its steps before, or of another rank.
Draft draft_break(const Facts& facts, const OpRef& broke, const OpRef& precedent, uint32_t length) {
  const uint32_t p = broke.process;
  const bool is_habit = precedent.process == p;
  const Op& left_out = facts.index.op(precedent.process, precedent.op);
  const std::string left_out_text = call_text(facts.index, precedent.process, left_out);
  const bool pair = !is_collective(left_out.kind);
  const uint32_t g = facts.index.seat(p, left_out.comm).group;
  const uint64_t seq = position_of(facts, left_out, broke);
  Draft draft = make_draft(pair ? Verdict::p2p_unmatched : Verdict::missing_call,
                           Confidence::likely, Misstep::left_out);
  Culprit culprit = culprit_of(facts, p, g);
  culprit.op = std::string(rollcall::name_of(left_out.kind));
  if (pair) {
    culprit.peer = left_out.root_or_peer;
    culprit.p2p_seq = seq;
  } else {
    culprit.seq = draft.seq = seq;
    draft.group = g;
  }
  draft.finding.culprits.push_back(std::move(culprit));
  draft.finding.evidence.push_back(op_evidence(
      facts, p, broke.op,
      (is_habit ? "where the steps before lead one to expect " : "where other ranks have ") +
          left_out_text));
  const std::string first =
      pair ? "a " + left_out_text
           : fmt::format("{}, seq {} of {}", left_out_text, seq, facts.group(g).name);
  draft.finding.summary = fmt::format(
      "{} left out {}; {} had {} in front of {} {}; {}, and the ranks now wait for each other",
      rank_text(facts.process(p)),
      length == 1 ? first : fmt::format("{} calls, the first of them {}", length, first),
      is_habit ? "the steps before" : "the others", length == 1 ? "it" : "them",
      is_habit ? "its" : "their", call_text(facts.index, p, facts.index.op(p, broke.op)),
      length == 1 ? "a later one took its place" : "later ones took their place");
  draft.finding.next = fmt::format("look at the branch that decides about this {} on that rank",
                                   pair ? "transfer" : "call");
  return draft;
}

std::optional<Draft> draft_shifted_by_habit(const Facts& facts, uint32_t p) {
  const std::optional<HabitBreak> found = habit_break(facts, p);
  if (!found || !is_collective(facts.index.op(p, found->precedent).kind)) return std::nullopt;
  const std::optional<Omission> omission = omission_of(facts, p, *found);
  if (!omission || omission->behind < kBehindMin) return std::nullopt;
  return draft_break(facts, {p, found->op}, {p, found->precedent}, omission->left_out);
}

}  // namespace

Draft draft_left_out(const Facts& facts, uint32_t n, const std::vector<uint32_t>& processes,
                     Confidence confidence) {
  const Node& node = facts.graph.nodes()[n];
  const bool pair = node.kind == NodeKind::p2p;
  Draft draft = make_draft(pair ? Verdict::p2p_unmatched : Verdict::missing_call, confidence,
                           Misstep::left_out);
  draft.node = n;
  const OpRef example = example_of(facts, n);
  const Op& op = facts.index.op(example.process, example.op);
  const trace::Event* end = end_before_wait(facts, processes.front(), node.group);
  for (const uint32_t p : processes) {
    draft.finding.culprits.push_back(who_left_out(facts, node, p, example));
    if (draft.finding.evidence.size() < kEvidenceMax) {
      draft.finding.evidence.push_back(process_evidence(facts, p));
    }
  }
  if (end != nullptr) {
    draft.finding.evidence.push_back(end_evidence(facts, processes.front(), *end));
  }
  if (!pair) {
    draft.group = node.group;
    draft.seq = node.seq;
  }
  draft.finding.evidence.push_back(op_evidence(facts, example.process, example.op, "waits"));
  const bool is_one = processes.size() == 1;
  draft.finding.summary = fmt::format(
      "{} {} {}, which {} {} been {} for {}, and went on to wait {}; {}{}",
      processes_text(facts.index.run(), processes), end == nullptr ? "never made" : end_text(*end),
      pair ? fmt::format("the {} that belongs to the {}", other_side_text(op.kind),
                         node_text(facts, n))
           : "the call " + node_text(facts, n),
      processes_text(facts.index.run(), node.callers), node.callers.size() == 1 ? "has" : "have",
      pair ? "awaiting" : "waiting in", span_text(facts.job.end_ns - node.since_ns),
      is_one ? "itself" : "themselves",
      is_one ? "" : rank_text(facts.process(processes.front())) + ": ",
      doing_text(facts.index, facts.job, processes.front()));
  if (end != nullptr) {
    draft.finding.next = "look why that rank ends the communicator in front of it";
  } else if (pair) {
    // Transfers of one size have no names: one too many looks like one too few on the other side.
    draft.finding.next = fmt::format(
        "look at the branch that decides about this transfer on that rank, and on {}: it may make "
        "one more than it should",
        processes_text(facts.index.run(), node.callers));
  } else {
    draft.finding.next = "look at the branch that decides about this call on that rank";
  }
  return draft;
}

std::optional<Draft> draft_ended_early(const Facts& facts, const Circle& circle) {
  std::map<uint32_t, std::vector<uint32_t>> ended;  // by node
  for (const AbsentEdge& edge : circle.absent) {
    const Node& node = facts.graph.nodes()[edge.node];
    if (node.kind == NodeKind::creation || node.callers.empty()) continue;
    if (end_before_wait(facts, edge.process, node.group)) ended[edge.node].push_back(edge.process);
  }
  for (const auto& [n, processes] : ended) {
    const size_t callers = facts.graph.nodes()[n].callers.size();
    // Where more have ended it, those who called did so once too often.
    if (processes.size() > callers) continue;
    const bool is_tie = processes.size() == callers;
    return draft_left_out(facts, n, processes, is_tie ? Confidence::likely : Confidence::certain);
  }
  return std::nullopt;
}

std::vector<LeftOut> find_left_out(const Facts& facts, const Circle& circle) {
  std::vector<LeftOut> found;
  Beside others(facts);
  size_t asked = 0;
  for (const AbsentEdge& edge : circle.absent) {
    const Node& node = facts.graph.nodes()[edge.node];
    if (node.kind != NodeKind::collective || node.callers.empty()) continue;
    if (++asked > kEdgesAskedMax) break;
    size_t absent = 0;
    for (const Member& member : facts.group(node.group).members)
      absent += member.lane.called <= node.seq;
    if (absent > node.callers.size()) continue;
    uint32_t behind = calls_behind_for_all(facts, edge.process, node);
    if (behind == 0) behind = calls_behind_by_habit(facts, edge);
    if (behind == 0) behind = calls_behind_of_others(facts, edge, others);
    if (behind != 0) found.push_back({edge.node, edge.process, behind < kBehindMin});
  }
  return found;
}

const AbsentEdge* find_unmatched(const Facts& facts, const Circle& circle) {
  for (const AbsentEdge& edge : circle.absent) {
    const Node& node = facts.graph.nodes()[edge.node];
    if (node.kind != NodeKind::p2p) continue;
    const std::vector<uint32_t>& waiting = facts.playback.waiting(edge.process);
    const bool went_on =
        !waiting.empty() && facts.job.processes[edge.process].last_op > waiting.front();
    if (!circle.collectives.empty() || circle.has_queued || went_on) return &edge;
  }
  return nullptr;
}

std::optional<Draft> draft_shifted(const Facts& facts, const Circle& circle) {
  size_t asked = 0;
  for (const uint32_t p : processes_of(facts, circle)) {
    if (++asked > kCircleAskedMax) break;
    const std::optional<HabitBreak> found = habit_break(facts, p);
    if (!found || found->alignment.slip != Slip::missing || found->alignment.contradicted != 0) {
      continue;
    }
    const Op& left_out = facts.index.op(p, found->precedent);
    if (is_collective(left_out.kind)) continue;
    if (found->alignment.may_be_order && is_balanced(facts, p, left_out)) continue;
    return draft_break(facts, {p, found->op}, {p, found->precedent}, found->alignment.length);
  }
  return std::nullopt;
}

std::optional<Draft> draft_shifted_collective(const Facts& facts, const Circle& circle) {
  size_t asked = 0;
  std::optional<Draft> draft;
  Beside others(facts);
  for (const uint32_t p : processes_of(facts, circle)) {
    if (++asked > kCircleAskedMax) return std::nullopt;
    std::optional<Draft> own = draft_shifted_by_habit(facts, p);
    const std::optional<Beside::Omission> beside = own ? std::nullopt : others.omission_of(p);
    const bool is_collective_left_out =
        beside && beside->behind >= kBehindMin &&
        is_collective(facts.index.op(beside->left_out.process, beside->left_out.op).kind);
    if (is_collective_left_out) {
      own = draft_break(facts, {p, beside->op}, beside->left_out, beside->length);
    }
    if (own && draft) return std::nullopt;
    if (own) draft = std::move(own);
  }
  return draft;
}

}  // namespace rollcall::analysis
