// What a log says that may be the cause of what the ranks wait for: a process that ended, a GPU, a
// host, the network.
#pragma once

#include <optional>

#include "analysis/finding.h"
#include "analysis/testimony/waits.h"
#include "trace/model.h"

namespace rollcall::analysis {

// What stands in front of the line where somebody first gave up. Where nobody did: anything that
// went wrong.
std::optional<Finding> judge_cause(const trace::Run& run, const JobWaits& waits);

// What only stands behind it: launchers, schedulers and kernels are often read late, so it may have
// come first all the same. Open.
std::optional<Finding> judge_late_cause(const trace::Run& run, const JobWaits& waits);

// Where nothing but such errors stands in the logs, beside calls that are on file: the first of
// them. Somebody may have got over it.
std::optional<Finding> judge_unnamed(const trace::Run& run);

// Errors of ranks that no log names, with their lines, and whether they stand in front of the first
// time-out: evidence, for which nobody is to blame.
void tell_of_unnamed(const trace::Run& run, const JobWaits& waits, Finding& finding);

}  // namespace rollcall::analysis
