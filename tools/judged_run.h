// A run with its verdict, for the commands that lead with it: diff and report.
#pragma once

#include <cstdint>

#include "analysis/finding.h"
#include "analysis/options.h"
#include "trace/model.h"

namespace rollcall::tools {

// About a second of analysis, and with all that is computed from them an eighth of a gibibyte.
inline constexpr uint64_t kRecordsInMemory = uint64_t{1} << 20;

// `stalled_after_s` below 0: as long as by default.
analysis::Options analysis_options(double stalled_after_s);

// Judges the run, with a progress line. Of several jobs in one directory, without a run id, each is
// judged by itself, the worst is taken, of equals the newest, and the others are named on stderr:
// `run` is of that one afterwards.
analysis::Report judge_run(const analysis::Options& options, trace::Run& run);

}  // namespace rollcall::tools
