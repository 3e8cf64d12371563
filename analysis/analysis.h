// The verdict: who broke step, where, and why.
//
//     trace::Run run = trace::load_run(directory, {});
//     Report report = analyse(run, {});
//
// procedure.cpp has the order in which things are asked; docs/ARCHITECTURE.md the floors that the
// folders are.
//
// Cost: linear in operations and in ranks; what looks back into the steps before is bounded in how
// many ranks and calls it asks. Threads: reentrant, no state between calls.
#pragma once

#include "analysis/finding.h"
#include "analysis/options.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Never fails; a run of which nothing can be said yields RC-INSUFFICIENT.
Report analyse(const trace::Run& run, const Options& options = {});

}  // namespace rollcall::analysis
