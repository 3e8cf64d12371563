#include "analysis/alignment/expectation.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

// Longer than an exchange with a hundred ranks, and than a micro batch: a step may have two that
// look alike.
constexpr size_t kContextMax = 1024;

bool has_unknown(const Signature& call) {
  return call.count == trace::kCountUnknown || call.datatype == kUnknown8 ||
         (call.reduction == kUnknown8 && traits_of(call.kind).reduces);
}

// For each place of the history, the newest first, how many calls before it are the same as before
// the next call, at most `context_max`; until `visit(place, context)` says false. Linear by the Z
// algorithm: [left, right) is the stretch that repeats the newest calls and reaches back furthest,
// and what is within it is known from the newest calls themselves. That needs that what agrees with
// one call agrees with another, which it need not where something is unknown.
template <typename Visit>
void visit_contexts(std::span<const Signature> history, size_t context_max, Visit visit) {
  const size_t size = history.size();
  const auto from_end = [&](size_t i) -> const Signature& { return history[size - 1 - i]; };
  const bool is_exact = std::none_of(history.begin(), history.end(), has_unknown);
  std::vector<size_t> contexts(size, 0);
  size_t left = 0;
  size_t right = 0;
  for (size_t i = 1; i < size; ++i) {
    size_t& context = contexts[i];
    if (is_exact && i < right) context = std::min(right - i, contexts[i - left]);
    while (context < context_max && i + context < size &&
           agree(from_end(context), from_end(i + context))) {
      ++context;
    }
    if (i + context > right) {
      left = i;
      right = i + context;
    }
    if (!visit(size - i, context)) return;
  }
}

}  // namespace

std::optional<Expectation> expectation_of(std::span<const Signature> history) {
  Expectation best;
  visit_contexts(history, kContextMax, [&](size_t place, size_t context) {
    // Of contexts that are as long the one that begins with the history: nothing contradicts it.
    const bool is_open = context != 0 && context == best.context && context == place;
    if (context > best.context || is_open) best = {place, context};
    return best.context < kContextMax;
  });
  return best.context != 0 ? std::optional(best) : std::nullopt;
}

std::optional<Signature> expected_next(std::span<const Signature> history) {
  const std::optional<Expectation> found = expectation_of(history);
  return found ? std::optional(history[found->index]) : std::nullopt;
}

std::vector<Signature> expected_calls(std::vector<Signature> history, size_t count) {
  std::vector<Signature> expected;
  while (expected.size() < count) {
    const std::optional<Signature> next = expected_next(history);
    if (!next) break;
    expected.push_back(*next);
    history.push_back(*next);
  }
  return expected;
}

bool may_begin_again(std::span<const Signature> history, const Expectation& expectation,
                     const Signature& next) {
  if (expectation.context >= expectation.index) return false;
  bool may_begin = false;
  visit_contexts(history, kContextMax, [&](size_t place, size_t context) {
    may_begin = context != 0 && context == place && agree(history[place], next);
    return !may_begin;
  });
  return may_begin;
}

bool is_unanimous(std::span<const Signature> history, const Expectation& expectation) {
  bool is_always = true;
  visit_contexts(history, expectation.context, [&](size_t place, size_t context) {
    is_always = context < expectation.context || agree(history[place], history[expectation.index]);
    return is_always;
  });
  return is_always;
}

}  // namespace rollcall::analysis
