// What a member of a circle left out: a call that the others wait in, while it waits in a later
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/circle.h"

namespace rollcall::analysis {

// A collective that one side left out, rather than one that comes later: the calls behind it line
// up with the others' only if it is taken as left out. Null where there is none.
const AbsentEdge* find_left_out(const Case& the_case, const Circle& circle);
// A transfer without its other side, in a circle that it alone does not explain. Null likewise.
const AbsentEdge* find_unmatched(const Case& the_case, const Circle& circle);

// Of a node that `processes` never came to.
Draft draft_left_out(const Case& the_case, uint32_t node, const std::vector<uint32_t>& processes,
                     Confidence confidence);
// A call that waits for ranks which have ended its communicator: they will not come to it.
std::optional<Draft> draft_ended_early(const Case& the_case, const Circle& circle);
// A transfer that a rank left out is met by its next one: then every call of the circle was made,
// and only the rank's own earlier steps tell that one is missing.
std::optional<Draft> draft_shifted(const Case& the_case, const Circle& circle);
// The same of collectives, where one rank alone did otherwise than before.
std::optional<Draft> draft_shifted_collective(const Case& the_case, const Circle& circle);

}  // namespace rollcall::analysis
