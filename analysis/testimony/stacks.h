// Where the processes stand, as dumps of py-spy tell it, and who does not stand where the others
// wait.
#pragma once

#include <optional>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Open: a stack is of one moment, and where a rank stands may be where it is at work. Nothing where
// there are not two.
std::optional<Finding> judge_stacks(const trace::Run& run);

}  // namespace rollcall::analysis
