// What counts as long, or much: the only things of the analysis that a user may set.
#pragma once

#include <cstdint>

namespace rollcall::analysis {

struct Options {
  // A call that the others wait for is missing only after this long. A running job is allowed to be
  // uneven: ranks save checkpoints, load data, compile.
  int64_t live_threshold_ns = 30'000'000'000;
  // A younger wait of a running job is worth mentioning from here on, and no verdict: the person
  // who asks may be watching the hang begin.
  int64_t young_wait_ns = 1'000'000'000;
  // The same for a job that is over, counted to its last sign of life: a job that is killed while
  // healthy leaves its ranks some calls apart.
  int64_t ended_threshold_ns = 1'000'000'000;
  // A process is gone (or stopped) before the others only if its last sign of life is older than
  // theirs by this much; below it, the job was killed as a whole.
  int64_t death_margin_ns = 500'000'000;
  // Sends up to this size may finish without their receive: NCCL buffers them.
  uint64_t eager_bytes = 512 * 1024;
  // Calls that wait, listed per finding; more are counted.
  uint32_t waits_max = 16;
};

}  // namespace rollcall::analysis
