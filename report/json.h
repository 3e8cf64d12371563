// The verdict for a program: schema rollcall.diff/1.
#pragma once

#include <string>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::report {

// One JSON document, indented, with a newline at the end. Unknown is null, never 0.
std::string diff_json(const trace::Run& run, const analysis::Report& report);

}  // namespace rollcall::report
