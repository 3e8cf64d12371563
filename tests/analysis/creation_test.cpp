// Communicators that never come to be, because ranks do not join.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace creation_test {

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

TEST_CASE("who stands inside the creation of one pair is not said to be in no call") {
  // Ranks 1 and 2 each wait for the lower one of a pair; by its number there that of rank 1 is 0.
  Outcome outcome = pairs_of_a_ring(4, true, {0, 3});
  for (const size_t r : {size_t{1}, size_t{2}}) {
    trace::Process& process = outcome.run.processes[r];
    process.comms.back().rank = 1;
    trace::Event join{.kind = EventKind::CommInitRank, .text = ""};
    join.comm = static_cast<uint32_t>(process.comms.size() - 1);
    join.called_ns = process.comms.back().created_ns;
    join.result = kResultUnknown;
    process.events.push_back(join);
  }
  const std::string text = text_of(analyse(outcome.run));
  INFO(text);
  CHECK(text.find("rank 2 waits in the creation of a communicator of 2 ranks") !=
        std::string::npos);
  CHECK(text.find("rank 1 is in no NCCL call") == std::string::npos);
  CHECK(text.find("ranks 0-1,3 are in no NCCL call") == std::string::npos);
  // Rank 3 cannot be the lower one.
  CHECK(text.find("rank 0 is in no NCCL call") != std::string::npos);
}

// Four ranks, of which the first `callers` make a split of the communicator of all behind some
// steps; the others go on with the next step. `creating`: those do nothing else but another split.
Report split_by_some(int callers, bool creating = false) {
  Program program = of_ranks(4);
  for (const uint32_t child : {0u, 1u}) {
    program.comms.push_back(
        {.ranks = {0, 1, 2, 3}, .parent = 0, .child_number = child, .is_late = true});
  }
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    for (int step = 0; step < 3; ++step) {
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
    if (r < callers) own.push_back({.act = Act::create, .comm = 1});
    if (r >= callers && creating) own.push_back({.act = Act::create, .comm = 2});
    own.push_back(call(OpKind::AllReduce, 8));
    own.push_back({.act = Act::sync});
  }
  return analyse(execute(program, kLive).run);
}

TEST_CASE("where as many make a split as do not, nobody is blamed alone for it") {
  for (const bool creating : {false, true}) {
    CAPTURE(creating);
    const Report report = split_by_some(2, creating);
    check_names(report, Verdict::split_mismatch, {0, 1, 2, 3});
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK_FALSE(lead(report).misstep);
    CHECK(lead(report).summary.starts_with("ranks 0-1 have been in split 0 of world for "));
    CHECK(lead(report).summary.find("nothing on file tells whether ranks 2-3 left the creation "
                                    "out, or ranks 0-1 made it alone") != std::string::npos);
    CHECK(lead(report).next.find("code paths of rank 0 and rank 2") != std::string::npos);
  }
  const std::string summary = lead(split_by_some(2)).summary;
  CHECK(summary.find("ranks 2-3 wait elsewhere, in AllReduce of 8") != std::string::npos);
}

TEST_CASE("of a split that most make the others are blamed, and of one that few make these") {
  const Report most = split_by_some(3);
  check_blames(most, Verdict::split_mismatch, 3);
  CHECK(lead(most).confidence == Confidence::certain);
  CHECK(lead(most).summary.find("went on without") != std::string::npos);
  check_blames(split_by_some(1), Verdict::missing_call, 0);
}

}  // namespace creation_test
}  // namespace rollcall::analysis
