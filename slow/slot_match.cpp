#include "slow/slot_match.h"

#include <algorithm>

namespace rollcall::slow {
namespace {

using Looks = std::vector<uint64_t>;
using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

constexpr size_t kCellsMax = 4'000'000;
constexpr size_t kRotationsMax = 16;

// Of the middles of two sequences that begin at `at`: the lengths of the longest common
// subsequences of all their ends, then the way through these.
void match_middle(const Looks& before, const Looks& after, size_t at, size_t rows, size_t columns,
                  Pairs& pairs) {
  if (rows == 0 || columns == 0 || rows * columns > kCellsMax) return;
  const size_t width = columns + 1;
  std::vector<uint32_t> longest((rows + 1) * width, 0);
  for (size_t i = rows; i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      longest[i * width + j] =
          before[at + i] == after[at + j]
              ? longest[(i + 1) * width + j + 1] + 1
              : std::max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  size_t i = 0;
  size_t j = 0;
  while (i < rows && j < columns) {
    if (before[at + i] == after[at + j]) {
      pairs.emplace_back(static_cast<uint32_t>(at + i++), static_cast<uint32_t>(at + j++));
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
}

Pairs common_subsequence(const Looks& before, const Looks& after) {
  const size_t shorter = std::min(before.size(), after.size());
  size_t begin = 0;
  while (begin < shorter && before[begin] == after[begin]) ++begin;
  size_t end = 0;
  while (begin + end < shorter && before[before.size() - 1 - end] == after[after.size() - 1 - end])
    ++end;
  Pairs pairs;
  for (uint32_t i = 0; i < begin; ++i) pairs.emplace_back(i, i);
  match_middle(before, after, begin, before.size() - begin - end, after.size() - begin - end,
               pairs);
  for (size_t i = end; i > 0; --i) {
    pairs.emplace_back(static_cast<uint32_t>(before.size() - i),
                       static_cast<uint32_t>(after.size() - i));
  }
  return pairs;
}

// As recorded first; then with the new step begun where it calls what the old one begins with.
Pairs best_rotation(const Looks& before, const Looks& after) {
  Pairs best = common_subsequence(before, after);
  const size_t whole = std::min(before.size(), after.size());
  const auto length = static_cast<uint32_t>(after.size());
  size_t tried = 0;
  for (uint32_t shift = 1; shift < length; ++shift) {
    if (best.size() == whole || tried == kRotationsMax) break;
    if (after[shift] != before.front()) continue;
    ++tried;
    Looks rotated = after;
    std::rotate(rotated.begin(), rotated.begin() + shift, rotated.end());
    Pairs pairs = common_subsequence(before, rotated);
    if (pairs.size() <= best.size()) continue;
    for (auto& [old_place, new_place] : pairs) new_place = (new_place + shift) % length;
    best = std::move(pairs);
  }
  return best;
}

}  // namespace

SlotMatch match_slots(const std::vector<CallLook>& before, const std::vector<CallLook>& after) {
  SlotMatch match;
  if (before.empty() || after.empty()) return match;
  for (const bool sizeless : {false, true}) {
    Looks looks[2];
    for (const CallLook& call : before) looks[0].push_back(sizeless ? call.sizeless : call.look);
    for (const CallLook& call : after) looks[1].push_back(sizeless ? call.sizeless : call.look);
    match.pairs = best_rotation(looks[0], looks[1]);
    match.sizes_differ = sizeless;
    std::vector<bool> has_pair[2] = {std::vector<bool>(before.size()),
                                     std::vector<bool>(after.size())};
    for (const auto& [old_place, new_place] : match.pairs) {
      has_pair[0][old_place] = has_pair[1][new_place] = true;
    }
    match.removed.clear();
    match.added.clear();
    for (uint32_t i = 0; i < before.size(); ++i) {
      if (!has_pair[0][i]) match.removed.push_back(i);
    }
    for (uint32_t i = 0; i < after.size(); ++i) {
      if (!has_pair[1][i]) match.added.push_back(i);
    }
    if (match.is_alike()) return match;
  }
  return match;
}

}  // namespace rollcall::slow
