// Runs of the virtual cluster as the PyTorch profiler would have recorded them: one trace a rank,
// with the calls and the kernels of NCCL and no recorder of ours.
#include <cmath>
#include <string>

#include "slow/answer.h"
#include "slow/timeline.h"
#include "tests/catch.h"
#include "tests/slow/profiled_run.h"
#include "tests/slow/timed_training.h"

namespace rollcall::slow {
namespace profiled_test {

using timed::Family;
using timed::profiled;
using timed::Training;

void expect_culprit(const Training& training, analysis::Verdict verdict) {
  const timed::Case made = make_case(training);
  const Answer answer = slow::answer(profiled(made.timed.run));
  CAPTURE(answer.why_not);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == verdict);
  REQUIRE(answer.finding->gpus.size() == 1);
  CHECK(answer.gpus[answer.finding->gpus[0]].rank == made.truth.culprits.at(0));
  CHECK(std::abs(answer.finding->recovered - made.truth.recovered) < 0.02);
  CHECK(answer.compared == 55);
}

TEST_CASE(
    "from the profiler's traces alone a rank with slow kernels is named, with what it costs") {
  expect_culprit(timed::small_training(Family::gpu_slow, 0.2), analysis::Verdict::straggler);
}

TEST_CASE(
    "from the profiler's traces alone a rank with a slow loader is named as bound by its host") {
  Training training = timed::small_training(Family::loader_slow, 0.3);
  training.waits_at_end = true;
  expect_culprit(training, analysis::Verdict::straggler);
  CHECK(slow::answer(profiled(make_case(training).timed.run)).finding->is_host_bound);
}

TEST_CASE("from the profiler's traces alone a host that launches slowly is told from a straggler") {
  Training training = timed::small_training(Family::launch_slow, 0.3);
  training.waits_at_end = true;
  expect_culprit(training, analysis::Verdict::slow_launch);
}

TEST_CASE("from traces of a pipeline, whose transfers are batches, the slow rank is named") {
  Training training = timed::small_training(Family::gpu_slow, 0.2);
  training.shape = {.dp = 4, .tp = 1, .pp = 2, .layers = 4, .microbatches = 4, .steps = 60};
  expect_culprit(training, analysis::Verdict::straggler);
}

TEST_CASE("traces of a healthy job name nobody") {
  for (const Family family : {Family::clean, Family::clean_overlapped, Family::all_slow}) {
    const Answer answer =
        slow::answer(profiled(make_case(timed::small_training(family, 0.2)).timed.run));
    CHECK(answer.is_compared);
    CHECK_FALSE(answer.finding);
  }
}

TEST_CASE("where the profiler did not watch the GPU the answer says how it does") {
  trace::Run run = profiled(make_case(timed::small_training(Family::clean, 0)).timed.run);
  for (trace::Process& process : run.processes) {
    for (trace::Op& op : process.ops) op.started_ns = op.finished_ns = 0;
  }
  const Answer answer = slow::answer(run);
  CHECK_FALSE(answer.is_compared);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("ProfilerActivity.CUDA") != std::string::npos);
}

TEST_CASE(
    "where a call of each step has no kernel in the traces nobody is named, and it is said why") {
  trace::Run run = profiled(make_case(timed::small_training(Family::gpu_slow, 0.2)).timed.run);
  for (trace::Process& process : run.processes) {
    for (size_t i = 0; i < process.ops.size(); i += 4) {
      process.ops[i].started_ns = process.ops[i].finished_ns = 0;
    }
  }
  const Answer answer = slow::answer(run);
  CHECK_FALSE(answer.finding);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("have no kernel in the files") != std::string::npos);
  CHECK(answer.why_not[0].find("ROLLCALL_OVERHEAD_BUDGET") == std::string::npos);
}

TEST_CASE("that a kernel began is its arrival, also where the call had not come back by then") {
  trace::Run run = profiled(make_case(timed::small_training(Family::clean, 0)).timed.run);
  trace::Op& op = run.processes.at(0).ops.at(7);
  op.returned_ns = op.started_ns + 40'000;
  const Timeline timeline = make_timeline(run);
  const Unit& unit = timeline.units.at(timeline.gpus.at(0).begin + 7);
  CHECK(unit.arrived_ns == op.started_ns);
  CHECK(unit.doubt_ns == 0);
  run.processes.at(0).knowledge.kernel_times = false;
  const Timeline of_events = make_timeline(run);
  const Unit& later = of_events.units.at(of_events.gpus.at(0).begin + 7);
  CHECK(later.arrived_ns > op.started_ns);
  CHECK(later.doubt_ns > 0);
}

}  // namespace profiled_test
}  // namespace rollcall::slow
