// What the lines of the script say of a draft: where it began.
#pragma once

#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// What the call sites say of drafts that are about collectives: where it began, if earlier than
// seen. Adds drafts of slips that nobody waits for, on communicators that no draft is about.
void trace_to_call_sites(const Facts& facts, std::vector<Draft>& drafts);

}  // namespace rollcall::analysis
