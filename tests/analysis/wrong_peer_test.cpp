// One transfer with the wrong peer, in the first step.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace wrong_peer_test {

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

// The rank sends to, or receives from, the one opposite in place of its neighbour.
Report judge_wrong_peer(int rank, OpKind kind) {
  Program program = make_ring();
  Step& transfer = program.ranks[static_cast<size_t>(rank)][kind == OpKind::Send ? 0 : 1];
  REQUIRE(transfer.kind == kind);
  transfer.root_or_peer = (rank + kRanks / 2) % kRanks;
  return judge(program);
}

// Which of its two halves, the one that it made or the one that it left out, depends on whose wait
// is judged first.
void check_names_each(OpKind kind) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const Report report = judge_wrong_peer(rank, kind);
    CHECK(check_blames(report, Verdict::p2p_unmatched, rank).op == name_of(kind));
  }
}

TEST_CASE("who sends to one rank what another one awaits is named, not the rank that gets it") {
  check_names_each(OpKind::Send);
  const Report report = judge_wrong_peer(2, OpKind::Send);
  CHECK(lead(report).culprits.front().peer == 0);
  CHECK(lead(report).misstep == Misstep::other_peer);
  CHECK(lead(report).summary.find("rank 3 has been waiting") != std::string::npos);
}

TEST_CASE("who awaits from one rank what another one sends it is named") {
  check_names_each(OpKind::Recv);
  const Report report = judge_wrong_peer(0, OpKind::Recv);
  CHECK(lead(report).culprits.front().peer == 2);
  CHECK(lead(report).summary.find("rank 3 has been in a send") != std::string::npos);
}

TEST_CASE("who leaves a receive out is named where nobody misses what was sent to it") {
  Program program = make_ring();
  program.ranks[0].erase(program.ranks[0].begin() + 1);
  const Report report = judge(program);
  CHECK(check_blames(report, Verdict::p2p_unmatched, 0).op == "Recv");
  CHECK(lead(report).misstep == Misstep::left_out);
}

}  // namespace wrong_peer_test
}  // namespace rollcall::analysis
