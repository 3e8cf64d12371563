#include "slow/efficiency.h"

#include <cmath>

namespace rollcall::slow {

Efficiency efficiency_of(const Answer& answer, const Workload& workload) {
  Efficiency efficiency;
  efficiency.gpus = answer.job_gpus;
  if (!answer.is_compared || answer.step_ns <= 0) return efficiency;
  const double step_s = answer.step_ns / 1e9;
  if (workload.tokens > 0) efficiency.tokens_per_s = workload.tokens / step_s;
  if (workload.flops <= 0 || answer.job_gpus == 0) return efficiency;
  efficiency.flops_per_s_of_gpu = workload.flops / step_s / answer.job_gpus;
  if (workload.peak_flops > 0) {
    efficiency.flops_utilization = *efficiency.flops_per_s_of_gpu / workload.peak_flops;
  }
  return efficiency;
}

std::optional<Scaling> scaling_of(const TwoRuns& answer, const Workload& workload) {
  const RunSteps& before = answer.before;
  const RunSteps& after = answer.after;
  const bool is_known = answer.is_compared && before.step_ns > 0 && after.step_ns > 0;
  if (!is_known || before.gpus == 0 || after.gpus == 0) return std::nullopt;
  const bool has_tokens = workload.tokens > 0 && workload.tokens_before > 0;
  if (before.gpus == after.gpus && !has_tokens) return std::nullopt;
  Scaling scaling;
  scaling.gpus_before = before.gpus;
  scaling.gpus_after = after.gpus;
  scaling.weak = before.step_ns / after.step_ns;
  scaling.strong = scaling.weak * before.gpus / after.gpus;
  scaling.error_share =
      std::hypot(before.error_ns / before.step_ns, after.error_ns / after.step_ns);
  if (!has_tokens) return scaling;
  const auto rate = [](double tokens, const RunSteps& run) {
    return tokens / (run.step_ns / 1e9) / run.gpus;
  };
  scaling.tokens_per_s_of_gpu_before = rate(workload.tokens_before, before);
  scaling.tokens_per_s_of_gpu_after = rate(workload.tokens, after);
  scaling.by_tokens = *scaling.tokens_per_s_of_gpu_after / *scaling.tokens_per_s_of_gpu_before;
  return scaling;
}

}  // namespace rollcall::slow
