// A job that was started again within its log: each attempt is judged by what it said itself.
#pragma once

#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// What judges the logs of one attempt.
using JudgeOne = std::vector<Finding> (*)(const trace::Run& run);

// Of several attempts the last that failed leads, or the first where all failed alike; each finding
// says of which attempt it is, and from which line on. Where there is one, `judge` has the word.
// Logs whose attempts cannot be matched are judged no surer than `open`.
std::vector<Finding> judge_attempts(const trace::Run& run, JudgeOne judge);

}  // namespace rollcall::analysis
