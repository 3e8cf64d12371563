// Communicators that never come to be, because ranks do not join.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace {

// Ranks that make their communicator, and no call.
Program of_ranks(int ranks) {
  Program program;
  program.comms.emplace_back();
  for (int r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(r);
  program.ranks.resize(static_cast<size_t>(ranks));
  return program;
}

TEST_CASE("a rank that never joins leaves the others' communicator incomplete") {
  for (const int ranks : {2, 4, 16}) {
    Outcome outcome = execute(of_ranks(ranks));
    outcome.run.processes.pop_back();
    for (trace::Process& process : outcome.run.processes) {
      process.ops.clear();
      process.comms[0].state = CommState::initialising;
      process.comms[0].collectives = 0;
      process.exited_ns = 0;
      process.liveness = trace::Liveness::dead;
      process.heartbeat_ns = process.comms[0].created_ns + 60'000'000'000;
    }
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::init_incomplete, ranks - 1);
    CHECK(lead(report).confidence == Confidence::likely);
  }
}

TEST_CASE("many ranks that never join are told from those that left no file") {
  constexpr int kRanks = 4'000;
  constexpr int kCallers = 1'000;
  Outcome outcome = execute(of_ranks(kRanks), kLive);
  outcome.run.processes.pop_back();
  for (trace::Process& process : outcome.run.processes) {
    process.comms[0].state = CommState::initialising;
    if (process.job_rank >= kCallers) process.comms.clear();
  }
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::init_incomplete);
  CHECK(lead(report).culprits.size() == kRanks - 1 - kCallers);
  CHECK(lead(report).culprits.front().op == "CommInitRank");
  CHECK_FALSE(lead(report).culprits.front().seq);
}

}  // namespace
}  // namespace rollcall::analysis
