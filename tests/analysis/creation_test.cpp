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

// So many ranks, each of which waits in a communicator of a pair that it makes with the next one:
// PyTorch does so at the first send, and gives it the name of the communicator of all. These ranks
// make none.
Outcome pairs_of_a_ring(int ranks, bool has_world, const std::vector<int>& without = {}) {
  Program program = of_ranks(ranks);
  Outcome outcome = execute(program, kLive);
  for (trace::Process& process : outcome.run.processes) {
    const int rank = process.job_rank;
    process.comms[0].name = "default_pg:0";
    process.meta["world_size"] = std::to_string(ranks);
    trace::Comm pair = process.comms[0];
    if (!has_world) process.comms.clear();
    if (std::count(without.begin(), without.end(), rank) != 0) continue;
    const int peer = (rank + 1) % ranks;
    pair.key = {static_cast<uint64_t>(100 + rank), 7};
    pair.nranks = 2;
    pair.rank = rank < peer ? 0 : 1;
    pair.state = CommState::initialising;
    pair.created_ns = outcome.run.processes[0].heartbeat_ns - 60'000'000'000;
    pair.ended_ns = 0;
    process.comms.push_back(pair);
  }
  return outcome;
}

TEST_CASE("pairs that ranks make in a circle are told as that, and nobody as without a file") {
  for (const bool has_world : {true, false}) {
    for (const int ranks : {3, 4, 8}) {
      CAPTURE(has_world, ranks);
      const Report report = analyse(pairs_of_a_ring(ranks, has_world).run);
      INFO(text_of(report));
      REQUIRE(report.findings.size() == 1);
      CHECK(lead(report).verdict == Verdict::init_incomplete);
      CHECK(lead(report).confidence == Confidence::likely);
      CHECK(lead(report).culprits.size() == static_cast<size_t>(ranks));
      CHECK(lead(report).summary.find("each wait in the creation of a communicator of 2 ranks") !=
            std::string::npos);
      CHECK(lead(report).summary.find("circle") != std::string::npos);
      CHECK(lead(report).summary.find("no file") == std::string::npos);
      CHECK(lead(report).summary.find("default_pg") == std::string::npos);
    }
  }
}

TEST_CASE("who is in no call where others make pairs may wait for one, and is not blamed alone") {
  const Report report = analyse(pairs_of_a_ring(4, true, {3}).run);
  check_names(report, Verdict::init_incomplete, {0, 1, 2, 3});
  CHECK(lead(report).summary.find("rank 3 is in no NCCL call: it joined none, or itself waits") !=
        std::string::npos);
}

}  // namespace
}  // namespace rollcall::analysis
