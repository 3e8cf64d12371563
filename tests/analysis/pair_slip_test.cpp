// Transfers of several sizes: who left one out, or made one of another size.
#include <utility>

#include "analysis/slips/other_side.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace pair_slip_test {

// Rank 0 sends several sizes to rank 1 in each step, in a group.
Program alternating(int steps, const std::vector<uint64_t>& counts = {2 * kLarge, kLarge}) {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks.resize(2);
  for (uint32_t step = 1; step <= static_cast<uint32_t>(steps); ++step) {
    for (const uint64_t count : counts) {
      program.ranks[0].push_back(call(OpKind::Send, count, 1, 0, step));
      program.ranks[1].push_back(call(OpKind::Recv, count, 0, 0, step));
    }
    for (Steps& own : program.ranks) own.push_back({.act = Act::sync});
  }
  return program;
}

// Where a rank's calls of the last step but one begin, in a program of equal steps.
size_t step_before_last(const Steps& own, int steps) {
  return own.size() / static_cast<size_t>(steps) * static_cast<size_t>(steps - 2);
}

TEST_CASE("of two sizes that were swapped, the side that swapped them is named, once") {
  for (const int who : {0, 1}) {
    Program program = alternating(4);
    Steps& steps = program.ranks[static_cast<size_t>(who)];
    std::swap(steps[steps.size() - 3].count, steps[steps.size() - 2].count);
    const Report report = analyse(execute(program, kLive).run);
    CHECK(check_blames(report, Verdict::p2p_mismatch, who).p2p_seq == 6);
    CHECK(report.findings.size() == 1);
  }
}

TEST_CASE("of two types that were swapped, the side that swapped them is named, once") {
  for (const int who : {0, 1}) {
    Program program = alternating(4);
    for (Steps& own : program.ranks) {
      for (Step& step : own) {
        if (step.act == Act::call && step.count == kLarge) step.datatype = 2;
        step.count = kLarge;
      }
    }
    Steps& steps = program.ranks[static_cast<size_t>(who)];
    std::swap(steps[steps.size() - 3].datatype, steps[steps.size() - 2].datatype);
    const Report report = analyse(execute(program, kLive).run);
    CHECK(check_blames(report, Verdict::p2p_mismatch, who).p2p_seq == 6);
    CHECK(report.findings.size() == 1);
  }
}

TEST_CASE("of two transfers without a group that changed places none is said to be left out") {
  Program program = alternating(4);
  for (Steps& own : program.ranks) {
    for (Step& step : own) {
      step.group = 0;
      step.count /= kLarge;  // small: a send does not wait for its receive
    }
    const Steps steps = std::exchange(own, {});
    for (size_t i = 0; i < steps.size(); ++i) {
      if (i % 3 == 0) own.push_back(call(OpKind::AllReduce, 5));
      own.push_back(steps[i]);
    }
  }
  Steps& own = program.ranks[0];
  const auto last = own.end() - 3;
  SECTION("they changed places") {
    std::swap(last[0].count, last[1].count);
    check_blames(analyse(execute(program, kLive).run), Verdict::p2p_mismatch, 0);
  }
  SECTION("the first was left out") {
    own.erase(own.end() - 7);
    const Report report = analyse(execute(program, kLive).run);
    check_blames(report, Verdict::p2p_unmatched, 0);
    CHECK(lead(report).summary.find("left out") != std::string::npos);
  }
}

TEST_CASE("one transfer of a size of three steps later is of a wrong size, not three left out") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks.resize(2);
  for (int step = 0; step < 8; ++step) {
    const uint64_t count = kLarge << (3 - step % 4);
    for (Steps& own : program.ranks) own.push_back(call(OpKind::AllReduce, 5));
    program.ranks[0].push_back(call(OpKind::Send, count, 1));
    program.ranks[1].push_back(call(OpKind::Recv, count, 0));
    for (Steps& own : program.ranks) own.push_back({.act = Act::sync});
  }
  Steps& steps = program.ranks[0];
  SECTION("of the wrong size") {
    steps[steps.size() - 2].count = 2 * kLarge;
    const Report report = analyse(execute(program, kLive).run);
    CHECK(check_blames(report, Verdict::p2p_mismatch, 0).p2p_seq == 7);
    CHECK(lead(report).summary.find("left out") == std::string::npos);
  }
  SECTION("one left out") {
    steps.erase(steps.end() - 5);
    const Report report = analyse(execute(program, kLive).run);
    check_blames(report, Verdict::p2p_unmatched, 0);
    CHECK(lead(report).summary.find("rank 0 left out a Send") == 0);
  }
}

TEST_CASE("sizes before a hole in the record lead nobody to expect what comes behind it") {
  Program program = alternating(5);
  Steps& steps = program.ranks[1];
  std::swap(steps[steps.size() - 3].count, steps[steps.size() - 2].count);
  Outcome outcome = execute(program, kLive);
  for (trace::Process& process : outcome.run.processes) {
    process.ops.erase(process.ops.begin() + 3);
  }
  check_blames(analyse(outcome.run), Verdict::p2p_mismatch, 1);
}

TEST_CASE("a transfer of two sizes that was left out is no wrong size") {
  for (const int who : {0, 1}) {
    for (const size_t which : {0u, 1u}) {
      Program program = alternating(5);
      Steps& own = program.ranks[static_cast<size_t>(who)];
      own.erase(own.begin() + static_cast<ptrdiff_t>(step_before_last(own, 5) + which));
      const Report report = analyse(execute(program, kLive).run);
      INFO(which);
      check_blames(report, Verdict::p2p_unmatched, who);
      CHECK(lead(report).confidence == Confidence::likely);
    }
  }
}

TEST_CASE("a transfer too many of one of three sizes is held against who made it") {
  for (const int who : {0, 1}) {
    Program program = alternating(5, {3 * kLarge, 2 * kLarge, kLarge});
    Steps& own = program.ranks[static_cast<size_t>(who)];
    const auto at = own.begin() + static_cast<ptrdiff_t>(step_before_last(own, 5));
    own.insert(at, Step(*(at + 1)));
    const Report report = analyse(execute(program, kLive).run);
    check_blames(report, Verdict::p2p_unmatched, who);
    CHECK(lead(report).summary.find("more than") != std::string::npos);
  }
}

TEST_CASE("a size that no step has is a wrong size, not a transfer left out") {
  for (const int who : {0, 1}) {
    Program program = alternating(5);
    Steps& own = program.ranks[static_cast<size_t>(who)];
    own[step_before_last(own, 5)].count += 1;
    check_blames(analyse(execute(program, kLive).run), Verdict::p2p_mismatch, who);
  }
}

// Each step: an AllReduce, and every rank exchanges with all others in a group, twice.
Program exchanging(int ranks, int steps) {
  Program program;
  sim::CommSpec world;
  for (int rank = 0; rank < ranks; ++rank) world.ranks.push_back(rank);
  program.comms = {world};
  program.ranks.resize(static_cast<size_t>(ranks));
  uint32_t group = 0;
  for (int step = 0; step < steps; ++step) {
    for (const bool is_first : {true, false}) {
      ++group;
      for (int rank = 0; rank < ranks; ++rank) {
        Steps& own = program.ranks[static_cast<size_t>(rank)];
        own.push_back(call(OpKind::AllReduce, is_first ? 8 : 16));
        for (int peer = 0; peer < ranks; ++peer) {
          if (peer == rank) continue;
          own.push_back(call(OpKind::Send, 64, peer, 0, group));
          own.push_back(call(OpKind::Recv, 64, peer, 0, group));
        }
      }
    }
    for (Steps& own : program.ranks) own.push_back({.act = Act::sync});
  }
  return program;
}

// Stages of four micro batches a step, and a collective behind them.
Program micro_batches(int steps) {
  constexpr int kStages = 3;
  Program program;
  program.comms = {{.ranks = {0, 1, 2}}};
  program.ranks.resize(kStages);
  for (int step = 0; step < steps; ++step) {
    for (int r = 0; r < kStages; ++r) {
      Steps& own = program.ranks[static_cast<size_t>(r)];
      for (int batch = 0; batch < 4; ++batch) {
        if (r != 0) own.push_back(call(OpKind::Recv, kLarge, r - 1));
        if (r != kStages - 1) own.push_back(call(OpKind::Send, kLarge, r + 1));
      }
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who makes a micro batch less in the second step is named, not its neighbours") {
  Program program = micro_batches(3);
  Steps& own = program.ranks[1];
  const auto batch = own.begin() + 10;  // the first of the second step
  own.erase(batch, batch + 2);
  check_blames(analyse(execute(program, kLive).run), Verdict::p2p_unmatched, 1);
}

// The calls of one of its exchanges in a step, behind the AllReduce.
std::pair<Steps::iterator, Steps::iterator> exchange_in(Steps& own, int ranks, int step,
                                                        bool is_first) {
  const int calls = 2 * (ranks - 1);
  const int begin = step * (2 * calls + 3) + (is_first ? 0 : calls + 1) + 1;
  return {own.begin() + begin, own.begin() + begin + calls};
}

TEST_CASE("who leaves out a whole exchange with many ranks is named") {
  for (const bool is_first : {true, false}) {
    constexpr int kRanks = 16;
    Program program = exchanging(kRanks, 4);
    const auto [begin, end] = exchange_in(program.ranks[5], kRanks, 2, is_first);
    program.ranks[5].erase(begin, end);
    const Report report = analyse(execute(program, kLive).run);
    check_blames(report, Verdict::p2p_unmatched, 5);
    CHECK(lead(report).summary.find("left out 30 calls") != std::string::npos);
    CHECK(lead(report).severity == Severity::hang);
  }
}

// A ring of four: each step a group with the neighbours, and one with all others.
Program rings_of_four(int steps) {
  constexpr int kRanks = 4;
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.resize(kRanks);
  uint32_t group = 0;
  for (int step = 0; step < steps; ++step, group += 2) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Steps& own = program.ranks[static_cast<size_t>(rank)];
      const int next = (rank + 1) % kRanks;
      const int previous = (rank + kRanks - 1) % kRanks;
      const int opposite = (rank + 2) % kRanks;
      for (const uint64_t count : {209u, 628u}) {
        own.push_back(call(OpKind::Send, count, next, 0, group + 1));
      }
      for (const uint64_t count : {209u, 628u}) {
        own.push_back(call(OpKind::Recv, count, previous, 0, group + 1));
      }
      own.push_back(call(OpKind::Send, 418, previous, 0, group + 1));
      own.push_back(call(OpKind::Recv, 418, next, 0, group + 1));
      own.push_back(call(OpKind::Send, 209, opposite, 0, group + 2));
      own.push_back(call(OpKind::Recv, 209, opposite, 0, group + 2));
      own.push_back(call(OpKind::Send, 418, next, 0, group + 2));
      own.push_back(call(OpKind::Recv, 836, next, 0, group + 2));
      own.push_back(call(OpKind::Send, 836, previous, 0, group + 2));
      own.push_back(call(OpKind::Recv, 418, previous, 0, group + 2));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who leaves out a group that begins as the next one does is named") {
  constexpr int kSteps = 5;
  Program program = rings_of_four(kSteps);
  Steps& own = program.ranks[2];
  const auto begin = own.begin() + static_cast<ptrdiff_t>(step_before_last(own, kSteps));
  own.erase(begin, begin + 6);
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::p2p_unmatched, 2);
  CAPTURE(text_of(report));
  CHECK(report.findings.size() == 1);
}

TEST_CASE("who leaves out a collective in front of an exchange with many ranks is named") {
  constexpr int kRanks = 16;
  Program program = exchanging(kRanks, 4);
  Steps& own = program.ranks[5];
  own.erase(exchange_in(own, kRanks, 2, true).first - 1);
  check_blames(analyse(execute(program, kLive).run), Verdict::missing_call, 5);
}

TEST_CASE("a call more behind an exchange with many ranks is held against who made it") {
  constexpr int kRanks = 16;
  Program program = exchanging(kRanks, 4);
  program.comms.push_back({.ranks = {5, 6}, .parent = 0});
  for (const size_t rank : {5u, 6u}) {
    Steps& own = program.ranks[rank];
    own.insert(own.begin(), call(OpKind::AllReduce, 32, -1, 1));
  }
  Steps& own = program.ranks[5];
  own.insert(exchange_in(own, kRanks, 2, true).second + 1, call(OpKind::AllReduce, 7777, -1, 1));
  check_blames(analyse(execute(program, kLive).run), Verdict::missing_call, 5);
}

// Each rank but the first receives from the one before, each but the last sends to the next.
Program pipeline(int ranks, uint64_t count) {
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    program.comms[0].ranks.push_back(r);
    Steps& own = program.ranks[static_cast<size_t>(r)];
    if (r != 0) own.push_back(call(OpKind::Recv, count, r - 1));
    if (r != ranks - 1) own.push_back(call(OpKind::Send, count, r + 1));
    own.push_back({.act = Act::sync});
  }
  return program;
}

TEST_CASE("a stage that disagrees with both neighbours is named, not they, who agree with all") {
  Program program = pipeline(6, kLarge);
  for (Step& step : program.ranks[3]) step.count /= 2;
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::p2p_mismatch, 3);
  CHECK(report.findings.size() == 1);
  CHECK(lead(report).summary.find("ranks 2,4 disagree about transfers with rank 3 alone") !=
        std::string::npos);
}

// Two steps of an exchange of each rank with each other, of a size that rank 1 mistakes.
TEST_CASE("a rank with whom all others disagree is named, each in its own way as they may") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.resize(4);
  const auto add_step = [&](uint32_t step, bool is_wrong) {
    for (int r = 0; r < 4; ++r) {
      Steps& own = program.ranks[static_cast<size_t>(r)];
      for (int peer = 0; peer < 4; ++peer) {
        const auto rows = [&](int from, int to) {
          return kLarge + static_cast<uint64_t>(100 * step + 10 * from + to);
        };
        const uint64_t stale = is_wrong && r == 1 && peer != 1 ? 100 : 0;
        own.push_back(call(OpKind::Send, rows(r, peer), peer, 0, step));
        own.push_back(call(OpKind::Recv, rows(peer, r) - stale, peer, 0, step));
      }
      own.push_back({.act = Act::sync});
    }
  };
  add_step(1, false);
  add_step(2, true);
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  check_blames(report, Verdict::p2p_mismatch, 1);
  CHECK(lead(report).summary.find("ranks 0,2-3 disagree about transfers with rank 1 alone") !=
        std::string::npos);
}

TEST_CASE("both sides of a transfer are named where either may be wrong") {
  Program program = pipeline(6, kLarge);
  SECTION("one transfer differs") { program.ranks[3][0].count /= 2; }
  SECTION("a stage's sends and the next one's differ") {
    program.ranks[2][1].count /= 2;
    program.ranks[3][1].count /= 2;
  }
  SECTION("both neighbours of a stage differ, each in its own way") {
    program.ranks[2][1].count /= 2;
    program.ranks[4][0].count /= 4;
  }
  const Report report = analyse(execute(program, kLive).run);
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
  CHECK(lead(report).culprits.size() == 2);
}

// Three exchanges of four ranks in which each sends `sizes[from][to]` to each; `odd` expects from
// rank 1 what it did in the exchanges before.
using Sizes = std::vector<std::vector<uint64_t>>;
Program make_exchanges(const Sizes& usual, const Sizes& last, int odd) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (uint32_t step = 1; step <= 4; ++step) {
      const Sizes& sizes = step < 4 ? usual : last;
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == r) continue;
        const auto from = static_cast<size_t>(peer);
        const auto to = static_cast<size_t>(r);
        const bool is_old = step == 4 && r == odd && peer == 1;
        steps.push_back(call(OpKind::Send, sizes[to][from], peer, 0, step));
        steps.push_back(call(OpKind::Recv, (is_old ? usual : sizes)[from][to], peer, 0, step));
      }
      steps.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who stays with the old size is named where others go along with the new ones") {
  Sizes usual(4, std::vector<uint64_t>(4, 100));
  Sizes last = usual;
  last[1] = {150, 0, 130, 170};
  const Report report = analyse(execute(make_exchanges(usual, last, 2), kLive).run);
  check_blames(report, Verdict::p2p_mismatch, 2);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).summary.find("rank 1 sent 130 float32 to rank 2, which expects 100 float32") !=
        std::string::npos);
  CHECK(lead(report).summary.find("rank 1 agrees with ranks 0,3") != std::string::npos);
  SECTION("a size of one transfer alone is its sender's") {
    Sizes one = usual;
    one[1][2] = 130;
    check_blames(analyse(execute(make_exchanges(usual, one, 2), kLive).run), Verdict::p2p_mismatch,
                 1);
  }
}

TEST_CASE("two transfers of one exchange that two ranks call in another order are told as that") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks.resize(2);
  for (uint32_t step = 1; step <= 3; ++step) {
    const uint64_t first = step < 3 ? 4096 : 5120;
    const uint64_t second = step < 3 ? 4096 : 3072;
    program.ranks[0].push_back(call(OpKind::Send, first, 1, 0, step));
    program.ranks[0].push_back(call(OpKind::Send, second, 1, 0, step));
    program.ranks[1].push_back(call(OpKind::Recv, second, 0, 0, step));
    program.ranks[1].push_back(call(OpKind::Recv, first, 0, 0, step));
    for (Steps& steps : program.ranks) steps.push_back({.act = Act::sync});
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
  CHECK(lead(report).summary.find("the two ranks call the two in another order") !=
        std::string::npos);
  CHECK(lead(report).next.find("into one order") != std::string::npos);
  CHECK(lead(report).misstep == Misstep::reordered);
}

TEST_CASE("where sizes are new in every step one that is not accuses nobody") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2}}};
  constexpr uint32_t kSteps = 8;
  for (int r = 0; r < 3; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (uint32_t step = 1; step <= kSteps; ++step) {
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == r) continue;
        const auto size = [&](int from, int to) -> uint64_t {
          // By chance rank 1 has sent as much to rank 2 in the first step.
          const bool is_again = step == kSteps && from == 1 && to == 2;
          return kLarge + (is_again ? 1 : step);
        };
        const bool is_wrong = step == kSteps && r == 1 && peer == 2;
        own.push_back(call(OpKind::Send, size(r, peer) + (is_wrong ? 100 : 0), peer, 0, step));
        own.push_back(call(OpKind::Recv, size(peer, r), peer, 0, step));
      }
      own.push_back({.act = Act::sync});
    }
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
  REQUIRE(lead(report).culprits.size() == 2);
  CHECK(lead(report).culprits[0].rank == 1);
  CHECK(lead(report).culprits[1].rank == 2);
  CHECK(text_of(report).find("agrees with rank 0") == std::string::npos);
}

// Each of four ranks has something for each other one in every exchange, of sizes that no exchange
// before had; two exchanges a step, then a sum. Rank `odd` makes the fifth one twice, or not.
Program make_new_splits(int odd, bool twice) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int exchange = 0; exchange < 8; ++exchange) {
      const bool is_odd = r == odd && exchange == 4;
      for (int time = is_odd && !twice ? 1 : 0; time < (is_odd && twice ? 2 : 1); ++time) {
        const auto group = static_cast<uint32_t>(1 + exchange + 100 * time);
        for (int peer = 0; peer < 4; ++peer) {
          const auto size = [&](int from, int to) {
            const int elements = 100 * exchange + 10 * from + to + 1;
            return static_cast<uint64_t>(elements);
          };
          if (peer == r) continue;
          own.push_back(call(OpKind::Send, size(r, peer), peer, 0, group));
          own.push_back(call(OpKind::Recv, size(peer, r), peer, 0, group));
        }
      }
      if (exchange % 2 == 0) continue;
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who repeats an exchange with many ranks is named, not one of those that agree") {
  for (const int odd : {0, 2, 3}) {
    CAPTURE(odd);
    const Report more = analyse(execute(make_new_splits(odd, true), kLive).run);
    check_blames(more, Verdict::p2p_unmatched, odd);
    CHECK(lead(more).misstep == Misstep::made_more);
    CHECK(lead(more).summary.find(fmt::format("disagree about transfers with rank {} alone",
                                              odd)) != std::string::npos);
    CHECK(lead(more).summary.find("than its own steps before") == std::string::npos);
    const Report less = analyse(execute(make_new_splits(odd, false), kLive).run);
    check_blames(less, Verdict::p2p_unmatched, odd);
    CHECK(lead(less).misstep == Misstep::left_out);
  }
}

}  // namespace pair_slip_test
}  // namespace rollcall::analysis
