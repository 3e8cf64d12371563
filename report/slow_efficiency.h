// How well a job uses its GPUs, as `rollcall slow` says it: exposed communication (slow/exposed.h),
// and what the steps get done (slow/efficiency.h), for people and for programs.
#pragma once

#include <string>

#include "slow/answer.h"
#include "slow/efficiency.h"
#include "slow/two_runs.h"

namespace rollcall::report {

// Where it was measured: the three sums of a step in the mean of the ranks, and which rank exposes
// least and most. Empty where it was not.
std::string exposed_text(const slow::Answer& answer);
// Of what was said of the job; where exposed communication was not measured, that, why, and what
// bounds it. Empty where nothing was said of the job or the steps were not compared.
std::string efficiency_text(const slow::Answer& answer, const slow::Workload& workload,
                            bool is_emulated);
// Empty: there is no scaling_of() the runs.
std::string scaling_text(const slow::TwoRuns& answer, const slow::Workload& workload);

// Fields of rollcall.slow/1, as text of JSON. Unknown is null.
//
//   exposed_communication   {"measured_ranks", "why_not", "at_most_share", "mean": {...}}; shares
//                           are of a step. "mean" is of the ranks that were measured.
//   of each rank, "busy"    {"step_ns", "compute_ns", "communication_ns", "either_ns",
//                           "overlap_ns", "exposed_ns", "exposed_share", "overlap_share"}, and
//                           "mean" above the same: of a step, in the mean of the compared steps
//   efficiency              {"gpus", "tokens_per_s", "flops_per_s_of_gpu", "mfu"}; null where
//                           neither --flops nor --tokens was given, and of two runs
//   against.scaling         {"gpus_before", "gpus_after", "weak", "strong", "error_share",
//                           "tokens_per_s_of_gpu_before", "tokens_per_s_of_gpu_after",
//                           "by_tokens"}; null where there is no scaling_of() the runs
std::string exposed_json(const slow::Answer& answer);
std::string busy_json(const slow::Answer& answer, size_t gpu);
std::string efficiency_json(const slow::Answer& answer, const slow::Workload& workload);
std::string scaling_json(const slow::TwoRuns& answer, const slow::Workload& workload);

}  // namespace rollcall::report
