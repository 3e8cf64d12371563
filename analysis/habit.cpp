#include "analysis/habit.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kTailMax = 64;
constexpr size_t kHistoryMax = 2048;
constexpr size_t kNearMax = 16;

// A call as it compares across ranks that play different parts: the communicator's role in place of
// its identity, no peers.
Signature token_of(const Case& c, uint32_t p, const Op& op) {
  Signature token = signature_of(op);
  const Seat seat = c.index.seat(p, op.comm);
  const uint64_t role = seat.group == kNone ? 0 : c.index.role_of(seat.group);
  token.count ^= (role + 1) * 0x9e3779b97f4a7c15;
  return token;
}

}  // namespace

std::vector<Signature> tokens(const Case& c, uint32_t p, size_t begin, size_t end) {
  std::vector<Signature> list;
  const std::vector<Op>& ops = c.process(p).ops;
  for (size_t i = begin; i < std::min(end, ops.size()); ++i) {
    const OpFamily family = traits_of(ops[i].kind).family;
    if (family == OpFamily::coll || family == OpFamily::p2p) list.push_back(token_of(c, p, ops[i]));
  }
  return list;
}

std::optional<HabitBreak> habit_break(const Case& c, uint32_t p) {
  const std::vector<Op>& ops = c.process(p).ops;
  const std::vector<uint32_t>& waiting = c.progress.waiting(p);
  const size_t front = waiting.empty() ? ops.size() : waiting.front();
  const size_t begin = front > kHistoryMax ? front - kHistoryMax : 0;
  std::vector<Signature> calls;
  std::vector<uint32_t> places;
  for (size_t i = begin; i < ops.size() && i < front + kTailMax; ++i) {
    const OpFamily family = traits_of(ops[i].kind).family;
    if (family != OpFamily::coll && family != OpFamily::p2p) continue;
    calls.push_back(token_of(c, p, ops[i]));
    places.push_back(static_cast<uint32_t>(i));
  }
  const auto at_front =
      static_cast<size_t>(std::lower_bound(places.begin(), places.end(), front) - places.begin());
  // What stopped it is at the front or not far before it, else behind it: nearest first.
  std::vector<size_t> order;
  const size_t last = std::min(at_front + 1, calls.size());
  for (size_t i = last; i > std::max<size_t>(at_front, kNearMax) - kNearMax + 1; --i) {
    order.push_back(i - 1);
  }
  for (size_t i = last; i < calls.size(); ++i) order.push_back(i);
  for (const size_t i : order) {
    if (i == 0) continue;
    std::vector<Signature> history(calls.begin(), calls.begin() + static_cast<ptrdiff_t>(i));
    const std::optional<size_t> index = expected_index(history);
    // A first step has no precedent: a call never seen before proves nothing.
    const bool is_known = std::any_of(history.begin(), history.end(),
                                      [&](const Signature& s) { return agree(s, calls[i]); });
    if (!index || !is_known || agree(history[*index], calls[i])) continue;
    HabitBreak found{places[i], places[*index], {}};
    std::vector<Signature> expected;
    const size_t tail = calls.size() - i;
    while (expected.size() < tail + 4) {
      const std::optional<Signature> next = expected_next(history);
      if (!next) break;
      expected.push_back(*next);
      history.push_back(*next);
    }
    const std::vector<Signature> rest(calls.begin() + static_cast<ptrdiff_t>(i), calls.end());
    found.alignment = align(rest, expected, expected.size());
    return found;
  }
  return std::nullopt;
}

}  // namespace rollcall::analysis
