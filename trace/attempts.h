// One directory may hold more than one run, or several attempts of an elastic job: the newest is
// analysed, the others are marked and named.
#pragma once

#include "trace/model.h"

namespace rollcall::trace {

// Sets Process::superseded and adds an Issue for what was found. Two runs: the run ids differ.
// Two jobs: without a run id, trace/jobs.h. Two attempts: processes of one host lie in two
// directories attempt-N beside each other, or two processes of one run carry the same job rank, and
// do not share a communicator at one time.
void mark_superseded(Run& run);

}  // namespace rollcall::trace
