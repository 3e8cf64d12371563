// Where the processes stand, as dumps of py-spy tell it, and who does not stand where the others
// wait.
#pragma once

#include <cstddef>
#include <optional>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Open: a stack is of one moment, and where a rank stands may be where it is at work. Nothing where
// there are fewer than `least`.
std::optional<Finding> judge_stacks(const trace::Run& run, size_t least);

// Where the only one stands whose dump is inside a job's log.
void tell_of_stack(const trace::Run& run, Finding& finding);

}  // namespace rollcall::analysis
