// Exposed communication of jobs of which every kernel is known: what a virtual GPU did, written as
// traces of the PyTorch profiler and read back.
#include "slow/exposed.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "report/slow.h"
#include "report/slow_efficiency.h"
#include "slow/answer.h"
#include "tests/catch.h"
#include "tests/slow/profiled_run.h"
#include "tests/slow/timed_cluster.h"

namespace rollcall::slow {
namespace exposed_test {

using timed::What;

constexpr int kRanks = 4;
constexpr int kComputeStream = 0;
constexpr int kReduceStream = 1;
constexpr int64_t kMs = 1'000'000;

// What a step of one rank holds: a kernel, behind it an AllReduce of 4.02 ms, and beside this one
// another kernel. A small Broadcast runs beside the first kernel.
void add_step(int step, int64_t first_ns, int64_t beside_ns, std::vector<timed::Action>& actions) {
  const std::vector<timed::Action> whole = {
      {.what = What::wait, .stream = kComputeStream, .other = kReduceStream},
      {.what = What::kernel, .stream = kComputeStream, .span_ns = first_ns},
      {.what = What::call,
       .stream = kReduceStream,
       .kind = OpKind::Broadcast,
       .count = 16,
       .root_or_peer = 0,
       .step = step},
      {.what = What::wait, .stream = kReduceStream, .other = kComputeStream},
      {.what = What::call,
       .stream = kReduceStream,
       .kind = OpKind::AllReduce,
       .count = 100'000'000,
       .step = step},
      {.what = What::kernel, .stream = kComputeStream, .span_ns = beside_ns}};
  actions.insert(actions.end(), whole.begin(), whole.end());
}

timed::Timed job_with(int64_t beside_ns, int64_t first_of_last_rank_ns = 10 * kMs) {
  timed::Job job;
  job.machine.transfer_noise = 0;
  job.machine.finish_spread_ns = 0;
  job.machine.clock_offset_ns = 3 * kMs;
  job.steps = 40;
  timed::TimedComm world;
  for (int rank = 0; rank < kRanks; ++rank) world.ranks.push_back(rank);
  job.comms = {world};
  job.ranks.resize(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int64_t first_ns = rank == kRanks - 1 ? first_of_last_rank_ns : 10 * kMs;
    for (int step = 0; step < job.steps; ++step) {
      add_step(step, first_ns, beside_ns, job.ranks[static_cast<size_t>(rank)]);
    }
  }
  return timed::execute(job);
}

Answer answer_of(const timed::Timed& job) {
  return slow::answer(timed::profiled(job.run, job.kernels));
}

std::string text_of(const timed::Timed& job) {
  return report::slow_text(job.run, answer_of(job), {});
}

bool is_near(double told_ns, double true_ms) {
  constexpr double kErrorMs = 0.03;  // launches, and a Broadcast
  return std::abs(told_ns / kMs - true_ms) < kErrorMs;
}

TEST_CASE("of a step it is told how long it computes, communicates, and does both at once") {
  const timed::Timed job = job_with(3 * kMs);
  const Answer answer = answer_of(job);
  CAPTURE(answer.why_not, answer.exposed.why_not);
  REQUIRE(answer.is_compared);
  REQUIRE(answer.exposed.measured == kRanks);
  CHECK(answer.exposed.why_not.empty());
  CHECK_FALSE(answer.exposed.at_most);
  for (const std::optional<BusySums>& sums : answer.exposed.gpus) {
    REQUIRE(sums);
    CHECK(is_near(sums->step_ns, 14.02));
    CHECK(is_near(sums->compute_ns, 13));
    CHECK(is_near(sums->communication_ns, 4.04));
    CHECK(is_near(sums->overlap_ns(), 3.02));
    CHECK(is_near(sums->exposed_ns(), 1.02));
    CHECK(std::abs(sums->exposed_share() - 1.02 / 14.02) < 0.003);
    CHECK(std::abs(sums->overlap_share().value() - 3.02 / 4.04) < 0.01);
  }
  CHECK(text_of(job).find("exposed communication of a step, in the mean of 4 ranks") !=
        std::string::npos);
}

TEST_CASE("communication beside a longer kernel is not exposed at all") {
  const Answer answer = answer_of(job_with(8 * kMs));
  REQUIRE(answer.exposed.mean);
  // All ranks have as much, as far as it is printed.
  CHECK(report::exposed_text(answer).find("has least") == std::string::npos);
  CHECK(answer.exposed.mean->exposed_ns() < 0.01 * kMs);
  CHECK(answer.exposed.mean->overlap_share().value() > 0.99);
}

TEST_CASE("who waits for a slow rank exposes the wait, and the slow rank does not") {
  const Answer answer = answer_of(job_with(3 * kMs, 11 * kMs));
  REQUIRE(answer.exposed.measured == kRanks);
  CHECK(is_near(answer.exposed.gpus[0]->exposed_ns(), 2.02));
  CHECK(is_near(answer.exposed.gpus[3]->exposed_ns(), 1.02));
}

TEST_CASE("from NCCL's operations alone exposed communication is bounded, and not measured") {
  const timed::Timed job = job_with(3 * kMs);
  const Answer answer = slow::answer(job.run);
  REQUIRE(answer.is_compared);
  CHECK_FALSE(answer.exposed.is_measured());
  CHECK_FALSE(answer.exposed.mean);
  CHECK(answer.exposed.why_not.find("Rollcall times NCCL's operations") == 0);
  const double measured = answer_of(job).exposed.mean->exposed_share();
  REQUIRE(answer.exposed.at_most);
  CHECK(*answer.exposed.at_most >= measured);
  CHECK(std::abs(*answer.exposed.at_most - 4.04 / 14.02) < 0.01);
  // Nobody is told of it who did not ask.
  CHECK(report::slow_text(job.run, answer, {}).find("exposed") == std::string::npos);
}

TEST_CASE(
    "what is on its way for another step counts in the bound, and what is not timed ends it") {
  const timed::Timed job = job_with(3 * kMs);
  trace::Run run = job.run;
  // The small Broadcast begins in the step before, 4 ms in front of the AllReduce.
  for (trace::Process& process : run.processes) {
    int64_t end_ns = 0;
    for (trace::Op& op : process.ops) {
      if (op.kind == OpKind::Broadcast && end_ns != 0) {
        op.started_ns = end_ns - 8 * kMs;
        op.launched_ns = op.started_ns;
      }
      if (op.kind == OpKind::AllReduce) end_ns = op.finished_ns;
    }
  }
  const Answer answer = slow::answer(run);
  REQUIRE(answer.exposed.at_most);
  CHECK(std::abs(*answer.exposed.at_most - 8.04 / 14.02) < 0.01);
  run = job.run;
  run.processes[1].ops.front().finished_ns = 0;
  const Answer untimed = slow::answer(run);
  CHECK(untimed.is_compared);
  CHECK_FALSE(untimed.exposed.at_most);
}

TEST_CASE("means that were rounded have no negative overlap") {
  const BusySums sums{.step_ns = 1, .compute_ns = 0.1, .communication_ns = 0.2, .either_ns = 0.301};
  CHECK(sums.overlap_ns() == 0);
  CHECK(sums.overlap_share().value() == 0);
}

TEST_CASE("where NCCL may be in graphs there is no bound") {
  timed::Timed job = job_with(3 * kMs);
  trace::Op launch;
  launch.kind = OpKind::GraphLaunch;
  launch.ticket = job.run.processes[0].next_ticket++;
  job.run.processes[0].ops.push_back(launch);
  const Answer answer = slow::answer(job.run);
  CHECK(answer.is_compared);
  CHECK_FALSE(answer.exposed.at_most);
}

TEST_CASE("traces without other kernels than NCCL's measure nothing, and say so") {
  const Answer answer = slow::answer(timed::profiled(job_with(3 * kMs).run));
  REQUIRE(answer.is_compared);
  CHECK_FALSE(answer.exposed.is_measured());
  CHECK(answer.exposed.why_not == "there are no kernels but NCCL's");
}

TEST_CASE("where the kernels of one rank are missing the others are measured, and it is said why") {
  timed::Timed job = job_with(3 * kMs);
  job.kernels.pop_back();
  const Answer answer = answer_of(job);
  CHECK(answer.exposed.measured == kRanks - 1);
  CHECK_FALSE(answer.exposed.gpus[kRanks - 1]);
  CHECK(answer.exposed.why_not == "there are no kernels but NCCL's");
  CHECK(text_of(job).find("It is not measured of 1 other rank: there are no kernels") !=
        std::string::npos);
}

TEST_CASE("times that no clock shows give no bound") {
  const timed::Timed job = job_with(3 * kMs);
  for (const int64_t moved_ns : {INT64_MIN / 4 * 3, INT64_MIN / 2}) {
    trace::Run run = job.run;
    for (trace::Op& op : run.processes[2].ops) {
      op.started_ns += moved_ns;
      op.finished_ns += moved_ns;
      op.launched_ns += moved_ns;
    }
    CHECK_FALSE(slow::answer(run).exposed.at_most);
  }
}

TEST_CASE("sums that no GPU can have are not told") {
  const timed::Timed job = job_with(3 * kMs);
  const trace::Run run = timed::profiled(job.run, job.kernels);
  const auto damaged = [&run](auto damage) {
    trace::Run other = run;
    for (trace::BusyTime& busy : other.processes[1].busy) damage(busy);
    return slow::answer(other).exposed;
  };
  for (const Exposed& exposed :
       {damaged([](trace::BusyTime& busy) { busy.either_ns *= 2; }),
        damaged([](trace::BusyTime& busy) { busy.compute_ns = -busy.compute_ns; }),
        damaged([](trace::BusyTime& busy) { busy.communication_ns *= 9; }),
        damaged([](trace::BusyTime& busy) { busy.ticket += 1'000'000; })}) {
    CHECK(exposed.measured == kRanks - 1);
    CHECK(exposed.why_not == "the times of kernels and of calls contradict each other");
  }
}

}  // namespace exposed_test
}  // namespace rollcall::slow
