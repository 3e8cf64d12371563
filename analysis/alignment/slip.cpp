#include "analysis/alignment/slip.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"
#include "analysis/terms/calls.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kFarMatched = 4;
constexpr uint32_t kReorderMax = 16;

bool counts_differ(uint64_t a, uint64_t b) {
  return a != b && a != trace::kCountUnknown && b != trace::kCountUnknown;
}

struct Score {
  uint32_t matched = 0;
  uint32_t foreseen = 0;    // agreements with predictions
  uint32_t unforeseen = 0;  // disagreements with them
  uint32_t contradicted = 0;
  int64_t agreement() const { return int64_t{matched} + foreseen - unforeseen; }
};

constexpr size_t kAllPairs = ~size_t{0};

// Of the first `pairs_max` pairs of calls that the explanation has.
Score score(const std::vector<Signature>& calls, size_t from,
            const std::vector<Signature>& expected, size_t to, size_t seen,
            size_t pairs_max = kAllPairs) {
  Score result;
  for (; pairs_max > 0 && from < calls.size() && to < expected.size(); ++from, ++to, --pairs_max) {
    const bool same = agree(calls[from], expected[to]);
    if (to >= seen) {
      ++(same ? result.foreseen : result.unforeseen);
    } else if (same) {
      ++result.matched;
    } else {
      ++result.contradicted;
    }
  }
  return result;
}

// The first `window` calls of both are the same, in whatever order.
bool is_reordered(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                  uint32_t window) {
  std::vector<bool> used(window, false);
  for (uint32_t i = 0; i < window; ++i) {
    uint32_t j = 0;
    while (j < window && (used[j] || !agree(calls[i], expected[j]))) ++j;
    if (j == window) return false;
    used[j] = true;
  }
  return true;
}

size_t longest_window(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                      size_t seen) {
  return std::min({calls.size(), expected.size(), seen, size_t{kReorderMax}});
}

// The same calls in another order: the smallest such window, 0 if there is none.
uint32_t reordered_window(const std::vector<Signature>& calls,
                          const std::vector<Signature>& expected, size_t seen) {
  const size_t limit = longest_window(calls, expected, seen);
  for (uint32_t window = 2; window <= limit; ++window) {
    if (is_reordered(calls, expected, window)) return window;
  }
  return 0;
}

std::string text_of(const Signature& s) {
  Op op;
  op.kind = s.kind;
  op.count = s.count;
  op.datatype = s.datatype;
  op.reduction = s.reduction;
  op.root_or_peer = s.root;
  return short_call_text(op);
}

// How many calls agree until one of the two ends; nothing where some do not.
std::optional<Score> agreement(std::span<const Signature> calls,
                               std::span<const Signature> expected, size_t seen) {
  Score result;
  for (size_t i = 0; i < std::min(calls.size(), expected.size()); ++i) {
    if (agree(calls[i], expected[i])) {
      ++(i < seen ? result.matched : result.foreseen);
    } else if (i < seen) {
      return std::nullopt;
    }
  }
  return result;
}

// Which of the explanations of one kind, or of two kinds, explains more.
struct Candidate {
  Slip slip = Slip::op;
  uint32_t length = 1;
  Score score;
  int64_t slipped() const {
    if (slip == Slip::missing || slip == Slip::extra) return length;
    return slip == Slip::order ? int64_t{length} - 1 : 0;
  }
  // Agreement counts, seen or foreseen; of two slips that explain as much, the smaller one.
  auto key() const {
    return std::make_tuple(-static_cast<int64_t>(score.contradicted), score.agreement(), -slipped(),
                           score.matched);
  }
};

// Predictions alone carry a slip of one call, not more, and only where most of them come true.
// Neither do as many calls that agree as disagree carry one.
bool is_carried(const Candidate& candidate) {
  const Score& score = candidate.score;
  const bool is_guess = score.matched == 0;
  if (is_guess && (candidate.length > 1 || score.foreseen <= score.unforeseen)) return false;
  return score.contradicted == 0 || score.matched > score.contradicted;
}

// Calls made more take calls of the deviator out of the comparison, calls left out those of the
// reference, for which predictions stand in: so only as many pairs count as both have.
bool is_rather_extra(const Candidate& extra, const Candidate& missing,
                     const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                     const AlignmentHints& hints, size_t seen) {
  const size_t pairs =
      std::min({calls.size() - extra.length, expected.size(), expected.size() - missing.length});
  const Score more = score(calls, extra.length, expected, 0, seen, pairs);
  const Score fewer = score(calls, 0, expected, missing.length, seen, pairs);
  if (more.contradicted != fewer.contradicted) return more.contradicted < fewer.contradicted;
  if (more.agreement() != fewer.agreement()) return more.agreement() > fewer.agreement();
  // Without a call behind the extra ones that agrees nothing speaks for them.
  if (more.matched == 0) return false;
  // Where the reference has stopped in its first call behind the difference it may have waited
  // there, and the deviator gone on: only where both called on do the numbers tell.
  if (missing.score.matched == 0 || hints.has_left_out) return false;
  if (hints.surplus == extra.length) return true;
  if (hints.surplus == -int64_t{missing.length}) return false;
  const bool is_group =
      std::count(hints.group_lengths.begin(), hints.group_lengths.end(), missing.length) != 0;
  return extra.length < (is_group ? 1 : missing.length);
}

bool is_contradicted(const Score& score) { return score.contradicted + score.unforeseen != 0; }

// As many calls more would leave the same record as those left out, which are `length`: all later
// ones agree, or there are none.
uint32_t may_be_extra(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                      size_t seen, uint32_t length) {
  constexpr uint32_t kFewMax = 2;
  for (uint32_t more = 1; more <= std::min<size_t>(calls.size(), std::max(length, kFewMax));
       ++more) {
    if (!is_contradicted(score(calls, more, expected, 0, seen))) return more;
  }
  return 0;
}

// So many calls left out would leave the same record as calls more: every call since is what the
// steps before have there. One alone may only look like it.
uint32_t may_be_missing(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                        size_t seen) {
  if (calls.size() < 2) return 0;
  for (uint32_t fewer = 1; fewer <= kSlipMax; ++fewer) {
    const Score found = score(calls, 0, expected, fewer, seen);
    if (!is_contradicted(found) && found.matched + found.foreseen == calls.size()) return fewer;
  }
  return 0;
}

}  // namespace

Signature signature_of(const Op& op) {
  const OpTraits& traits = traits_of(op.kind);
  Signature signature;
  signature.kind = op.kind;
  signature.count = op.count;
  signature.datatype = op.datatype;
  if (traits.reduces) signature.reduction = op.reduction;
  if (traits.rooted) signature.root = op.root_or_peer;
  return signature;
}

Signature usual_signature(const ChangingSizes& sizes, uint32_t process, const Op& op) {
  Signature signature = signature_of(op);
  if (sizes.changes(process, op)) signature.count = trace::kCountUnknown;
  return signature;
}

bool agree(const Signature& a, const Signature& b) {
  if (a.kind != b.kind || a.root != b.root || a.place != b.place) return false;
  if (counts_differ(a.count, b.count)) return false;
  if (a.datatype != b.datatype && a.datatype != kUnknown8 && b.datatype != kUnknown8) return false;
  return a.reduction == b.reduction || a.reduction == kUnknown8 || b.reduction == kUnknown8;
}

bool is_shift(Slip slip) {
  return slip == Slip::missing || slip == Slip::extra || slip == Slip::order;
}

Slip argument_slip(const Signature& a, const Signature& b) {
  if (a.kind != b.kind) return Slip::op;
  const auto differ = [](uint8_t x, uint8_t y) {
    return x != y && x != kUnknown8 && y != kUnknown8;
  };
  if (differ(a.datatype, b.datatype)) return Slip::dtype;
  if (counts_differ(a.count, b.count)) return Slip::count;
  if (differ(a.reduction, b.reduction)) return Slip::redop;
  return Slip::root;
}

Alignment align(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                size_t seen, const AlignmentHints& hints) {
  Candidate best{argument_slip(calls[0], expected[0]), 1, score(calls, 1, expected, 1, seen)};
  Candidate missing = best;
  Candidate extra = best;
  const auto offer = [](Candidate& known, const Candidate& offered) {
    if (is_carried(offered) && offered.key() > known.key()) known = offered;
  };
  for (uint32_t length = 1; length <= kSlipMax; ++length) {
    offer(missing, {Slip::missing, length, score(calls, 0, expected, length, seen)});
    offer(extra, {Slip::extra, length, score(calls, length, expected, 0, seen)});
  }
  for (const uint32_t length : hints.group_lengths) {
    if (length > kSlipMax)
      offer(missing, {Slip::missing, length, score(calls, 0, expected, length, seen)});
  }
  if (missing.slip != Slip::missing || extra.slip != Slip::extra) {
    best = missing.slip == Slip::missing ? missing : extra;
  } else {
    best = is_rather_extra(extra, missing, calls, expected, hints, seen) ? extra : missing;
  }
  bool may_be_order = false;
  if (const uint32_t window = reordered_window(calls, expected, seen)) {
    Candidate order{Slip::order, window, score(calls, window, expected, window, seen)};
    order.score.matched += window;
    const auto rival = std::max(missing.key(), extra.key());
    // Who made as many calls as the others, and one of theirs earlier, has made none more.
    const bool is_as_many = best.slip == Slip::extra && hints.surplus == 0 &&
                            order.score.contradicted <= best.score.contradicted;
    if (is_carried(order) && (is_as_many || order.key() > rival)) best = order;
    may_be_order = order.key() >= rival;
  }
  const Score& found = best.score;
  const bool is_missing = best.slip == Slip::missing;
  return {.slip = best.slip,
          .length = best.length,
          .matched = found.matched,
          .foreseen = found.foreseen,
          .contradicted = found.contradicted,
          .predicted = is_missing && found.matched == 0 && found.foreseen != 0,
          .may_be_order = may_be_order,
          .unforeseen = found.unforeseen,
          .may_be_other = is_missing && !is_contradicted(score(calls, 1, expected, 1, seen)),
          .may_be_extra = is_missing ? may_be_extra(calls, expected, seen, best.length) : 0,
          .may_be_missing = best.slip == Slip::extra ? may_be_missing(calls, expected, seen) : 0};
}

bool find_reordered(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                    size_t seen, Alignment& best) {
  const size_t limit = longest_window(calls, expected, seen);
  for (uint32_t window = 2; window <= limit; ++window) {
    const Score behind = score(calls, window, expected, window, seen);
    if (behind.contradicted != 0 || behind.matched == 0) continue;
    if (!is_reordered(calls, expected, window)) continue;
    best = {.slip = Slip::order, .length = window, .matched = behind.matched + window};
    return true;
  }
  return false;
}

void look_further(std::span<const Signature> calls, std::span<const Signature> expected,
                  size_t seen, const std::function<bool(uint64_t)>& is_same_site, Alignment& best) {
  const auto take = [&](Slip slip, uint32_t length, const Score& found) {
    best = {.slip = slip,
            .length = length,
            .matched = found.matched,
            .foreseen = found.foreseen,
            .contradicted = 0};
  };
  for (uint32_t length = kSlipMax + 1; length <= kFarSlipMax; ++length) {
    if (length < seen) {
      const std::optional<Score> missing =
          agreement(calls.first(std::min(calls.size(), kCallsBehindMax)), expected.subspan(length),
                    seen - length);
      const bool fits = missing && missing->matched > best.matched &&
                        missing->matched >= std::min(calls.size(), kFarMatched);
      if (fits && (missing->matched > 1 || is_same_site(length))) {
        return take(Slip::missing, length, *missing);
      }
      if (missing && missing->matched == 1 && best.later == 0) best.later = length;
    }
    if (length >= calls.size()) continue;
    const std::optional<Score> extra = agreement(
        calls.subspan(length), expected.first(std::min(expected.size(), kCallsBehindMax)), seen);
    if (extra && extra->matched > best.matched && extra->matched + extra->foreseen > 1) {
      return take(Slip::extra, length, *extra);
    }
  }
}

void look_back(std::span<const Signature> history, std::span<const Signature> calls,
               std::span<const Signature> expected, Alignment& best) {
  if (is_shift(best.slip) || best.later != 0 || calls.empty() || expected.empty()) return;
  const std::optional<Expectation> due = expectation_of(history);
  if (!due || !agree(history[due->index], expected[0])) return;
  const std::span<const Signature> before = history.subspan(due->index);
  const size_t length_max = std::min(before.size(), size_t{kFarSlipMax} + 1);
  // What the reference has called is on file, and was searched.
  for (size_t length = std::max(expected.size(), size_t{kSlipMax} + 1); length < length_max;
       ++length) {
    const std::span<const Signature> later = before.subspan(length);
    const std::optional<Score> found = agreement(calls, later, later.size());
    if (!found) continue;
    const auto count = static_cast<uint32_t>(length);
    if (found->matched < 2) {
      best.later = count;
    } else {
      best = {.slip = Slip::missing, .length = count, .foreseen = found->matched};
      best.predicted = true;
    }
    return;
  }
}

std::string edit_script(const std::vector<Signature>& from, const std::vector<Signature>& to,
                        uint32_t window, uint64_t seq) {
  std::vector<std::vector<uint32_t>> common(window + 1, std::vector<uint32_t>(window + 1, 0));
  for (uint32_t i = window; i-- > 0;) {
    for (uint32_t j = window; j-- > 0;) {
      common[i][j] = agree(from[i], to[j]) ? common[i + 1][j + 1] + 1
                                           : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<std::pair<std::string, uint64_t>> removed;
  std::vector<std::pair<std::string, uint64_t>> added;
  uint32_t i = 0;
  uint32_t j = 0;
  while (i < window || j < window) {
    if (i < window && j < window && agree(from[i], to[j])) {
      ++i;
      ++j;
    } else if (j == window || (i < window && common[i + 1][j] >= common[i][j + 1])) {
      removed.emplace_back(text_of(from[i]), seq + i);
      ++i;
    } else {
      added.emplace_back(text_of(to[j]), seq + j);
      ++j;
    }
  }
  std::string script;
  for (const auto& [text, at] : added) {
    const auto from_here =
        std::ranges::find(removed, text, &std::pair<std::string, uint64_t>::first);
    script += fmt::format("{}{} at seq {}", script.empty() ? "" : "; ", text, at);
    if (from_here == removed.end()) continue;
    script += fmt::format(" instead of {}", from_here->second);
    removed.erase(from_here);
  }
  return script;
}

}  // namespace rollcall::analysis
