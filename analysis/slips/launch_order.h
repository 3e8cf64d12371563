// Who launched its CUDA graphs otherwise than all others.
//
// What a replay runs is compared with what others run, call by call. Where that does not tell who
// is wrong, because only two ranks exchange something in the graph, or because each position of a
// communicator was taken by a later call, the launches still may: ranks that play the same part
// launch the same graphs, in one order, between the same collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

// One rank launched, or called, something else at a place where all others agree.
struct LaunchSlip {
  Slip slip = Slip::missing;    // a launch left out, made more, or made in place of another
  OpRef called;                 // by the odd one
  std::vector<OpRef> expected;  // by each of the others, at least two
};
// The first. Nothing where several ranks are odd, where the odd one did as in its steps before,
// where no GPU stands in what was launched there, and where the launches are not on file.
std::optional<LaunchSlip> find_launch_slip(const Facts& facts);

}  // namespace rollcall::analysis
