// A job that crashed: what `rollcall run` saw of its end is on file (trace/job_end.h), and the
// calls may be equal all the same.
#pragma once

#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Where the run failed by itself: nothing is in lockstep then, for whoever says so of a crash says
// that there is nothing to do. In place of that finding comes RC-INSUFFICIENT, which names the exit
// status and, where it is known, the rank; of any other leading finding the end is evidence. An end
// that somebody asked for changes nothing. True: the leading finding is another one now.
bool tell_job_end(const trace::Run& run, std::vector<Finding>& findings);

}  // namespace rollcall::analysis
