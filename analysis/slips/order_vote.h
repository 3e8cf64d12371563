// In which order the processes made two collectives, each in communicators of its own: most of them
// say what the program's order is.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

struct Votes {
  std::vector<uint32_t> forward;   // called x before y
  std::vector<uint32_t> backward;  // called y before x
};

// Every process that made both calls, or their counterparts in its own groups of the same roles.
Votes vote_on_order(const Facts& facts, const Node& x, const Node& y);

// Two ranks that have communicators of the same sizes, in one order.
bool has_same_comms(const Facts& facts, uint32_t p, uint32_t q);

// The same where roles differ, because PyTorch's new_group makes each group by a call of its own.
// There a group is the counterpart of another that has the same place among the communicators of
// its rank, if the two ranks have communicators of the same sizes. Nobody where no process is in
// both.
// `counts_absent`: who made one of the two has a vote, too: it made that one first.
Votes vote_by_place(const Facts& facts, const Node& x, const Node& y, bool counts_absent);

// Both for many pairs of calls: in a mesh of thousands of groups most pairs are of the same parts,
// or places, at the same positions, and their votes the same.
class OrderVotes {
 public:
  explicit OrderVotes(const Facts& facts) : facts_(facts) {}
  // The answers are valid until the next question.
  const Votes& on_order(const Node& x, const Node& y);
  const Votes& by_place(const Node& x, const Node& y);

 private:
  uint32_t common_place(uint32_t group);

  using Calls = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t>;  // role or place and seq of two
  using Shape = std::vector<int32_t>;                                // sizes of communicators
  const Facts& facts_;
  std::map<Calls, Votes> on_order_;
  std::map<std::pair<Shape, Calls>, Votes> by_place_;
  std::unordered_map<uint32_t, uint32_t> places_;  // by group
  Votes single_;
};

}  // namespace rollcall::analysis
