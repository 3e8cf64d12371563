// Which processes of a run directory belong to one job, where no ROLLCALL_RUN_ID tells.
//
// Processes that share a communicator are of one job. Such groups are of one job as long as no job
// rank is in both and their launchers' settings do not contradict each other: a rank that never
// came to a communicator belongs to the others. Groups with a job rank in common are several jobs,
// or attempts of one where the launcher's number of the job says so and they came one after the
// other.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/model.h"

namespace rollcall::trace {

inline constexpr uint32_t kNoJob = UINT32_MAX;

struct Jobs {
  // By process. kNoJob: it has a run id, another recorder wrote it, or it is of an older attempt.
  std::vector<uint32_t> of;
  uint32_t count = 0;
};
// Job 0 is the one that began last.
Jobs jobs_of(const Run& run);

// Leaves the processes of that job, and those of none as they are: what is superseded is not
// compared.
void choose_job(const Jobs& jobs, uint32_t job, Run& run);

}  // namespace rollcall::trace
