// What a damaged record may hold: anything the loader lets through.
#include <cmath>
#include <cstdint>
#include <string>

#include "slow/answer.h"
#include "slow/two_runs.h"
#include "tests/catch.h"
#include "tests/slow/timed_training.h"

namespace rollcall::slow {
namespace hostile_test {

class Scribbler {
 public:
  explicit Scribbler(uint64_t seed) : seed_(seed) {}

  void scribble(trace::Process& process) {
    if (process.ops.empty()) return;
    trace::Op& op = process.ops[pick(process.ops.size())];
    int64_t* const times[] = {&op.called_ns, &op.returned_ns, &op.launched_ns, &op.started_ns,
                              &op.finished_ns};
    const int64_t values[] = {0, 1, 4'000'000'000'000'000'000, op.called_ns,
                              op.started_ns + 7'000'000};
    *times[pick(5)] = values[pick(5)];
    switch (pick(6)) {
      case 0:
        op.kind = static_cast<OpKind>(pick(kOpKinds));
        break;
      case 1:
        op.seq += pick(3);
        break;
      case 2:
        op.group = static_cast<uint32_t>(pick(3));
        break;
      case 3:
        op.stream = pick(4);
        break;
      case 4:
        op.root_or_peer = static_cast<int32_t>(pick(6)) - 1;
        break;
      default:
        break;
    }
  }

  size_t pick(size_t below) {
    return static_cast<size_t>(timed::uniform(seed_, ++drawn_, 0, 0) * static_cast<double>(below));
  }

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

void scribble_over(trace::Run& run, uint64_t seed) {
  Scribbler scribbler(seed);
  for (uint64_t i = 0; i < uint64_t{1} << seed % 10; ++i) {
    scribbler.scribble(run.processes[scribbler.pick(run.processes.size())]);
  }
}

TEST_CASE("a damaged record is held against a whole one, with an answer of finite numbers") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    timed::Training training;
    training.family = timed::Family::gpu_slow;
    training.seed = seed;
    training.shape = {.dp = 4,
                      .tp = static_cast<int>(seed % 2) + 1,
                      .pp = static_cast<int>(seed % 3) + 1,
                      .layers = 2,
                      .microbatches = 1,
                      .steps = 40};
    const trace::Run whole = make_case(training).timed.run;
    trace::Run damaged = whole;
    scribble_over(damaged, seed);
    INFO("seed " << seed);
    for (const bool is_new : {false, true}) {
      const TwoRuns answer = is_new ? compare(whole, damaged) : compare(damaged, whole);
      CHECK(answer.has_parts == answer.why_not.empty());
      for (const Difference& one : answer.differences) CHECK(std::isfinite(one.share));
    }
  }
}

TEST_CASE("whatever a damaged record holds, there is an answer, of finite numbers") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    timed::Training training;
    training.family = timed::Family::gpu_slow;
    training.seed = seed;
    training.shape = {.dp = 4,
                      .tp = static_cast<int>(seed % 2) + 1,
                      .pp = static_cast<int>(seed % 3) + 1,
                      .layers = 2,
                      .microbatches = 1,
                      .steps = 40};
    timed::Case made = make_case(training);
    scribble_over(made.timed.run, seed);
    if (seed % 7 == 3) made.timed.run.processes.erase(made.timed.run.processes.begin() + 1);
    const Answer answer = slow::answer(made.timed.run);
    INFO("seed " << seed);
    CHECK(answer.variation >= 0);
    CHECK(answer.unexplained == answer.unexplained);
    CHECK((answer.finding.has_value() || !answer.is_compared || answer.step_ns > 0));
  }
}

}  // namespace hostile_test
}  // namespace rollcall::slow
