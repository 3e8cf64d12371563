// A run with its verdict, for the commands that lead with it: diff and report.
#pragma once

#include <cstdint>

#include "analysis/finding.h"
#include "analysis/options.h"
#include "tools/command.h"
#include "trace/model.h"

namespace rollcall::tools {

// About a second of analysis, and with all that is computed from them an eighth of a gibibyte.
inline constexpr uint64_t kRecordsInMemory = uint64_t{1} << 20;

// What of a run is read, and what counts as missing in it.
struct JudgedRunOptions {
  uint64_t window = 0;
  bool window_given = false;
  uint64_t held = kRecordsInMemory;
  double stalled_after_s = -1;  // below 0: as long as by default

  // As read_run() takes it: with --window as much is read as it says.
  uint64_t records_max() const { return window_given ? 0 : held; }
};

// Declares --stalled-after, --window and --held. Returns --window, whose given() is for the action.
Option add_judged_run_options(Subcommand& command, JudgedRunOptions& options);

analysis::Options analysis_options(const JudgedRunOptions& options);

// Judges the run, with a progress line. Of several jobs in one directory, without a run id, each is
// judged by itself, the worst is taken, of equals the newest, and the others are named on stderr:
// `run` is of that one afterwards.
analysis::Report judge_run(const analysis::Options& options, trace::Run& run);

}  // namespace rollcall::tools
