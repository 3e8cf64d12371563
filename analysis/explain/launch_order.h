// A hang among replays, of which the calls within name another rank than the one whose launches of
// CUDA graphs are not those of all others.
#pragma once

#include "analysis/facts.h"
#include "analysis/finding.h"

namespace rollcall::analysis {

// Of the finding that leads, where it is about what ranks called or ran. `facts`: of the run as it
// is on file.
void trace_to_launches(const Facts& facts, Finding& lead);

}  // namespace rollcall::analysis
