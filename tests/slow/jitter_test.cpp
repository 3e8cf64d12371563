#include <cmath>
#include <initializer_list>

#include "slow/answer.h"
#include "slow/change.h"
#include "tests/catch.h"
#include "tests/slow/score.h"

namespace rollcall::slow {
namespace jitter_test {

using timed::Family;
using timed::Training;

Training small(Family family, int steps) {
  Training training;
  training.family = family;
  training.seed = 2;
  training.shape = {.dp = 4, .tp = 2, .pp = 1, .layers = 2, .microbatches = 1, .steps = steps};
  training.severity = 0.2;
  training.waits_at_end = true;
  return training;
}

TEST_CASE("pauses that wander from rank to rank are jitter, and no rank's fault") {
  const timed::Case made = make_case(small(Family::rotating_pauses, 160));
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  const Finding& finding = *answer.finding;
  CHECK(finding.verdict == analysis::Verdict::jitter);
  CHECK(finding.confidence == analysis::Confidence::likely);
  CHECK(finding.gpus.empty());
  CHECK(finding.jitter.cause == JitterCause::host);
  CHECK(finding.jitter.gpus >= 5);
  CHECK(finding.jitter.of_many == 0);
  CHECK(finding.jitter.period == 0);
  CHECK(std::abs(finding.recovered - made.truth.recovered) < 0.03);
}

TEST_CASE("a pause every eleven steps, of one rank after the other, has its period told") {
  const Answer answer = slow::answer(make_case(small(Family::periodic_pauses, 160)).timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::jitter);
  CHECK(answer.finding->gpus.empty());
  CHECK(answer.finding->jitter.period == 11);
}

TEST_CASE("stalls of all ranks at once are told as such") {
  const Answer answer = slow::answer(make_case(small(Family::data_stalls, 200)).timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::jitter);
  CHECK(2 * answer.finding->jitter.of_many > answer.finding->jitter.slow_steps);
}

TEST_CASE("one rank that pauses now and then is named, with the steps that it made slow") {
  const timed::Case made = make_case(small(Family::one_pauses, 200));
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::straggler);
  REQUIRE(answer.finding->gpus.size() == 1);
  CHECK(answer.gpus[answer.finding->gpus[0]].rank == made.truth.culprits.at(0));
  CHECK(answer.finding->jitter.slow_steps >= 6);
  CHECK(answer.finding->positive < 0.3);
  CHECK(answer.finding->is_host_bound);
}

// Everything behind the beginning of these steps comes so much later, on all ranks.
void stall(trace::Run& run, size_t steps, std::initializer_list<size_t> at, int64_t span_ns) {
  for (trace::Process& process : run.processes) {
    const size_t calls = process.ops.size() / steps;
    for (const size_t step : at) {
      for (size_t i = step * calls; i < process.ops.size(); ++i) {
        trace::Op& op = process.ops[i];
        for (int64_t* time :
             {&op.called_ns, &op.returned_ns, &op.started_ns, &op.finished_ns, &op.launched_ns}) {
          if (*time != 0) *time += span_ns;
        }
      }
    }
  }
}

TEST_CASE("what all ranks' stalls cost is not charged to the one rank that pauses") {
  timed::Case made = make_case(small(Family::one_pauses, 200));
  const Answer alone = slow::answer(made.timed.run);
  REQUIRE(alone.finding);
  stall(made.timed.run, 200, {50, 100, 150}, 200'000'000);
  const Answer answer = slow::answer(made.timed.run);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == analysis::Verdict::straggler);
  CHECK(answer.finding->gpus == alone.finding->gpus);
  CHECK(answer.finding->jitter.slow_steps > alone.finding->jitter.slow_steps);
  CHECK(std::abs(answer.finding->recovered_ns / alone.finding->recovered_ns - 1) < 0.1);
}

TEST_CASE("of slow steps in a short record it is told how many more would decide") {
  const Answer answer = slow::answer(make_case(small(Family::rotating_pauses, 40)).timed.run);
  CHECK_FALSE(answer.finding);
  REQUIRE_FALSE(answer.why_not.empty());
  CHECK(answer.why_not.back().find("100 steps with 5 slow ones would tell") != std::string::npos);
}

// Everything behind three quarters of the steps takes a share longer, 1 / `divisor`, on all ranks.
void slow_down(trace::Run& run, int64_t divisor) {
  for (trace::Process& process : run.processes) {
    const size_t from = process.ops.size() * 3 / 4;
    const int64_t bend_ns = process.ops[from].called_ns;
    for (trace::Op& op : process.ops) {
      for (int64_t* time :
           {&op.called_ns, &op.returned_ns, &op.started_ns, &op.finished_ns, &op.launched_ns}) {
        if (*time > bend_ns) *time += (*time - bend_ns) / divisor;
      }
    }
  }
}

TEST_CASE("a job that became slow as a whole on the way has no jitter") {
  timed::Case made = make_case(small(Family::clean, 160));
  slow_down(made.timed.run, 10);
  const Answer answer = slow::answer(made.timed.run);
  CHECK_FALSE(answer.finding);
  REQUIRE_FALSE(answer.shifts.empty());
  const Shift& change = answer.shifts.front();
  CHECK(change.what == ShiftOf::step);
  CHECK(change.step >= 119);
  CHECK(change.step <= 121);
  CHECK(std::abs(change.after_ns / change.before_ns - 1.1) < 0.01);
  for (const Shift& shift : answer.shifts) CHECK(shift.what != ShiftOf::transfer);
}

TEST_CASE("in a healthy job nothing changes over time, and it is told what would have been seen") {
  const Answer answer = slow::answer(make_case(small(Family::clean, 160)).timed.run);
  CHECK(answer.shifts.empty());
  CHECK(answer.smallest_shift >= kChangeMin);
  CHECK(answer.smallest_shift < 0.05);
}

}  // namespace jitter_test
}  // namespace rollcall::slow
