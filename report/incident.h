// What is saved of a verdict about a running job: schema rollcall.incident/1.
//
// `code`, `class`, `what_follows` (of the class, for whoever may start the job again), `certain`,
// `summary`, `next`, `written` (when), `culprits` (rank, host, pid), `environment`, and `verdict`,
// the whole document of schema rollcall.diff/2.
// `environment`: `common`, what all processes have alike of versions, command line and the
// variables on file; `differing`, the other names, each with its values and the ranks that have
// them.
#pragma once

#include <string>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::report {

// One JSON document, indented, with a newline at the end. `written_ns`: since the epoch.
std::string incident_json(const trace::Run& run, const analysis::Report& report,
                          int64_t written_ns);

}  // namespace rollcall::report
