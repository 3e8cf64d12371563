// The table of operations (analysis/operation_table.h), for people and for programs, and what the
// profiler plugin summed up beside it: kernel phases, and links (analysis/link_table.h).
#pragma once

#include <string>
#include <vector>

#include "analysis/operation_table.h"
#include "trace/model.h"

namespace rollcall::report {

// One line per communicator, operation and size; what is not known is "-".
std::string stats_text(const trace::Run& run, const std::vector<analysis::OperationRow>& rows);
// Schema rollcall.stats/1, one document. Unknown is null.
std::string stats_json(const trace::Run& run, const std::vector<analysis::OperationRow>& rows);

}  // namespace rollcall::report
