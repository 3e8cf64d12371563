// A launcher ends the other ranks as soon as it has lost one.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace first_death_test {

constexpr int kRanks = 4;
constexpr int kOdd = 2;
constexpr int64_t kMs = 1'000'000;

// All were killed, in the order of these milliseconds behind the last call. Rank 2 made `calls`
// calls, the others two.
Report judge_killed(const std::vector<int64_t>& ends_ms, size_t calls = 1) {
  Program program;
  program.comms.push_back({.ranks = {0, 1, 2, 3}});
  for (int r = 0; r < kRanks; ++r) {
    Steps steps(r == kOdd ? calls : 2, call(OpKind::AllReduce, 8));
    program.ranks.push_back(std::move(steps));
  }
  Outcome outcome = execute(program);
  int64_t last_ns = 0;
  for (const trace::Process& process : outcome.run.processes) {
    for (const trace::Op& op : process.ops) last_ns = std::max(last_ns, op.called_ns);
  }
  for (size_t r = 0; r < kRanks; ++r) {
    trace::Process& process = outcome.run.processes[r];
    process.exited_ns = 0;
    process.liveness = trace::Liveness::dead;
    process.heartbeat_ns = last_ns + ends_ms[r] * kMs;
    for (trace::Comm& comm : process.comms) {
      comm.state = CommState::ready;
      comm.ended_ns = 0;
    }
  }
  return analyse(outcome.run);
}

TEST_CASE("who died a moment before the others, and is behind them, is dead, and not all is well") {
  const Report report = judge_killed({60, 66, 5, 61});
  check_blames(report, Verdict::rank_dead, kOdd);
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(report.status == 1);
}

TEST_CASE("a job that was killed as a whole is in lockstep whoever ended first") {
  // Within three heartbeats; behind nobody; the others did not end together; one that is ahead.
  CHECK(lead(judge_killed({25, 26, 5, 27})).verdict == Verdict::in_lockstep);
  CHECK(lead(judge_killed({60, 66, 5, 61}, 2)).verdict == Verdict::in_lockstep);
  CHECK(lead(judge_killed({60, 160, 5, 61})).verdict == Verdict::in_lockstep);
  CHECK(lead(judge_killed({5, 66, 60, 61})).verdict == Verdict::in_lockstep);
}

TEST_CASE("who was silent for long and then killed first has missed a call, and may have died") {
  const Report report = judge_killed({20'060, 20'066, 20'000, 20'061});
  check_blames(report, Verdict::missing_call, kOdd);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).summary.find("was killed 60 ms before all others") != std::string::npos);
  CHECK(lead(report).next.find("dmesg") != std::string::npos);
}

TEST_CASE("who was silent for long and killed with the others has missed a call") {
  const Report report = judge_killed({20'010, 20'012, 20'000, 20'011});
  check_blames(report, Verdict::missing_call, kOdd);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(lead(report).summary.find("before all others") == std::string::npos);
}

}  // namespace first_death_test
}  // namespace rollcall::analysis
