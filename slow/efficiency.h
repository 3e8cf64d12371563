// How well a job uses its GPUs: what it gets done in a second, which share of what the GPUs could
// do at their peak, and what is left of that on more of them.
//
//   tokens/s    = tokens of a step / step time
//   MFU         = operations of a step / (step time * GPUs * peak of a GPU)
//                 (model FLOPs utilization: Chowdhery et al., PaLM, arXiv:2204.02311; operations
//                 that the model needs, without what is computed a second time to save memory)
//   scaling     of one run on n GPUs against another one on m, by what both get done by GPU and
//               second. Where the work of their steps is not known there are two readings of it:
//     weak      each GPU has as much to do as before: step time before / after
//     strong    all together have as much to do: (m * step time before) / (n * step time after)
//
// The step time is the median of the compared steps. GPUs are those of the job, where each rank
// of its communicators left a file; else nothing is told by GPU.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>

#include "slow/answer.h"
#include "slow/two_runs.h"

namespace rollcall::slow {

// What whoever asks knows of the job, and no file tells. 0: it was not said; else positive and
// finite.
struct Workload {
  double flops = 0;          // of a step of the whole job
  double tokens = 0;         // the same
  double peak_flops = 0;     // of one GPU in a second
  double tokens_before = 0;  // of a step of the old one of two runs

  bool is_known() const { return flops > 0 || tokens > 0; }
};

struct Efficiency {
  uint32_t gpus = 0;                         // 0: not known
  std::optional<double> tokens_per_s;        // of the job
  std::optional<double> flops_per_s_of_gpu;  // of each GPU, in the mean
  std::optional<double> flops_utilization;   // MFU. Above 1 what was said of the job is not so
};

// Nothing is known where the steps were not compared.
Efficiency efficiency_of(const Answer& answer, const Workload& workload);

struct Scaling {
  uint32_t gpus_before = 0;
  uint32_t gpus_after = 0;
  double weak = 0;
  double strong = 0;
  double error_share = 0;  // standard error of each, as a share of it
  // With the tokens of a step of both runs: what a GPU gets done, and the scaling by that.
  std::optional<double> tokens_per_s_of_gpu_before;
  std::optional<double> tokens_per_s_of_gpu_after;
  std::optional<double> by_tokens;
};

// nullopt: the step times were not compared, or both runs have as many GPUs and the tokens of their
// steps were not given.
std::optional<Scaling> scaling_of(const TwoRuns& answer, const Workload& workload);

}  // namespace rollcall::slow
