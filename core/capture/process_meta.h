// What the meta area says about the process: program, place in the job, allow-listed environment.
#pragma once

#include <string_view>

namespace rollcall::capture {

// True for the variables that may be recorded: NCCL_, CUDA_, TORCH_NCCL_, ROLLCALL_, RANK and its
// kin. Everything else of an environment may be a secret.
bool may_record_variable(std::string_view name) noexcept;

// The value of the first of RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID that is a
// number; `from` gets its name. False when none is.
bool find_job_rank(unsigned& rank, std::string_view& from) noexcept;

// The oom_kill counter of the process's cgroup (version 2, or version 1's memory controller); false
// where it cannot be read. ColdLock held.
bool read_oom_kills(unsigned long& kills) noexcept;

}  // namespace rollcall::capture
