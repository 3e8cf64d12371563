// One transfer with the wrong peer, in the first step.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace {

constexpr int kRanks = 4;

// Each rank sends to the next and receives from the one before, in one group; then all meet.
Program make_ring() {
  Program program;
  program.comms.push_back({.ranks = {0, 1, 2, 3}});
  for (int r = 0; r < kRanks; ++r) {
    program.ranks.push_back({call(OpKind::Send, kLarge, (r + 1) % kRanks, 0, 1),
                             call(OpKind::Recv, kLarge, (r + kRanks - 1) % kRanks, 0, 1),
                             call(OpKind::AllReduce, 1)});
  }
  return program;
}

Report judge(const Program& program) { return analyse(execute(program, kLive).run); }

TEST_CASE("who sends to one rank what another one awaits is named, not the rank that gets it") {
  Program program = make_ring();
  program.ranks[2][0].root_or_peer = 0;
  const Report report = judge(program);
  const Culprit& culprit = check_blames(report, Verdict::p2p_unmatched, 2);
  CHECK(culprit.op == "Send");
  CHECK(culprit.peer == 0);
  CHECK(lead(report).summary.find("rank 3 has been waiting") != std::string::npos);
}

TEST_CASE("who awaits from one rank what another one sends it is named") {
  Program program = make_ring();
  program.ranks[2][1].root_or_peer = 0;
  const Report report = judge(program);
  const Culprit& culprit = check_blames(report, Verdict::p2p_unmatched, 2);
  CHECK(culprit.op == "Recv");
}

TEST_CASE("who leaves a receive out is named where nobody misses what was sent to it") {
  Program program = make_ring();
  program.ranks[0].erase(program.ranks[0].begin() + 1);
  CHECK(check_blames(judge(program), Verdict::p2p_unmatched, 0).op == "Recv");
}

}  // namespace
}  // namespace rollcall::analysis
