// Logs lose lines: processes that write into one stream, collectors and terminals drop some.
#pragma once

#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// A call that is not in a log without numbers (Knowledge::losses_show) may have been made, and its
// line been lost: findings that rest on it are no surer than `open` and say so. Where a log tells
// that somebody waited until the time was over, the job did hang, and they stay as they are.
void doubt_lost_lines(const trace::Run& run, std::vector<Finding>& findings);

}  // namespace rollcall::analysis
