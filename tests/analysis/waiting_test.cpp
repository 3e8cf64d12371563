// Who waits, in what and for whom; and waits that are too young for a verdict.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace waiting_test {

// Three steps of Broadcast, AllReduce, Reduce on one communicator; 9 collectives.
Program make_job(int ranks) {
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    program.comms[0].ranks.push_back(r);
    for (int step = 0; step < 3; ++step) {
      auto& steps = program.ranks[static_cast<size_t>(r)];
      steps.push_back(call(OpKind::Broadcast, 8, 0));
      steps.push_back(call(OpKind::AllReduce, 100));
      steps.push_back(call(OpKind::Reduce, 3, 0));
      steps.push_back({.act = Act::sync});
    }
  }
  return program;
}
constexpr size_t kSecondAllReduce = 5;  // index of the step; seq 4

TEST_CASE("a running job is not judged before its threshold") {
  Program program = make_job(8);
  program.ranks[5].insert(program.ranks[5].begin() + kSecondAllReduce, Step{.act = Act::stick});
  const Outcome outcome = execute(program, {.stall_ns = 10'000'000'000, .live = true});
  CHECK(lead(analyse(outcome.run)).verdict == Verdict::waiting);
  CHECK(lead(analyse(outcome.run, {.live_threshold_ns = 5'000'000'000})).verdict ==
        Verdict::missing_call);
}

TEST_CASE("who waits for a rank on another communicator is told with the call, and is no finding") {
  Program program = make_job(4);
  program.comms.push_back({.ranks = {0, 1}, .parent = 0});
  program.comms.push_back({.ranks = {2, 3}, .parent = 0});
  // Rank 3 never calls on the second pair; rank 2 waits there, and the world waits for both.
  for (int r = 0; r < 4; ++r) {
    auto& steps = program.ranks[static_cast<size_t>(r)];
    if (r == 3) steps.push_back({.act = Act::stick});
    steps.push_back(call(OpKind::AllReduce, 8, -1, r < 2 ? 1 : 2));
    steps.push_back({.act = Act::sync});
    steps.push_back(call(OpKind::AllReduce, 9));
    steps.push_back({.act = Act::sync});
  }
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).culprits.at(0).rank == 3);
  CHECK(lead(report).consequences.empty());
  CHECK(lead(report).waits_left_out == 0);
  REQUIRE(lead(report).waits.size() == 1);
  const Wait& wait = lead(report).waits[0];
  CHECK(wait.ranks == std::vector<int32_t>{0, 1});
  CHECK(wait.comm_name == "world");
  CHECK(wait.seq == 9u);
  CHECK(wait.call.find("AllReduce of 9 float32") != std::string::npos);
  CHECK(wait.text.find("ranks 0-1 waited in AllReduce of 9") != std::string::npos);
}

TEST_CASE("a wait too young for a verdict is told as one, accuses nobody, and shows the ranks") {
  Program program = make_job(8);
  program.ranks[5].insert(program.ranks[5].begin() + kSecondAllReduce, Step{.act = Act::stick});
  const Report young = analyse(execute(program, {.stall_ns = 10'000'000'000, .live = true}).run);
  REQUIRE(young.findings.size() == 1);
  CHECK(young.status == 3);
  CHECK(lead(young).verdict == Verdict::waiting);
  CHECK(lead(young).severity == Severity::info);
  CHECK(lead(young).confidence == Confidence::open);
  CHECK(lead(young).culprits.empty());
  CHECK(lead(young).victims == std::vector<int32_t>{0, 1, 2, 3, 4, 6, 7});
  CHECK_FALSE(lead(young).evidence.empty());
  CHECK(lead(young).summary.find("RC-MISSING-CALL: rank 5") != std::string::npos);
  CHECK_FALSE(young.table.empty());
  // Half a second is nothing to speak of.
  const Report fresh = analyse(execute(program, {.stall_ns = 500'000'000, .live = true}).run);
  CHECK(lead(fresh).verdict == Verdict::in_lockstep);
  CHECK(fresh.status == 0);
  CHECK(lead(fresh).summary.find("RC-MISSING-CALL") == std::string::npos);
}

}  // namespace waiting_test
}  // namespace rollcall::analysis
