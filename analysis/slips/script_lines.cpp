#include "analysis/slips/script_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "analysis/alignment/expectation.h"
#include "core/format/call_site.h"

namespace rollcall::analysis {
namespace {

using Sites = std::span<const uint32_t>;

// Sites that differ between two ranks in places where all the rest agrees: each has its branch.
class UsualPairs {
 public:
  void add(uint32_t mine, uint32_t theirs) { pairs_.emplace(mine, theirs); }
  bool holds(uint32_t mine, uint32_t theirs) const { return pairs_.contains({mine, theirs}); }
  UsualPairs swapped() const {
    UsualPairs other;
    for (const auto& [mine, theirs] : pairs_) other.add(theirs, mine);
    return other;
  }

 private:
  std::set<std::pair<uint32_t, uint32_t>> pairs_;
};

// How many positions agree, as far as both go; 0 where one contradicts.
size_t agreement_of(Sites mine, Sites theirs, const UsualPairs& usual) {
  size_t matched = 0;
  const size_t both = std::min(mine.size(), theirs.size());
  for (size_t i = 0; i < both; ++i) {
    if (mine[i] == theirs[i]) {
      matched += mine[i] != kNoSite;
    } else if (!usual.holds(mine[i], theirs[i])) {
      return 0;
    }
  }
  return matched;
}

std::optional<SiteSlip> find_missing(Sites mine, Sites theirs, const UsualPairs& usual) {
  for (size_t n = 1; n <= kSiteShiftMax && n < theirs.size(); ++n) {
    const size_t matched = agreement_of(mine, theirs.subspan(n), usual);
    if (matched != 0) return SiteSlip{.slip = Slip::missing, .length = n, .matched = matched};
  }
  return std::nullopt;
}

std::optional<SiteSlip> find_extra(Sites mine, Sites theirs, const UsualPairs& usual) {
  std::optional<SiteSlip> found = find_missing(theirs, mine, usual.swapped());
  if (found) found->slip = Slip::extra;
  return found;
}

// Calls that changed places, perhaps again and again. Where no call that agrees lies between two
// such places, it is a shift of all of them.
std::optional<SiteSlip> find_order(Sites mine, Sites theirs, size_t window) {
  const Sites my_first = mine.first(window);
  const Sites their_first = theirs.first(window);
  if (!std::ranges::is_permutation(my_first, their_first)) return std::nullopt;
  const size_t both = std::min(mine.size(), theirs.size());
  SiteSlip found{.slip = Slip::order, .length = window, .matched = 0};
  bool may_differ = true;
  for (size_t i = 0; i < both;) {
    if (i != 0 && mine[i] == theirs[i]) {
      found.matched += mine[i] != kNoSite;
      may_differ = true;
      ++i;
      continue;
    }
    const size_t seen = std::min(window, both - i);
    const bool is_again = may_differ &&
                          std::ranges::equal(mine.subspan(i, seen), my_first.first(seen)) &&
                          std::ranges::equal(theirs.subspan(i, seen), their_first.first(seen));
    if (!is_again) return std::nullopt;
    may_differ = false;
    i += seen;
  }
  return found.matched != 0 ? std::optional(found) : std::nullopt;
}

std::optional<SiteSlip> find_order(Sites mine, Sites theirs) {
  const size_t both = std::min(mine.size(), theirs.size());
  for (size_t window = 2; window <= std::min(kSiteWindowMax, both); ++window) {
    if (const auto found = find_order(mine, theirs, window)) return found;
  }
  return std::nullopt;
}

// `mine` and `theirs` differ in their first calls.
std::optional<SiteSlip> explain(Sites mine, Sites theirs, const UsualPairs& usual) {
  const bool is_longer = mine.size() > theirs.size();
  std::optional<SiteSlip> found;
  if (mine.size() == theirs.size()) found = find_order(mine, theirs);
  if (!found && is_longer) found = find_extra(mine, theirs, usual);
  if (!found) found = find_missing(mine, theirs, usual);
  if (!found && !is_longer) found = find_extra(mine, theirs, usual);
  if (!found) found = find_order(mine, theirs);
  return found;
}

}  // namespace

std::optional<SiteSlip> slip_of_sites(Sites mine, Sites theirs) {
  UsualPairs usual;
  const size_t both = std::min(mine.size(), theirs.size());
  for (size_t i = 0; i < both; ++i) {
    if (mine[i] == theirs[i] || usual.holds(mine[i], theirs[i])) continue;
    std::optional<SiteSlip> found = explain(mine.subspan(i), theirs.subspan(i), usual);
    if (found) {
      found->begin = i;
      return found;
    }
    usual.add(mine[i], theirs[i]);
  }
  return std::nullopt;
}

CallSites::CallSites(const Index& index, SiteDepth depth)
    : index_(index), by_process_(index.run().processes.size()) {
  for (const uint32_t p : index.active()) {
    const trace::Process& process = index.run().processes[p];
    std::vector<uint32_t> numbers{kNoSite};
    for (;;) {
      const auto text = process.meta.find(fmt::format("frame.{}", numbers.size()));
      if (text == process.meta.end()) break;
      const size_t end =
          depth == SiteDepth::line ? text->second.find(kCallerSeparator) : std::string::npos;
      const auto next = static_cast<uint32_t>(numbers_.size()) + 1;
      numbers.push_back(numbers_.try_emplace(text->second.substr(0, end), next).first->second);
    }
    const bool is_whole = !process.meta.contains(kFramesLeftOutKey);
    if (numbers.size() > 1 && is_whole) by_process_[p] = std::move(numbers);
  }
}

std::vector<uint32_t> CallSites::of(const Member& member, uint64_t from, uint64_t to) const {
  const std::vector<uint32_t>& numbers = by_process_[member.process];
  std::vector<uint32_t> found;
  found.reserve(to - from);
  for (uint64_t seq = from; seq < to; ++seq) {
    const uint16_t frames = index_.op_at(member, seq).frames;
    found.push_back(frames < numbers.size() ? numbers[frames] : kNoSite);
  }
  return found;
}

}  // namespace rollcall::analysis
