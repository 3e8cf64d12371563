#include "report/slow_efficiency.h"

#include <fmt/format.h>

#include <cmath>

#include "report/json_terms.h"
#include "report/slow_terms.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using slow::Answer;
using slow::BusySums;
using slow::Exposed;
using slow::TwoRuns;
using slow::Workload;

// "1,234,567"; what is small keeps three digits behind the point.
std::string rate_text(double rate) {
  constexpr double kSmall = 999.5;
  constexpr double kLargest = 1e18;
  if (rate < kSmall) return fmt::format("{:.3g}", rate);
  if (rate > kLargest) return fmt::format("{:.3e}", rate);
  return grouped(static_cast<uint64_t>(std::llround(rate)));
}

// "395.6 TFLOP/s"
std::string flops_rate_text(double flops_per_s) {
  constexpr double kTera = 1e12;
  constexpr double kPeta = 1e15;
  constexpr double kFourDigits = 9999.5;
  if (flops_per_s / kTera < kFourDigits) {
    return fmt::format("{:.4g} TFLOP/s", flops_per_s / kTera);
  }
  const double peta = flops_per_s / kPeta;
  return (peta < kFourDigits ? fmt::format("{:.4g}", peta) : rate_text(peta)) + " PFLOP/s";
}

std::string share_text(const std::optional<double>& share) {
  return share ? percent(*share) : std::string("-");
}

struct Ends {
  size_t least = 0;
  size_t most = 0;
};

// Of the GPUs that were measured, which are one at least.
Ends ends_of(const Exposed& exposed) {
  std::optional<Ends> ends;
  for (size_t gpu = 0; gpu < exposed.gpus.size(); ++gpu) {
    if (!exposed.gpus[gpu]) continue;
    if (!ends) ends = Ends{gpu, gpu};
    const double share = exposed.gpus[gpu]->exposed_share();
    if (share < exposed.gpus[ends->least]->exposed_share()) ends->least = gpu;
    if (share > exposed.gpus[ends->most]->exposed_share()) ends->most = gpu;
  }
  return ends.value_or(Ends{});
}

Json sums_json(const BusySums& sums) {
  return {{"step_ns", sums.step_ns},
          {"compute_ns", sums.compute_ns},
          {"communication_ns", sums.communication_ns},
          {"either_ns", sums.either_ns},
          {"overlap_ns", sums.overlap_ns()},
          {"exposed_ns", sums.exposed_ns()},
          {"exposed_share", sums.exposed_share()},
          {"overlap_share", optional_number(sums.overlap_share())}};
}

std::string not_measured_text(const Exposed& exposed) {
  std::string text = fmt::format("  exposed communication is not measured: {}", exposed.why_not);
  if (exposed.at_most) {
    text += fmt::format(
        ";\n  it is {} of a step at most, in which operations of NCCL were on their way",
        percent(*exposed.at_most));
  }
  return text + "\n";
}

std::string flops_text(const slow::Efficiency& efficiency, const Workload& workload) {
  if (!efficiency.flops_per_s_of_gpu) return "";
  std::string text =
      fmt::format("  {} by each GPU", flops_rate_text(*efficiency.flops_per_s_of_gpu));
  if (!efficiency.flops_utilization) {
    return text + "; with --peak-flops, what a GPU can do at most, that is an MFU\n";
  }
  text += fmt::format(": MFU {} of {}\n", percent(*efficiency.flops_utilization),
                      flops_rate_text(workload.peak_flops));
  if (*efficiency.flops_utilization <= 1) return text;
  return text +
         "  That is more than GPUs can do: --flops is of one step of the whole job, --peak-flops "
         "of one GPU in a second.\n";
}

// Empty where the GPUs of the job are known.
std::string of_unknown_gpus(const Answer& answer, const slow::Efficiency& efficiency) {
  if (efficiency.gpus != 0) return "";
  std::string text =
      fmt::format("\nwhat the job gets done in steps of {}\n", span_text(answer.step_ns));
  if (efficiency.tokens_per_s) {
    text += fmt::format("  {} tokens/s\n", rate_text(*efficiency.tokens_per_s));
  }
  text += "  Ranks left no file, and how many is not known: nothing is told by GPU.\n";
  if (!answer.exposed.is_measured()) text += not_measured_text(answer.exposed);
  return text;
}

// Empty where nobody would look for it, or where it is not the GPUs that are missing.
std::string of_unknown_scaling(const TwoRuns& answer, const Workload& workload) {
  const bool has_tokens = workload.tokens > 0 && workload.tokens_before > 0;
  const bool is_unknown = answer.before.gpus == 0 || answer.after.gpus == 0;
  const bool has_steps = answer.is_compared && answer.before.step_ns > 0;
  if (!is_unknown || !has_steps || !(answer.is_other_size || has_tokens)) return "";
  const char* const runs = answer.after.gpus != 0    ? "the old run"
                           : answer.before.gpus != 0 ? "the new run"
                                                     : "both runs";
  return fmt::format(
      "\nno scaling efficiency is told: ranks of {} left no file, and how many is not known\n",
      runs);
}

}  // namespace

std::string exposed_text(const Answer& answer) {
  const Exposed& exposed = answer.exposed;
  if (!exposed.is_measured()) return "";
  const BusySums& mean = *exposed.mean;
  const Ends ends = ends_of(exposed);
  std::string text = fmt::format("\nexposed communication of a step, in the mean of {} rank{}\n",
                                 exposed.measured, exposed.measured == 1 ? "" : "s");
  text += fmt::format(
      "  compute {}, communication {}, and {} of both at once: {} of communication is hidden\n",
      span_text(mean.compute_ns), span_text(mean.communication_ns), span_text(mean.overlap_ns()),
      share_text(mean.overlap_share()));
  text += fmt::format("  exposed {}, which is {} of a step", span_text(mean.exposed_ns()),
                      percent(mean.exposed_share()));
  const std::string least = percent(exposed.gpus[ends.least]->exposed_share());
  const std::string most = percent(exposed.gpus[ends.most]->exposed_share());
  if (least != most) {
    text += fmt::format("; rank {} has least with {}, rank {} most with {}",
                        answer.gpus[ends.least].rank, least, answer.gpus[ends.most].rank, most);
  }
  text += "\n  Kernels of NCCL wait for other ranks, too: who comes last exposes least.\n";
  if (exposed.measured < answer.gpus.size()) {
    const size_t others = answer.gpus.size() - exposed.measured;
    text += fmt::format("  It is not measured of {} other rank{}: {}.\n", others,
                        others == 1 ? "" : "s", exposed.why_not);
  }
  return text;
}

std::string efficiency_text(const Answer& answer, const Workload& workload, bool is_emulated) {
  if (!workload.is_known() || !answer.is_compared) return "";
  const slow::Efficiency efficiency = slow::efficiency_of(answer, workload);
  std::string text = of_unknown_gpus(answer, efficiency);
  if (!text.empty()) return text;
  text = fmt::format("\nwhat {} {}GPU{} get{} done in steps of {}\n", efficiency.gpus,
                     is_emulated ? "emulated " : "", efficiency.gpus == 1 ? "" : "s",
                     efficiency.gpus == 1 ? "s" : "", span_text(answer.step_ns));
  if (efficiency.tokens_per_s) {
    text += fmt::format("  {} tokens/s, {} by each GPU\n", rate_text(*efficiency.tokens_per_s),
                        rate_text(*efficiency.tokens_per_s / efficiency.gpus));
  }
  text += flops_text(efficiency, workload);
  if (!answer.exposed.is_measured()) text += not_measured_text(answer.exposed);
  return text;
}

std::string scaling_text(const TwoRuns& answer, const Workload& workload) {
  const std::optional<slow::Scaling> scaling = slow::scaling_of(answer, workload);
  if (!scaling) return of_unknown_scaling(answer, workload);
  const auto line = [&](double efficiency, std::string_view kind) {
    return fmt::format("  {} ±{} {}\n", percent(efficiency),
                       percent(efficiency * scaling->error_share), kind);
  };
  std::string text =
      fmt::format("\nscaling efficiency, from {} to {} GPUs (± one standard error)\n",
                  scaling->gpus_before, scaling->gpus_after);
  if (scaling->gpus_before == scaling->gpus_after) {
    text = fmt::format(
        "\nwhat each of {} GPUs gets done, against the old run (± one standard error)\n",
        scaling->gpus_after);
  }
  if (scaling->by_tokens) {
    return text +
           line(*scaling->by_tokens, fmt::format("by tokens: {} -> {} tokens/s by each GPU",
                                                 rate_text(*scaling->tokens_per_s_of_gpu_before),
                                                 rate_text(*scaling->tokens_per_s_of_gpu_after)));
  }
  text += line(scaling->weak, "(weak), if each GPU has as much to do in a step as before");
  text += line(scaling->strong, "(strong), if all GPUs together have as much to do as before");
  return text + "  Which of these it is, --tokens-before and --tokens tell.\n";
}

std::string exposed_json(const Answer& answer) {
  const Exposed& exposed = answer.exposed;
  const Json json = {{"measured_ranks", exposed.measured},
                     {"why_not", text_or_null(exposed.why_not)},
                     {"at_most_share", optional_number(exposed.at_most)},
                     {"mean", exposed.mean ? sums_json(*exposed.mean) : Json(nullptr)}};
  return json.dump();
}

std::string busy_json(const Answer& answer, size_t gpu) {
  const bool is_known = gpu < answer.exposed.gpus.size() && answer.exposed.gpus[gpu];
  return (is_known ? sums_json(*answer.exposed.gpus[gpu]) : Json(nullptr)).dump();
}

std::string efficiency_json(const Answer& answer, const Workload& workload) {
  if (!workload.is_known()) return "null";
  const slow::Efficiency efficiency = slow::efficiency_of(answer, workload);
  const Json json = {{"gpus", known_or_null(efficiency.gpus, efficiency.gpus != 0)},
                     {"tokens_per_s", optional_number(efficiency.tokens_per_s)},
                     {"flops_per_s_of_gpu", optional_number(efficiency.flops_per_s_of_gpu)},
                     {"mfu", optional_number(efficiency.flops_utilization)}};
  return json.dump();
}

std::string scaling_json(const TwoRuns& answer, const Workload& workload) {
  const std::optional<slow::Scaling> scaling = slow::scaling_of(answer, workload);
  if (!scaling) return "null";
  const Json json = {
      {"gpus_before", scaling->gpus_before},
      {"gpus_after", scaling->gpus_after},
      {"weak", scaling->weak},
      {"strong", scaling->strong},
      {"error_share", scaling->error_share},
      {"tokens_per_s_of_gpu_before", optional_number(scaling->tokens_per_s_of_gpu_before)},
      {"tokens_per_s_of_gpu_after", optional_number(scaling->tokens_per_s_of_gpu_after)},
      {"by_tokens", optional_number(scaling->by_tokens)}};
  return json.dump();
}

}  // namespace rollcall::report
