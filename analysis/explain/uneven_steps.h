// Two ranks that made different numbers of transfers to each other in a step: what is said of calls
// that wait because of it is said of that.
#pragma once

#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// Of drafts about transfers, the first. It blames the one whose number is not the usual one, or
// both where nothing tells.
void trace_to_uneven_steps(const Facts& facts, std::vector<Draft>& drafts);

}  // namespace rollcall::analysis
