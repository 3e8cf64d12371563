// Which call comes next, going by those before: a training job repeats itself.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analysis/alignment/sequence.h"

namespace rollcall::analysis {

// The call that `history` leads one to expect next: what followed the longest context of the same
// calls before. Nothing where the context never occurred.
std::optional<Signature> expected_next(std::span<const Signature> history);
// The next ones, up to `count`, if each comes as expected; fewer where nothing tells.
std::vector<Signature> expected_calls(std::vector<Signature> history, size_t count);
// Where in `history` that call stands, and how many calls before it were the same.
struct Expectation {
  size_t index = 0;
  size_t context = 0;  // at least 1
};
std::optional<Expectation> expectation_of(std::span<const Signature> history);
// `next` is what followed the first calls of the history, which came again, while the expectation
// does not explain the history from its beginning: a step may begin once more here, of which the
// expectation knows no more than a few calls that are alike.
bool may_begin_again(std::span<const Signature> history, const Expectation& expectation,
                     const Signature& next);
// Whatever followed the longest context of the same calls before was always this call.
bool is_unanimous(std::span<const Signature> history, const Expectation& expectation);

}  // namespace rollcall::analysis
