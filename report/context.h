// The calls around the first difference, one block per group of ranks that called the same.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::report {

// `calls` before and after the position that the leading finding names. A sentence that says why
// there is nothing to show when the finding has no position on a communicator.
std::string context_text(const trace::Run& run, const analysis::Report& report, uint32_t calls);

}  // namespace rollcall::report
