// Ranks that launch their CUDA graphs otherwise than all others.
#include <algorithm>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace launch_order_test {

constexpr sim::ClusterOptions kWatched{.stall_ns = 60'000'000'000, .live = false, .watched = true};
constexpr int kOdd = 2;
constexpr int kPairs = 1;  // the first of them

Step captured(Step step, uint32_t graph) {
  step.graph = graph;
  return step;
}

Step replay(uint32_t graph) { return {.act = Act::replay, .graph = graph}; }

bool is_replay(const Step& step) { return step.act == Act::replay; }

// Four ranks, and the pairs 0,1 and 2,3.
Program make_pairs() {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}},
                   {.ranks = {0, 1}, .parent = 0},
                   {.ranks = {2, 3}, .parent = 0, .colour = 1}};
  program.ranks.resize(4);
  return program;
}

// In each pair one graph holds a transfer, and a second one another of another size: both are
// replayed in every step.
Program make_two_graphs() {
  Program program = make_pairs();
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    const OpKind kind = r % 2 == 0 ? OpKind::Send : OpKind::Recv;
    for (const uint32_t graph : {1u, 2u}) {
      own.push_back(captured(call(kind, 8 * graph, 1 - r % 2, kPairs + r / 2), graph));
    }
    for (int step = 0; step < 3; ++step) {
      own.insert(own.end(), {replay(1), replay(2), call(OpKind::AllReduce, 4), {.act = Act::sync}});
    }
  }
  return program;
}

// From the first replay of a rank on.
Steps::iterator first_replay(Program& program, int rank) {
  Steps& own = program.ranks[static_cast<size_t>(rank)];
  return std::find_if(own.begin(), own.end(), is_replay);
}

TEST_CASE("who launches two graphs in another order than all others is named, not its peer") {
  Program program = make_two_graphs();
  const auto first = first_replay(program, kOdd);
  std::iter_swap(first, first + 1);
  const Report report = analyse(execute(program, kWatched).run, {});
  check_blames(report, Verdict::graph_diverged, kOdd);
  CHECK(lead(report).misstep == Misstep::reordered);
}

TEST_CASE("of two and two ranks that launch two graphs in two orders none is said to be odd") {
  Program program = make_two_graphs();
  for (const int r : {0, kOdd}) {
    const auto first = first_replay(program, r);
    std::iter_swap(first, first + 1);
  }
  const Report report = analyse(execute(program, kWatched).run, {});
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
}

// A graph of two groups of transfers, with all others and along a pipeline, behind a call of all
// whose size changes.
Program make_exchange() {
  Program program = make_pairs();
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    const auto transfer = [&](OpKind kind, uint64_t count, int peer, uint32_t group) {
      if (peer < 0 || peer == r || peer > 3) return;
      own.push_back(captured(call(kind, count, peer, 0, group), 1));
    };
    for (int peer = 0; peer < 4; ++peer) {
      transfer(OpKind::Send, 8, peer, 1);
      transfer(OpKind::Recv, 8, peer, 1);
    }
    transfer(OpKind::Send, 16, r + 1, 2);
    transfer(OpKind::Recv, 16, r - 1, 2);
    for (uint64_t step = 0; step < 3; ++step) {
      own.insert(own.end(), {call(OpKind::AllReduce, 4 + 7 * step), replay(1), {.act = Act::sync}});
    }
  }
  return program;
}

TEST_CASE("who leaves out a replay is named, not those who wait in it for each other") {
  Program program = make_exchange();
  program.ranks[kOdd].erase(first_replay(program, kOdd));
  const Report report = analyse(execute(program, kWatched).run, {});
  check_blames(report, Verdict::graph_diverged, kOdd);
  CHECK(lead(report).misstep == Misstep::left_out);
}

}  // namespace launch_order_test
}  // namespace rollcall::analysis
