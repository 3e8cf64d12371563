#include "slow/answer.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/slow/score.h"

namespace rollcall::slow {
namespace answer_test {

using timed::Family;
using timed::Training;

TEST_CASE("a rank whose kernels take a fifth longer is named, with what the steps lose by it") {
  const timed::Case made = make_case(timed::small_training(Family::gpu_slow, 0.2));
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  const Finding& finding = *answer.finding;
  CHECK(finding.verdict == analysis::Verdict::straggler);
  CHECK(finding.confidence == analysis::Confidence::certain);
  REQUIRE(finding.gpus.size() == 1);
  CHECK(answer.gpus[finding.gpus[0]].rank == made.truth.culprits.at(0));
  CHECK(std::abs(finding.recovered - made.truth.recovered) < 0.02);
  CHECK_FALSE(finding.is_host_bound);
  CHECK_FALSE(finding.places.empty());
  CHECK(answer.steps == 60);
  CHECK(answer.compared == 55);
}

TEST_CASE("of a rank whose loader is slow it is told that the time had passed when it called") {
  Training training = timed::small_training(Family::loader_slow, 0.3);
  training.waits_at_end = true;
  const Answer answer = slow::answer(make_case(training).timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::straggler);
  CHECK(answer.finding->is_host_bound);
}

TEST_CASE("a rank whose host is slow as a whole cannot feed its GPU") {
  Training training = timed::small_training(Family::launch_slow, 0.3);
  training.waits_at_end = true;
  const timed::Case made = make_case(training);
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::slow_launch);
  REQUIRE(answer.finding->gpus.size() == 1);
  CHECK(answer.gpus[answer.finding->gpus[0]].rank == made.truth.culprits.at(0));
  CHECK(answer.finding->is_host_bound);
  CHECK(answer.finding->call_ratio > 10);
  CHECK(std::abs(answer.finding->recovered - made.truth.recovered) < 0.02);
}

TEST_CASE("a process that does too much between its calls is a straggler, not a slow host") {
  Training training = timed::small_training(Family::host_slow, 0.3);
  training.waits_at_end = true;
  const Answer answer = slow::answer(make_case(training).timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::straggler);
  CHECK(answer.finding->is_host_bound);
  CHECK(answer.finding->call_ratio < 1.5);
}

TEST_CASE("a rank that sleeps long, and calls with cold caches then, is a straggler") {
  Training training = timed::small_training(Family::loader_slow, 20);
  training.waits_at_end = true;
  timed::Case made = make_case(training);
  const auto culprit = static_cast<size_t>(made.truth.culprits.at(0));
  for (trace::Op& op : made.timed.run.processes.at(culprit).ops) {
    op.called_ns = op.returned_ns - 4 * (op.returned_ns - op.called_ns);
  }
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::straggler);
  CHECK(answer.finding->is_host_bound);
}

TEST_CASE("two ranks that take turns on a GPU are not called uneven") {
  Training training = timed::small_training(Family::uneven_input, 0.2);
  training.shape = {.dp = 2, .tp = 1, .pp = 1, .layers = 2, .microbatches = 1, .steps = 60};
  CHECK_FALSE(slow::answer(make_case(training).timed.run).finding);
}

TEST_CASE("ranks that wait for a slow one in their group are not named with it") {
  const timed::Case made = make_case(timed::small_training(Family::gpu_slow, 0.2));
  const Answer answer = slow::answer(made.timed.run);
  const auto culprit = static_cast<size_t>(made.truth.culprits.at(0));
  for (size_t rank = 0; rank < answer.gpus.size(); ++rank) {
    if (rank == culprit) continue;
    CHECK(answer.gpus[rank].excess_ns < 0.2 * answer.gpus[culprit].excess_ns);
  }
}

TEST_CASE("in a healthy job nobody is named, and the charges add up to the steps") {
  const timed::Case made = make_case(timed::small_training(Family::clean, 0));
  const Answer answer = slow::answer(made.timed.run);
  CHECK_FALSE(answer.finding);
  CHECK(answer.is_compared);
  double charged = answer.unrecorded;
  for (const GpuRow& row : answer.gpus) charged += row.charged;
  for (const CommRow& row : answer.comms) charged += row.charged;
  CHECK(std::abs(charged + answer.unexplained - 1) < 1e-9);
  CHECK(std::abs(answer.unexplained) < 0.01);
}

TEST_CASE("clocks that are seconds apart change nothing of the answer") {
  Training training = timed::small_training(Family::gpu_slow, 0.2);
  timed::Case made = make_case(training);
  const Answer before = slow::answer(made.timed.run);
  for (trace::Op& op : made.timed.run.processes[3].ops) {
    for (int64_t* time :
         {&op.called_ns, &op.returned_ns, &op.started_ns, &op.finished_ns, &op.launched_ns}) {
      if (*time != 0) *time += 7'000'000'000;
    }
  }
  const Answer after = slow::answer(made.timed.run);
  REQUIRE(before.finding);
  REQUIRE(after.finding);
  CHECK(after.finding->gpus == before.finding->gpus);
  CHECK(after.finding->recovered == before.finding->recovered);
}

TEST_CASE("a job that is slow on all ranks alike has no culprit") {
  CHECK_FALSE(
      slow::answer(make_case(timed::small_training(Family::all_slow, 0.5)).timed.run).finding);
}

TEST_CASE("a communicator whose transfers are slower than its siblings' is told, and no rank") {
  Training training = timed::small_training(Family::slow_links, 0.4);
  training.shape = {.dp = 2, .tp = 4, .pp = 1, .layers = 2, .microbatches = 1, .steps = 60};
  training.seed = 3;  // the fourth of the groups that sum up gradients
  const timed::Case made = make_case(training);
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::slow_transfer);
  CHECK(answer.finding->gpus.empty());
  CHECK(answer.finding->ratio > 1.2);
  CHECK(std::abs(answer.finding->recovered - made.truth.recovered) < 0.02);
}

TEST_CASE("of three communicators a slow one has too few siblings to be told") {
  Training training = timed::small_training(Family::slow_links, 0.4);
  training.shape = {.dp = 3, .tp = 2, .pp = 1, .layers = 2, .microbatches = 1, .steps = 60};
  CHECK_FALSE(slow::answer(make_case(training).timed.run).finding);
}

TEST_CASE("a last stage that has more to do is an imbalance of its role, and no rank's fault") {
  Training training = timed::small_training(Family::stage_imbalance, 0);
  training.shape = {.dp = 4, .tp = 1, .pp = 2, .layers = 2, .microbatches = 2, .steps = 60};
  const Answer answer = slow::answer(make_case(training).timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::imbalance);
  CHECK(answer.finding->gpus.empty());
  REQUIRE(answer.finding->role != kNone);
  for (const GpuRow& row : answer.gpus) {
    CHECK((row.role == answer.finding->role) == (row.rank >= 4));
  }
}

TEST_CASE("inputs of different lengths are an imbalance between peers, and no rank's fault") {
  const Answer answer =
      slow::answer(make_case(timed::small_training(Family::uneven_input, 0)).timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::imbalance);
  CHECK(answer.finding->gpus.empty());
  CHECK(answer.finding->role == kNone);
  CHECK(answer.finding->ratio > 0.1);
}

TEST_CASE("a rank that became slow half-way is named for the steps since then") {
  Training training = timed::small_training(Family::gpu_slow_late, 0.2);
  training.shape.steps = 120;
  const timed::Case made = make_case(training);
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.gpus[answer.finding->gpus.at(0)].rank == made.truth.culprits.at(0));
  CHECK(answer.finding->first_step >= 60);
  CHECK(answer.finding->last_step == 119);
  CHECK(answer.finding->compared < answer.compared);
}

TEST_CASE("where no call has a GPU time the answer says why there is none") {
  timed::Case made = make_case(timed::small_training(Family::gpu_slow, 0.2));
  for (trace::Process& process : made.timed.run.processes) {
    for (trace::Op& op : process.ops) op.started_ns = op.finished_ns = 0;
  }
  const Answer answer = slow::answer(made.timed.run);
  CHECK_FALSE(answer.is_compared);
  CHECK_FALSE(answer.finding);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("ROLLCALL_GPU_TIMING") != std::string::npos);
}

TEST_CASE("where every tenth call has no GPU time the answer names the setting that times all") {
  timed::Case made = make_case(timed::small_training(Family::gpu_slow, 0.2));
  for (trace::Process& process : made.timed.run.processes) {
    for (size_t i = 0; i < process.ops.size(); i += 10) {
      process.ops[i].started_ns = process.ops[i].finished_ns = 0;
    }
  }
  const Answer answer = slow::answer(made.timed.run);
  CHECK_FALSE(answer.finding);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("ROLLCALL_OVERHEAD_BUDGET") != std::string::npos);
}

TEST_CASE("fewer than twenty steps prove nothing") {
  Training training = timed::small_training(Family::gpu_slow, 0.5);
  training.shape.steps = 24;
  const Answer answer = slow::answer(make_case(training).timed.run);
  CHECK_FALSE(answer.finding);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("prove nothing") != std::string::npos);
}

TEST_CASE("only the steps that are asked for are compared") {
  const timed::Case made = make_case(timed::small_training(Family::gpu_slow, 0.2));
  const Answer answer =
      slow::answer(made.timed.run, {.ranks = {}, .first_step = 20, .last_step = 49});
  CHECK(answer.first_step == 20);
  CHECK(answer.last_step == 49);
  REQUIRE(answer.finding);
  CHECK(answer.finding->confidence == analysis::Confidence::likely);
}

TEST_CASE("a run without a single call is answered") {
  trace::Run run;
  CHECK_FALSE(slow::answer(run).is_compared);
  run.processes.resize(2);
  CHECK_FALSE(slow::answer(run).is_compared);
}

}  // namespace answer_test
}  // namespace rollcall::slow
