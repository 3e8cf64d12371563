// The table of operations (statistics/operation_table.h), for people and for programs, and what the
// profiler plugin summed up beside it: kernel phases, and links (statistics/link_table.h).
#pragma once

#include <string>
#include <vector>

#include "statistics/operation_table.h"
#include "trace/model.h"

namespace rollcall::report {

// One line per communicator, operation and size; what is not known is "-".
std::string stats_text(const trace::Run& run, const std::vector<statistics::OperationRow>& rows);
// Schema rollcall.stats/1, one document. Unknown is null.
std::string stats_json(const trace::Run& run, const std::vector<statistics::OperationRow>& rows);

}  // namespace rollcall::report
