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

}  // namespace rollcall::analysis
