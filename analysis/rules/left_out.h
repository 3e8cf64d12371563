// What a member of a circle left out: a call that the others wait in, while it waits in a later
// one. Outside a circle, disagreement.cpp tells.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/rules/circle.h"

namespace rollcall::analysis {

// Collectives that one side left out, rather than ones that come later: the calls behind it line
// up with the others' only if it is taken as left out. By node, those of the first first.
struct LeftOut {
  uint32_t node = kNone;
  uint32_t process = kNone;
  bool may_be_order = false;  // one call alone shows it: that may have been made in front of it
};
std::vector<LeftOut> find_left_out(const Facts& facts, const Circle& circle);
// A transfer without its other side, in a circle that it alone does not explain. Null likewise.
const AbsentEdge* find_unmatched(const Facts& facts, const Circle& circle);

// Of a node that `processes` never came to.
Draft draft_left_out(const Facts& facts, uint32_t node, const std::vector<uint32_t>& processes,
                     Confidence confidence);
// A call that waits for ranks which have ended its communicator: they will not come to it.
std::optional<Draft> draft_ended_early(const Facts& facts, const Circle& circle);
// A transfer that a rank left out is met by its next one: then every call of the circle was made,
// and only the rank's own earlier steps tell that one is missing.
std::optional<Draft> draft_shifted(const Facts& facts, const Circle& circle);
// The same of collectives, where one rank alone did otherwise than before.
std::optional<Draft> draft_shifted_collective(const Facts& facts, const Circle& circle);

}  // namespace rollcall::analysis
