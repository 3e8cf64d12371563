// The verdict: who broke step, where, and why.
//
//     trace::Run run = trace::load_run(directory, {});
//     Report report = analyse(run, {});
//
// The steps are files of this folder: index (who is a member of what, which call is whose n-th),
// sequence (first difference per communicator), progress (which operations can have finished),
// waits (who waits for whom), reading (the two with streams free or chained), judge_* (what a root
// of the waits is, with habit, beside, changing_sizes, circle, left_out and stray_call), findings
// (root before symptom). A process that drives several GPUs is taken apart first (parts); and what
// was called when the job had been given up is set apart: aftermath, given_up.
//
// Cost: linear in operations and in ranks; what looks back into the steps before is bounded in how
// many ranks and calls it asks. Threads: reentrant, no state between calls.
#pragma once

#include <cstdint>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

struct Options {
  // A call that the others wait for is missing only after this long. A running job is allowed to be
  // uneven: ranks save checkpoints, load data, compile.
  int64_t live_threshold_ns = 30'000'000'000;
  // The same for a job that is over, counted to its last sign of life: a job that is killed while
  // healthy leaves its ranks some calls apart.
  int64_t ended_threshold_ns = 1'000'000'000;
  // A process is gone (or stopped) before the others only if its last sign of life is older than
  // theirs by this much; below it, the job was killed as a whole.
  int64_t death_margin_ns = 500'000'000;
  // Sends up to this size may finish without their receive: NCCL buffers them.
  uint64_t eager_bytes = 512 * 1024;
  // Consequences listed per finding; more are counted in the last one.
  uint32_t consequences_max = 16;
};

// Never fails; a run of which nothing can be said yields RC-INSUFFICIENT.
Report analyse(const trace::Run& run, const Options& options = {});

}  // namespace rollcall::analysis
