// In which order the processes made two collectives, each in communicators of its own: most of them
// say what the program's order is.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/judge.h"

namespace rollcall::analysis {

struct Votes {
  std::vector<uint32_t> forward;   // called x before y
  std::vector<uint32_t> backward;  // called y before x
};

// Every process that made both calls, or their counterparts in its own groups of the same roles.
Votes vote_on_order(const Case& the_case, const Node& x, const Node& y);

// Two ranks that have communicators of the same sizes, in one order.
bool has_same_comms(const Case& the_case, uint32_t p, uint32_t q);

// The same where roles differ, because PyTorch's new_group makes each group by a call of its own.
// There a group is the counterpart of another that has the same place among the communicators of
// its rank, if the two ranks have communicators of the same sizes. Nobody where no process is in
// both.
// `counts_absent`: who made one of the two has a vote, too: it made that one first.
Votes vote_by_place(const Case& the_case, const Node& x, const Node& y, bool counts_absent);

}  // namespace rollcall::analysis
