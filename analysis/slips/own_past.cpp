#include "analysis/slips/own_past.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"

namespace rollcall::analysis {
namespace {

using HabitBreaks = std::unordered_map<uint32_t, std::optional<std::optional<HabitBreak>>>;

using trace::Op;

constexpr size_t kNearMax = 16;  // a group counts as one
constexpr size_t kNearCallsMax = 256;

// A call as it compares across ranks that play different parts: the communicator's role in place of
// its identity, no peers.
Signature token_of(const Facts& facts, uint32_t p, const Op& op) {
  Signature token = usual_signature(facts.sizes, p, op);
  const Seat seat = facts.index.seat(p, op.comm);
  token.place = seat.group == kNone ? 0 : facts.index.role_of(seat.group);
  return token;
}

// A step whose sizes are new may have calls that are alike: of whether these come once more, its
// own first ones tell less than the steps before, of other sizes, which are longer.
bool is_usual_but_for_size(std::span<const Signature> calls, size_t at,
                           const Expectation& expectation) {
  std::vector<Signature> sizeless(calls.begin(), calls.begin() + static_cast<ptrdiff_t>(at) + 1);
  for (Signature& call : sizeless) call.count = 0;
  const std::span<const Signature> history = std::span(sizeless).first(at);
  const std::optional<Expectation> usual = expectation_of(history);
  return usual && usual->context > expectation.context && usual->index < expectation.index &&
         agree(history[usual->index], sizeless[at]);
}

// What the calls before lead one to expect, where it is another call than this one. A first step
// has no precedent: a call never seen before proves nothing.
std::optional<Expectation> break_at(std::span<const Signature> calls, size_t at) {
  if (at == 0) return std::nullopt;
  const std::span<const Signature> history = calls.first(at);
  const std::optional<Expectation> expectation = expectation_of(history);
  const bool is_known = std::any_of(history.begin(), history.end(),
                                    [&](const Signature& s) { return agree(s, calls[at]); });
  if (!expectation || !is_known || agree(history[expectation->index], calls[at]))
    return std::nullopt;
  return is_usual_but_for_size(calls, at, *expectation) ? std::nullopt : expectation;
}

// Behind a break the calls before it are no guide: a break that rests on fewer calls than one among
// those it rests on follows from that one.
std::pair<size_t, Expectation> first_of(std::span<const Signature> calls, size_t at,
                                        Expectation expectation) {
  for (size_t before = at; before + expectation.context > at && before > 0; --before) {
    const std::optional<Expectation> earlier = break_at(calls, before - 1);
    if (!earlier || earlier->context <= expectation.context) continue;
    return first_of(calls, before - 1, *earlier);
  }
  return {at, expectation};
}

// How many calls there are up to the first that no step before had; all where hardly any are.
size_t count_known(std::span<const Signature> history, std::span<const Signature> calls) {
  constexpr size_t kEnough = 4;
  const auto is_new = [&](const Signature& call) {
    return std::none_of(history.begin(), history.end(),
                        [&](const Signature& before) { return agree(before, call); });
  };
  const auto known =
      static_cast<size_t>(std::find_if(calls.begin(), calls.end(), is_new) - calls.begin());
  return known < kEnough ? calls.size() : known;
}

// Of the calls at `places`, how many are of this one's group: from it on, and in all. A group that
// was left out is missed only behind what the next calls have in common with its first: of these,
// as many are missing as it has in all. 0 outside of groups.
std::array<uint32_t, 2> lengths_of_group(const std::vector<Op>& ops,
                                         const std::vector<uint32_t>& places, size_t at) {
  const uint32_t group = ops[places[at]].group;
  if (group == 0) return {0, 0};
  size_t begin = at;
  size_t end = at;
  while (begin > 0 && ops[places[begin - 1]].group == group) --begin;
  while (end < places.size() && ops[places[end]].group == group) ++end;
  return {static_cast<uint32_t>(end - at), static_cast<uint32_t>(end - begin)};
}

// The first of the calls that are near to this one, and before it.
size_t first_near(const std::vector<Op>& ops, const std::vector<uint32_t>& places, size_t to) {
  size_t at = std::min(to + 1, places.size());
  for (size_t units = 0; at > 0 && units < kNearMax && to - at + 1 < kNearCallsMax; ++units) {
    const uint32_t group = ops[places[--at]].group;
    while (group != 0 && at > 0 && ops[places[at - 1]].group == group) --at;
  }
  return at;
}

std::optional<HabitBreak> find_habit_break(const Facts& facts, uint32_t p) {
  const std::vector<Op>& ops = facts.process(p).ops;
  const std::vector<uint32_t>& waiting = facts.playback.waiting(p);
  const size_t front = waiting.empty() ? ops.size() : waiting.front();
  const size_t begin = front > kCallsBeforeMax ? front - kCallsBeforeMax : 0;
  std::vector<Signature> calls;
  std::vector<uint32_t> places;
  for (size_t i = begin; i < ops.size() && i < front + kCallsBehindMax; ++i) {
    if (is_mark(ops[i].kind)) continue;
    calls.push_back(token_of(facts, p, ops[i]));
    places.push_back(static_cast<uint32_t>(i));
  }
  const auto at_front =
      static_cast<size_t>(std::lower_bound(places.begin(), places.end(), front) - places.begin());
  // What stopped it is at the front or not far before it, else behind it: nearest first.
  std::vector<size_t> order;
  const size_t last = std::min(at_front + 1, calls.size());
  const size_t near = first_near(ops, places, at_front);
  for (size_t i = last; i > near; --i) order.push_back(i - 1);
  for (size_t i = last; i < calls.size(); ++i) order.push_back(i);
  for (const size_t i : order) {
    const std::optional<Expectation> nearest = break_at(calls, i);
    if (!nearest) continue;
    const auto [at, expectation] = first_of(calls, i, *nearest);
    // A call on a communicator that nothing is known of is in nobody's count.
    if (facts.index.seat(p, ops[places[expectation.index]].comm).group == kNone) continue;
    HabitBreak found{places[at], places[expectation.index], {}, {}};
    found.is_settled = expectation.context >= at - expectation.index &&
                       !may_begin_again(std::span(calls).first(at), expectation, calls[at]);
    const auto slip = calls.begin() + static_cast<ptrdiff_t>(at);
    const std::array<uint32_t, 2> lengths = lengths_of_group(ops, places, expectation.index);
    std::vector<Signature> rest(slip, calls.end());
    const std::vector<Signature> expected =
        expected_calls({calls.begin(), slip}, rest.size() + std::max(kSlipMax, lengths[1]));
    found.alignment = align(rest, expected, expected.size(), {.group_lengths = lengths});
    rest.resize(count_known(std::span(calls).first(at), rest));
    found.until_new = align(rest, expected, expected.size(), {.group_lengths = lengths});
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Signature> tokens(const Facts& facts, uint32_t p, size_t begin, size_t end) {
  std::vector<Signature> list;
  const std::vector<Op>& ops = facts.process(p).ops;
  for (size_t i = begin; i < std::min(end, ops.size()); ++i) {
    if (!is_mark(ops[i].kind)) list.push_back(token_of(facts, p, ops[i]));
  }
  return list;
}

std::optional<HabitBreak> habit_break(const Facts& facts, uint32_t p) {
  std::optional<std::optional<HabitBreak>>& known = facts.memo.notes<HabitBreaks>()[p];
  if (!known) known = find_habit_break(facts, p);
  return *known;
}

std::optional<Omission> omission_of(const Facts& facts, uint32_t p, const HabitBreak& found) {
  if (!found.is_settled) return std::nullopt;
  const std::vector<Op>& ops = facts.process(p).ops;
  const uint32_t comm = ops[found.precedent].comm;
  const size_t end = std::min<size_t>(ops.size(), found.op + kCallsBeforeMax);
  Omission omission;
  size_t at = found.op;
  for (size_t usual = found.precedent; at < end && usual < found.op;) {
    if (is_mark(ops[at].kind)) {
      ++at;
    } else if (is_mark(ops[usual].kind)) {
      ++usual;
    } else if (agree(token_of(facts, p, ops[at]), token_of(facts, p, ops[usual]))) {
      omission.behind += ops[at].comm != comm;
      ++at;
      ++usual;
    } else if (ops[usual].comm == comm) {
      ++omission.left_out;
      ++usual;
    } else {
      return std::nullopt;
    }
  }
  return omission;
}

}  // namespace rollcall::analysis
