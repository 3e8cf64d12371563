// Calls that look alike may come from different lines of the script for a while before one differs.
#pragma once

#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// Of findings about calls at one position: where the lines from which the two sides call have
// parted before, whether or not any later calls agree again; and of a call that no line of the
// script made itself, as in a backward pass, the last line that the rank called from before.
void name_parted_lines(const Facts& facts, std::vector<Draft>& drafts);

}  // namespace rollcall::analysis
