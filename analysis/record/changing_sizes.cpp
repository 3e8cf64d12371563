#include "analysis/record/changing_sizes.h"

#include <algorithm>
#include <unordered_set>

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kNewestMax = 8192;

// What is alike, in one word: exact but for the upper bits of the communicator, whose tables are
// smaller.
uint64_t kind_of(const Op& op) {
  const uint64_t is_captured = op.graph != 0 || op.is_replayed;
  const uint64_t comm = op.comm;
  const auto kind = static_cast<uint64_t>(op.kind);
  const uint64_t datatype = op.datatype;
  const uint64_t reduction = op.reduction;
  const auto root_or_peer = static_cast<uint64_t>(op.root_or_peer) & 0xffffff;
  return is_captured << 63 ^ comm << 48 ^ kind << 40 ^ datatype << 32 ^ reduction << 24 ^
         root_or_peer;
}

// Of the later half of calls how many there are, and how many of them have a size of the first
// half. Steps repeat sizes within themselves, forwards and backwards: that says nothing.
struct Tally {
  uint64_t later = 0;
  uint64_t again = 0;

  bool is_changing() const { return again * 3 < later; }
};

Tally tally_of(const std::vector<uint64_t>& counts) {
  const auto half = counts.begin() + static_cast<ptrdiff_t>(counts.size() / 2);
  const std::unordered_set<uint64_t> seen(counts.begin(), half);
  return {.later = static_cast<uint64_t>(counts.end() - half),
          .again = static_cast<uint64_t>(std::count_if(
              half, counts.end(), [&](uint64_t count) { return seen.contains(count); }))};
}

// Each size once that several calls of one step have, one behind the other: that it comes again
// there says nothing of the next step. All calls where one size is that of most, or there are
// hardly any.
std::vector<uint64_t> of_steps(const std::vector<uint64_t>& counts) {
  constexpr size_t kStepsMin = 3;
  std::vector<uint64_t> steps;
  size_t longest = 0;
  size_t begin = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i == 0 || counts[i] != counts[i - 1]) {
      steps.push_back(counts[i]);
      begin = i;
    }
    longest = std::max(longest, i + 1 - begin);
  }
  return steps.size() < kStepsMin || longest * 2 > counts.size() ? counts : steps;
}

}  // namespace

ChangingSizes::Kinds ChangingSizes::find(uint32_t process) const {
  const std::vector<Op>& ops = index_.run().processes[process].ops;
  std::unordered_map<uint64_t, std::vector<uint64_t>> counts;
  for (size_t i = ops.size() > kNewestMax ? ops.size() - kNewestMax : 0; i < ops.size(); ++i) {
    counts[kind_of(ops[i])].push_back(ops[i].count);
  }
  std::unordered_map<uint64_t, Tally> tallies;
  Tally all;
  for (const auto& [kind, own] : counts) {
    const Tally tally = tallies[kind] = tally_of(of_steps(own));
    all.later += tally.later;
    all.again += tally.again;
  }
  Kinds kinds;
  for (const auto& [kind, own] : counts) {
    // Two calls tell little: the others speak for them.
    const Tally& witness = own.size() > 2 ? tallies[kind] : all;
    kinds.emplace(kind, own.size() > 1 && witness.is_changing());
  }
  return kinds;
}

bool ChangingSizes::changes(uint32_t process, const Op& op) const {
  std::optional<Kinds>& kinds = of_[process];
  if (!kinds) kinds = find(process);
  const auto found = kinds->find(kind_of(op));
  return found != kinds->end() && found->second;
}

}  // namespace rollcall::analysis
