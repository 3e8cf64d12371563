// Errors that somebody raised, and of whom the log does not tell that he ended by them.
#pragma once

#include <optional>

#include "analysis/finding.h"
#include "analysis/testimony/waits.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Where nothing but such errors stands in the logs, beside calls that are on file: the first of
// them. Somebody may have got over it.
std::optional<Finding> judge_unnamed(const trace::Run& run);

// Errors of ranks that no log names, with their lines, and whether they stand in front of the first
// time-out: evidence, for which nobody is to blame.
void tell_of_unnamed(const trace::Run& run, const JobWaits& waits, Finding& finding);

}  // namespace rollcall::analysis
