// What follows from what the logs of a job say in words (trace/testimony.h).
#pragma once

#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// The leading finding first; empty where no log says anything. Never RC-IN-LOCKSTEP: whoever says
// something of a hang or an error does not say that nothing is wrong.
//
// In this order: calls that PyTorch compared itself; what a process died of before anybody gave up;
// calls that differ at one position of a group; a rank that is behind; and last who waits, without
// a culprit.
std::vector<Finding> judge_testimony(const trace::Run& run);

}  // namespace rollcall::analysis
