// What a job gets done: by what is said of it, and in words.
#include "slow/efficiency.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "report/slow_efficiency.h"
#include "tests/catch.h"
#include "tests/slow/timed_training.h"
#include "tools/slow_workload.h"

namespace rollcall::slow {
namespace efficiency_test {

using nlohmann::json;
using tools::WorkloadWords;

Answer steps_of(double step_ns, uint32_t gpus) {
  Answer answer;
  answer.is_compared = true;
  answer.step_ns = step_ns;
  answer.job_gpus = gpus;
  answer.exposed.why_not = "there are no kernels but NCCL's";
  return answer;
}

TwoRuns two_runs(double before_ns, uint32_t before, double after_ns, uint32_t after) {
  TwoRuns answer;
  answer.is_compared = true;
  answer.before.step_ns = before_ns;
  answer.before.error_ns = before_ns * 0.003;
  answer.before.gpus = before;
  answer.after.step_ns = after_ns;
  answer.after.error_ns = after_ns * 0.004;
  answer.after.gpus = after;
  return answer;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("tokens and operations of a step give tokens per second and the share of the peak") {
  // 8 GPUs at 989e12 could do 791.2e12 in 100 ms.
  const Workload workload{.flops = 316.48e12, .tokens = 65'536, .peak_flops = 989e12};
  const Efficiency efficiency = efficiency_of(steps_of(100e6, 8), workload);
  CHECK(efficiency.gpus == 8);
  CHECK(std::abs(efficiency.tokens_per_s.value() - 655'360) < 1e-3);
  CHECK(std::abs(efficiency.flops_per_s_of_gpu.value() - 395.6e12) < 1e6);
  CHECK(std::abs(efficiency.flops_utilization.value() - 0.4) < 1e-9);
}

TEST_CASE("what nobody said is not told") {
  const Efficiency of_tokens = efficiency_of(steps_of(100e6, 8), {.tokens = 10});
  CHECK(of_tokens.tokens_per_s);
  CHECK_FALSE(of_tokens.flops_per_s_of_gpu);
  CHECK_FALSE(of_tokens.flops_utilization);
  const Efficiency without_peak = efficiency_of(steps_of(100e6, 8), {.flops = 1e12});
  CHECK(without_peak.flops_per_s_of_gpu);
  CHECK_FALSE(without_peak.flops_utilization);
  Answer nothing = steps_of(100e6, 8);
  nothing.is_compared = false;
  CHECK_FALSE(efficiency_of(nothing, {.flops = 1, .tokens = 1, .peak_flops = 1}).tokens_per_s);
  CHECK(report::efficiency_text(nothing, {.tokens = 1}, false).empty());
  CHECK(report::efficiency_text(steps_of(100e6, 8), {}, false).empty());
  CHECK(report::efficiency_json(steps_of(100e6, 8), {}) == "null");
}

TEST_CASE("the text has tokens per second, the share of the peak, and what is not measured") {
  const Workload workload{.flops = 316.48e12, .tokens = 65'536, .peak_flops = 989e12};
  Answer answer = steps_of(100e6, 8);
  answer.exposed.at_most = 0.25;
  const std::string text = report::efficiency_text(answer, workload, false);
  CHECK(contains(text, "what 8 GPUs get done in steps of 100.00 ms"));
  CHECK(contains(text, "655,360 tokens/s, 81,920 by each GPU"));
  CHECK(contains(text, "395.6 TFLOP/s by each GPU: MFU 40.0 % of 989 TFLOP/s"));
  CHECK(contains(text, "not measured: there are no kernels but NCCL's"));
  CHECK(contains(text, "it is 25.0 % of a step at most"));
  CHECK_FALSE(contains(text, "more than GPUs can do"));
  CHECK(contains(report::efficiency_text(answer, workload, true), "8 emulated GPUs"));
  const json document = json::parse(report::efficiency_json(answer, workload));
  CHECK(std::abs(document["mfu"].get<double>() - 0.4) < 1e-9);
  CHECK(document["gpus"] == 8);
}

TEST_CASE("more than the peak is said to be a mistake in what was given") {
  const Workload workload{.flops = 316.48e15, .peak_flops = 989e12};
  const std::string text = report::efficiency_text(steps_of(100e6, 8), workload, false);
  CHECK(contains(text, "That is more than GPUs can do: --flops is of one step"));
}

TEST_CASE("of runs of different size both readings of the scaling are told") {
  const TwoRuns answer = two_runs(100e6, 8, 125e6, 16);
  const Scaling scaling = scaling_of(answer, {}).value();
  CHECK(std::abs(scaling.weak - 0.8) < 1e-9);
  CHECK(std::abs(scaling.strong - 0.4) < 1e-9);
  CHECK(std::abs(scaling.error_share - 0.005) < 1e-9);
  CHECK_FALSE(scaling.by_tokens);
  const std::string text = report::scaling_text(answer, {});
  CHECK(contains(text, "from 8 to 16 GPUs"));
  CHECK(contains(text, "80.0 % ±0.4 % (weak)"));
  CHECK(contains(text, "40.0 % ±0.2 % (strong)"));
  CHECK(json::parse(report::scaling_json(answer, {}))["by_tokens"].is_null());
}

TEST_CASE("with the tokens of both runs there is one scaling efficiency, whatever they are") {
  // Twice the GPUs do 1.5 times the tokens in 125 ms instead of 100.
  const Workload workload{.tokens = 1.5e6, .tokens_before = 1e6};
  const TwoRuns answer = two_runs(100e6, 8, 125e6, 16);
  const Scaling scaling = scaling_of(answer, workload).value();
  CHECK(std::abs(scaling.by_tokens.value() - 0.6) < 1e-9);
  const std::string text = report::scaling_text(answer, workload);
  CHECK(contains(text, "60.0 % ±0.3 % by tokens: 1,250,000 -> 750,000 tokens/s by each GPU"));
  CHECK_FALSE(contains(text, "(weak)"));
  // As much to do by each GPU is the weak one, and as much in all the strong one.
  const auto by = [&](double tokens) {
    return scaling_of(answer, {.tokens = tokens, .tokens_before = 1e6})->by_tokens.value();
  };
  CHECK(std::abs(by(2e6) - scaling.weak) < 1e-9);
  CHECK(std::abs(by(1e6) - scaling.strong) < 1e-9);
}

TEST_CASE(
    "of runs of one size the tokens of both tell what a GPU gets done, and not how it scales") {
  const Workload workload{.tokens = 1e6, .tokens_before = 1e6};
  const std::string text = report::scaling_text(two_runs(100e6, 8, 125e6, 8), workload);
  CHECK(contains(text, "what each of 8 GPUs gets done, against the old run"));
  CHECK(contains(text, "80.0 % ±0.4 % by tokens: 1,250,000 -> 1,000,000 tokens/s by each GPU"));
  CHECK_FALSE(contains(text, "scaling"));
  CHECK_FALSE(contains(text, "(weak)"));
}

TEST_CASE("runs of one size, or that could not be compared, have no scaling") {
  CHECK_FALSE(scaling_of(two_runs(100e6, 8, 125e6, 8), {}));
  TwoRuns uncompared = two_runs(100e6, 8, 125e6, 16);
  uncompared.is_compared = false;
  CHECK_FALSE(scaling_of(uncompared, {}));
  CHECK_FALSE(scaling_of(two_runs(100e6, 8, 125e6, 0), {}));
  CHECK(report::scaling_text(two_runs(100e6, 8, 125e6, 8), {}).empty());
  CHECK(report::scaling_json(uncompared, {}) == "null");
}

TEST_CASE("two jobs of different size are compared by their step times, with their GPUs") {
  timed::Training training = timed::small_training(timed::Family::clean, 0);
  training.shape.dp = 2;
  const trace::Run small = make_case(training).timed.run;
  training.shape.dp = 4;
  const trace::Run large = make_case(training).timed.run;
  const TwoRuns answer = compare(small, large);
  CHECK(answer.is_other_size);
  CHECK(answer.before.gpus == small.processes.size());
  CHECK(answer.after.gpus == large.processes.size());
  const Scaling scaling = scaling_of(answer, {}).value();
  CHECK(std::abs(scaling.weak - answer.before.step_ns / answer.after.step_ns) < 1e-9);
  CHECK_FALSE(scaling_of(compare(large, large), {}));
}

void tell_world_size(trace::Run& run, const std::string& size) {
  for (trace::Process& process : run.processes) process.meta["world_size"] = size;
}

TEST_CASE("how many GPUs the job has a launcher and a communicator tell where files are missing") {
  trace::Run run = make_case(timed::small_training(timed::Family::clean, 0)).timed.run;
  const auto all = static_cast<uint32_t>(run.processes.size());
  trace::Run some = run;
  some.processes.pop_back();
  tell_world_size(some, std::to_string(all));
  CHECK(slow::answer(some).job_gpus == all);
  SECTION("a launcher that counts hosts is no witness") {
    tell_world_size(some, "1");
    CHECK(slow::answer(some).job_gpus == 0);
    tell_world_size(run, "1");
    CHECK(slow::answer(run).job_gpus == all);
  }
  SECTION("one that tells of more than any communicator has is alone with it") {
    tell_world_size(run, std::to_string(2 * all));
    CHECK(slow::answer(run).job_gpus == 0);
  }
  SECTION("of two numbers neither is taken, nor is what is no number") {
    some.processes.front().meta["world_size"] = std::to_string(all + 1);
    CHECK(slow::answer(some).job_gpus == 0);
    tell_world_size(some, "many");
    CHECK(slow::answer(some).job_gpus == 0);
    tell_world_size(some, std::to_string(all) + "x");
    CHECK(slow::answer(some).job_gpus == 0);
  }
}

TEST_CASE("a scaling efficiency that cannot be told is said to be missing, and why") {
  TwoRuns answer = two_runs(100e6, 8, 125e6, 0);
  answer.is_other_size = true;
  const std::string text = report::scaling_text(answer, {});
  CHECK(contains(text, "no scaling efficiency is told: ranks of the new run left no file"));
  answer.before.gpus = 0;
  CHECK(contains(report::scaling_text(answer, {}), "ranks of both runs left no file"));
  answer.is_other_size = false;
  CHECK(report::scaling_text(answer, {}).empty());
  CHECK_FALSE(report::scaling_text(answer, {.tokens = 10, .tokens_before = 10}).empty());
}

TEST_CASE("where ranks left no file nothing is told by GPU, and it is said why") {
  trace::Run run = make_case(timed::small_training(timed::Family::clean, 0)).timed.run;
  const auto all = static_cast<uint32_t>(run.processes.size());
  CHECK(slow::answer(run).job_gpus == all);
  run.processes.pop_back();
  CHECK(slow::answer(run).job_gpus == 0);
  const Workload workload{.flops = 1e15, .tokens = 65'536, .peak_flops = 989e12};
  const std::string text = report::efficiency_text(steps_of(100e6, 0), workload, false);
  CHECK(contains(text, "655,360 tokens/s\n"));
  CHECK(contains(text, "Ranks left no file, and how many is not known"));
  CHECK_FALSE(contains(text, "MFU"));
  CHECK_FALSE(contains(text, "by each GPU"));
}

TEST_CASE("rates are written without exponents") {
  const Workload workload{.flops = 160e15, .tokens = 99.97, .peak_flops = 40e15};
  const std::string text = report::efficiency_text(steps_of(100e6, 8), workload, false);
  CHECK(contains(text, "  1,000 tokens/s, 125 by each GPU"));
  CHECK(contains(text, "200 PFLOP/s by each GPU: MFU 500.0 % of 40 PFLOP/s"));
  CHECK_FALSE(contains(text, "e+"));
}

// The error that the words cost; empty: none.
std::string refusal(const WorkloadWords& words, bool is_of_two_runs) {
  Workload workload;
  std::string error;
  const bool is_read = tools::read_workload(words, is_of_two_runs, workload, error);
  CHECK(is_read == error.empty());
  return error;
}

TEST_CASE("numbers of a job are read as people write them, and all else is refused in a sentence") {
  Workload workload;
  std::string error;
  CHECK(tools::read_workload({.flops = "4.2e18", .peak_flops = "989e12", .tokens = "4194304"},
                             false, workload, error));
  CHECK(workload.flops == 4.2e18);
  CHECK(workload.peak_flops == 989e12);
  CHECK(workload.tokens == 4194304);
  for (const char* word :
       {"0", "-1", "nan", "inf", "1e999", "1e-300", "many", "5x", "1,000", " 5"}) {
    CAPTURE(word);
    CHECK(contains(refusal({.tokens = word}, false), "--tokens takes the tokens of a step"));
    CHECK(contains(refusal({.flops = word}, false), "as 4.2e18, and is above 0; '"));
    CHECK(contains(refusal({.flops = "1", .peak_flops = word}, false), "--peak-flops takes"));
    CHECK(contains(refusal({.tokens = "1", .tokens_before = word}, true), "--tokens-before takes"));
  }
}

TEST_CASE("what goes with one run is refused of two, and the other way round") {
  CHECK(contains(refusal({.flops = "1"}, true), "are about one run"));
  CHECK(contains(refusal({.tokens = "1"}, true), "give both"));
  CHECK(contains(refusal({.tokens_before = "1"}, true), "give both"));
  CHECK(refusal({.tokens = "1", .tokens_before = "1"}, true).empty());
  CHECK(contains(refusal({.tokens = "1", .tokens_before = "1"}, false), "the old one of two runs"));
  CHECK(contains(refusal({.peak_flops = "1"}, false), "goes with --flops"));
  CHECK(refusal({}, false).empty());
  CHECK(refusal({}, true).empty());
}

}  // namespace efficiency_test
}  // namespace rollcall::slow
