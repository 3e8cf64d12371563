#include "slow/period.h"

#include <algorithm>
#include <cstddef>
#include <set>

namespace rollcall::slow {
namespace {

using Symbols = std::span<const uint32_t>;

constexpr size_t kAnchors = 8;
constexpr uint32_t kTilesPerException = 16;
constexpr size_t kCandidatesMax = 512;
constexpr size_t kInnerMax = 8;

// Of the sequence read backwards from `end`: how long it equals itself, shifted by p. The Z
// function.
std::vector<uint32_t> matches_backwards(Symbols symbols, size_t end) {
  const auto at = [&](size_t i) { return symbols[end - 1 - i]; };
  std::vector<uint32_t> match(end, 0);
  for (size_t i = 1, left = 0, right = 0; i < end; ++i) {
    if (i < right) match[i] = static_cast<uint32_t>(std::min<size_t>(right - i, match[i - left]));
    while (i + match[i] < end && at(match[i]) == at(i + match[i])) ++match[i];
    if (i + match[i] > right) {
      left = i;
      right = i + match[i];
    }
  }
  return match;
}

struct Tiling {
  std::vector<uint32_t> begins;
  size_t covered = 0;
  size_t exceptions = 0;  // places between two repeats at which there is something else
};

Tiling tile(Symbols symbols, Symbols templ) {
  Tiling tiling;
  const size_t length = templ.size();
  bool is_between = false;
  for (size_t i = 0; i + length <= symbols.size();) {
    if (!std::equal(templ.begin(), templ.end(), symbols.begin() + static_cast<ptrdiff_t>(i))) {
      is_between = !tiling.begins.empty();
      ++i;
      continue;
    }
    if (is_between) ++tiling.exceptions;
    is_between = false;
    tiling.begins.push_back(static_cast<uint32_t>(i));
    i += length;
  }
  tiling.covered = tiling.begins.size() * length;
  return tiling;
}

// The template begins where its run of repeats begins: behind a beginning, or an exception.
Symbols template_at(Symbols symbols, size_t end, size_t length) {
  size_t begin = end - length;
  while (begin > 0 && symbols[begin - 1] == symbols[begin - 1 + length]) --begin;
  return symbols.subspan(begin, length);
}

bool is_whole(const Tiling& tiling, size_t size) {
  if (tiling.begins.size() < kRepeatsMin) return false;
  if (tiling.exceptions * kTilesPerException > tiling.begins.size()) return false;
  return tiling.covered * 10 >= size * 9;
}

}  // namespace

Period find_period(Symbols symbols) {
  // (length, end of a run of three repeats), the shortest first.
  std::set<std::pair<uint32_t, size_t>> candidates;
  std::set<uint32_t> known;
  for (size_t anchor = kAnchors; anchor > 0; --anchor) {
    const size_t end = symbols.size() * anchor / kAnchors;
    const std::vector<uint32_t> match = matches_backwards(symbols, end);
    for (uint32_t p = 1; p < match.size() && known.size() < kCandidatesMax; ++p) {
      if (match[p] < uint64_t{kRepeatsMin - 1} * p || !known.insert(p).second) continue;
      candidates.emplace(p, end);
    }
  }
  Period period;
  for (const auto& [length, end] : candidates) {
    const Tiling tiling = tile(symbols, template_at(symbols, end, length));
    if (is_whole(tiling, symbols.size())) {
      period.length = length;
      period.begins = tiling.begins;
      return period;
    }
    const bool is_multiple =
        std::any_of(period.inner.begin(), period.inner.end(),
                    [length = length](uint32_t inner) { return length % inner == 0; });
    if (!is_multiple && period.inner.size() < kInnerMax) period.inner.push_back(length);
  }
  period.inner.clear();
  return period;
}

uint32_t least_rotation(Symbols symbols) {
  const size_t n = symbols.size();
  size_t one = 0;
  size_t other = 1;
  size_t same = 0;
  while (one < n && other < n && same < n) {
    const uint32_t a = symbols[(one + same) % n];
    const uint32_t b = symbols[(other + same) % n];
    if (a == b) {
      ++same;
      continue;
    }
    (a > b ? one : other) += same + 1;
    if (one == other) ++other;
    same = 0;
  }
  return static_cast<uint32_t>(std::min(one, other));
}

}  // namespace rollcall::slow
