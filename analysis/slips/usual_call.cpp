#include "analysis/slips/usual_call.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"

namespace rollcall::analysis {

using trace::Op;

namespace {

using AllOwnCalls = std::unordered_map<uint32_t, std::optional<OwnCalls>>;  // by process

}  // namespace

Signature with_peer(const Facts& facts, uint32_t p, const Op& op) {
  Signature signature = usual_signature(facts.sizes, p, op);
  if (is_p2p(op.kind)) signature.root = op.root_or_peer;
  signature.place = op.comm;
  return signature;
}

const OwnCalls& own_calls(const Facts& facts, uint32_t p) {
  std::optional<OwnCalls>& known = facts.memo.notes<AllOwnCalls>()[p];
  if (known) return *known;
  known.emplace();
  const std::vector<Op>& ops = facts.process(p).ops;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (is_mark(ops[i].kind)) continue;
    known->calls.push_back(with_peer(facts, p, ops[i]));
    known->places.push_back(i);
  }
  return *known;
}

uint32_t usual_at(const Facts& facts, uint32_t p, size_t i) {
  const auto& [calls, places] = own_calls(facts, p);
  const auto index_of = [&places = places](size_t op) {
    return static_cast<size_t>(std::lower_bound(places.begin(), places.end(), op) - places.begin());
  };
  const size_t first = index_of(i > kCallsBeforeMax ? i - kCallsBeforeMax : 0);
  const std::optional<Expectation> expectation =
      expectation_of(std::span(calls).subspan(first, index_of(i) - first));
  return expectation ? places[first + expectation->index] : kNoRecord;
}

uint32_t usual_part_at(const Facts& facts, uint32_t p, size_t i) {
  const auto& [calls, places] = own_calls(facts, p);
  const auto index_of = [&places = places](size_t op) {
    return std::lower_bound(places.begin(), places.end(), op) - places.begin();
  };
  const ptrdiff_t first = index_of(i > kCallsBeforeMax ? i - kCallsBeforeMax : 0);
  std::vector<Signature> parts(calls.begin() + first, calls.begin() + index_of(i));
  for (Signature& part : parts) part.count = 0;
  const std::optional<Expectation> expectation = expectation_of(parts);
  return expectation ? places[static_cast<size_t>(first) + expectation->index] : kNoRecord;
}

bool is_same_part(const Op& a, const Op& b) {
  return a.kind == b.kind && a.comm == b.comm && a.root_or_peer == b.root_or_peer;
}

bool is_out_of_place(const Facts& facts, uint32_t p, uint32_t op) {
  const uint32_t usual = usual_at(facts, p, op);
  if (usual == kNoRecord) return false;
  const std::vector<Op>& ops = facts.process(p).ops;
  if (!is_same_part(ops[usual], ops[op])) return true;
  if (facts.sizes.changes(p, ops[op])) return false;
  // Of another size, and that is one of its sizes.
  const auto is_this = [&](const Op& before) {
    return is_same_part(before, ops[op]) && before.count == ops[op].count;
  };
  const size_t first = op > kCallsBeforeMax ? op - kCallsBeforeMax : 0;
  return ops[usual].count != ops[op].count &&
         std::any_of(ops.begin() + static_cast<ptrdiff_t>(first), ops.begin() + op, is_this);
}

}  // namespace rollcall::analysis
