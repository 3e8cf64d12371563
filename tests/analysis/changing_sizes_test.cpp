// Jobs whose calls are of another size in every step.
#include "analysis/record/changing_sizes.h"

#include <algorithm>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace changing_sizes_test {

// One rank that calls AllReduces of these sizes, asked about the last of them.
bool changes(const std::vector<uint64_t>& counts) {
  Program program;
  program.comms = {{.ranks = {0}}};
  program.ranks.resize(1);
  for (const uint64_t count : counts) program.ranks[0].push_back(call(OpKind::AllReduce, count));
  const Outcome outcome = execute(program);
  const Index index(outcome.run);
  return ChangingSizes(index).changes(0, outcome.run.processes[0].ops.back());
}

TEST_CASE("sizes that come again in later steps do not change, however many there are") {
  CHECK_FALSE(changes({16, 16, 16}));
  CHECK_FALSE(changes({1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  CHECK_FALSE(changes({1, 2, 3, 4, 5, 6, 1, 2, 3}));
}

TEST_CASE("sizes that do not come again change, also where a step has each of them twice") {
  CHECK(changes({16, 17, 18}));
  CHECK(changes({1, 2, 2, 1, 3, 4, 4, 3, 5, 6, 6, 5, 7, 8, 8, 7}));
  // Now and then two steps are of one size.
  CHECK(changes({1, 2, 3, 4, 5, 6, 2, 7, 8, 9}));
}

TEST_CASE("calls of a step that have one size are no repetition, and one odd size is no change") {
  CHECK(changes({10, 10, 11, 11, 11, 12}));
  CHECK_FALSE(changes({10, 10, 10, 10, 11, 12}));
  CHECK_FALSE(changes({10, 10, 10, 10, 11, 10, 10}));
}

TEST_CASE("of one call nobody knows, and two are like all others") {
  CHECK_FALSE(changes({16}));
  Program program;
  program.comms = {{.ranks = {0}}};
  program.ranks = {{call(OpKind::AllReduce, 1), call(OpKind::AllGather, 5),
                    call(OpKind::AllReduce, 2), call(OpKind::AllGather, 5),
                    call(OpKind::AllGather, 5), call(OpKind::AllGather, 5)}};
  const Outcome outcome = execute(program);
  const Index index(outcome.run);
  CHECK_FALSE(ChangingSizes(index).changes(0, outcome.run.processes[0].ops.front()));
}

// Two ranks: a call of a second communicator, one of the first, and again one of the second.
Program steps_of_two(int steps) {
  Program program;
  program.comms = {{.ranks = {0, 1}}, {.ranks = {0, 1}, .parent = 0}};
  program.ranks.resize(2);
  for (Steps& own : program.ranks) {
    for (int step = 0; step < steps; ++step) {
      const auto longer = static_cast<uint64_t>(step) * 7;
      own.push_back(call(OpKind::AllReduce, 16 + longer, -1, 1));
      own.push_back(call(OpKind::AllGather, 8 + longer));
      own.push_back(call(OpKind::Broadcast, 100 + longer, 0, 1));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who leaves a call out is named where no call has the size of one before") {
  Program program = steps_of_two(4);
  Steps& culprit = program.ranks[1];
  culprit.erase(culprit.end() - 3);
  const Report report = analyse(execute(program, kLive).run);
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 3);
}

TEST_CASE("who makes a call that no step had is named where no call has the size of one before") {
  Program program = steps_of_two(4);
  Steps& culprit = program.ranks[1];
  culprit.insert(culprit.end() - 2, call(OpKind::ReduceScatter, 77));
  culprit.insert(culprit.end() - 2, {.act = Act::sync});
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::missing_call, 1);
  CHECK(lead(report).summary.find("one call more") != std::string::npos);
}

// A batch of activations to the next stage, of which some are three times as large, and one of
// gradients back.
void exchange(Program& program, uint64_t size, uint32_t group, int comm, uint32_t graph = 0) {
  const auto stages = static_cast<int>(program.ranks.size());
  for (int r = 0; r < stages; ++r) {
    const auto add = [&](OpKind kind, uint64_t count, int peer) {
      if (peer < 0 || peer == stages) return;
      Steps& own = program.ranks[static_cast<size_t>(r)];
      own.push_back(call(kind, count, peer, comm, group));
      own.back().graph = graph;
      own.back().stream = comm;
      own.back().joins = comm != 0;
    };
    for (const uint64_t count : {size, 3 * size}) add(OpKind::Send, count, r + 1);
    for (const uint64_t count : {size, 3 * size}) add(OpKind::Recv, count, r - 1);
    add(OpKind::Send, 2 * size, r - 1);
    add(OpKind::Recv, 2 * size, r + 1);
  }
}

TEST_CASE("who leaves a receive out is named, though the steps before look like one more there") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2, 3}, .parent = 0}};
  program.ranks.resize(4);
  uint32_t group = 0;
  for (const uint64_t size : {241u, 113u}) exchange(program, size, ++group, 0, 1);
  size_t second_step = 0;  // where it begins on rank 2
  for (uint64_t step = 0; step < 4; ++step) {
    if (step == 1) second_step = program.ranks[2].size();
    for (Steps& steps : program.ranks) steps.push_back({.act = Act::replay, .graph = 1});
    // Of every rank with all others.
    ++group;
    for (int r = 0; r < 4; ++r) {
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == r) continue;
        const auto factor = static_cast<uint64_t>(1 + (peer - r + 4) % 4);
        const auto back = static_cast<uint64_t>(1 + (r - peer + 4) % 4);
        Steps& own = program.ranks[static_cast<size_t>(r)];
        own.push_back(call(OpKind::Send, (377 + 7 * step) * factor, peer, 1, group));
        own.push_back(call(OpKind::Recv, (377 + 7 * step) * back, peer, 1, group));
      }
    }
    exchange(program, 489 + 7 * step, ++group, 1);
    exchange(program, 297 + 7 * step, ++group, 0);
    for (Steps& steps : program.ranks) {
      steps.push_back(call(OpKind::Broadcast, 641 + 7 * step, 2));
      steps.push_back({.act = Act::sync});
    }
  }
  Steps& own = program.ranks[2];
  const auto left_out = own.begin() + static_cast<ptrdiff_t>(second_step + 1 + 6 + 6 + 2);
  REQUIRE(left_out->kind == OpKind::Recv);
  own.erase(left_out);
  check_blames(analyse(execute(program, {.watched = true}).run), Verdict::p2p_unmatched, 2);
}

TEST_CASE("of two sizes that differ nobody says which is wrong where sizes change") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks.resize(2);
  for (size_t r = 0; r < 2; ++r) {
    for (uint64_t step = 0; step < 6; ++step) {
      const bool is_wrong = r == 0 && step == 4;
      const uint64_t count = kLarge + step * 7 + (is_wrong ? 1 : 0);
      program.ranks[r].push_back(call(r == 0 ? OpKind::Send : OpKind::Recv, count, r == 0 ? 1 : 0));
      program.ranks[r].push_back({.act = Act::sync});
    }
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
  CHECK(lead(report).culprits.size() == 2);
}

// Five steps of each two exchanges with both neighbours, of sizes as given by step, in front of an
// AllReduce that is always of one size.
enum class Wrong : uint8_t { exchange_twice, reduce_missing, late };
Program two_exchanges(int ranks, const std::vector<uint64_t>& sizes, size_t wrong_step,
                      Wrong wrong) {
  Program program;
  program.comms = {{.ranks = {}}};
  for (int r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(r);
  program.ranks.resize(static_cast<size_t>(ranks));
  uint32_t group = 0;
  for (size_t step = 0; step < sizes.size(); ++step) {
    for (int r = 0; r < ranks; ++r) {
      const auto exchange = [&](uint32_t number) {
        return Steps{call(OpKind::Send, sizes[step], (r + 1) % ranks, 0, number),
                     call(OpKind::Recv, sizes[step], (r + ranks - 1) % ranks, 0, number)};
      };
      std::vector<Steps> parts = {
          exchange(group + 1), exchange(group + 2), {call(OpKind::AllReduce, 8)}};
      if (r == 0 && step == wrong_step) {
        if (wrong == Wrong::exchange_twice) parts.insert(parts.begin(), exchange(group + 3));
        if (wrong == Wrong::reduce_missing) parts.pop_back();
        if (wrong == Wrong::late) std::swap(parts[1], parts[2]);
      }
      Steps& own = program.ranks[static_cast<size_t>(r)];
      for (const Steps& part : parts) own.insert(own.end(), part.begin(), part.end());
      own.push_back({.act = Act::sync});
    }
    group += 3;
  }
  return program;
}

TEST_CASE("who did as before in a step of new sizes is not blamed for sure, whoever did not") {
  const std::vector<std::vector<uint64_t>> all_sizes = {{100, 100, 100, 164, 100},
                                                        {100, 107, 114, 121, 128},
                                                        {431, 117, 1042, 228, 655},
                                                        {100, 100, 100, 100, 100}};
  for (const std::vector<uint64_t>& sizes : all_sizes) {
    for (const Wrong wrong : {Wrong::exchange_twice, Wrong::reduce_missing, Wrong::late}) {
      for (const size_t step : {size_t{1}, size_t{2}, size_t{3}}) {
        for (const int ranks : {2, 3}) {
          const Report report =
              analyse(execute(two_exchanges(ranks, sizes, step, wrong), kLive).run);
          INFO(ranks << " ranks, sizes from " << sizes[1] << ", step " << step << ", wrong "
                     << static_cast<int>(wrong) << "\n"
                     << text_of(report));
          const std::vector<Culprit>& named = lead(report).culprits;
          const bool is_among = std::any_of(
              named.begin(), named.end(), [](const Culprit& culprit) { return culprit.rank == 0; });
          CHECK((is_among || lead(report).confidence != Confidence::certain));
        }
      }
    }
  }
}

TEST_CASE("a size seen for the first time may be that of a step, of which a peer made one more") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks.resize(2);
  for (size_t r = 0; r < 2; ++r) {
    const int peer = r == 0 ? 1 : 0;
    uint32_t group = static_cast<uint32_t>(r) * 100;
    for (const uint64_t size : {kLarge, kLarge, kLarge + 64}) {
      const int times = r == 0 && group == 2 ? 3 : 2;
      for (int i = 0; i < times; ++i) {
        ++group;
        program.ranks[r].push_back(call(OpKind::Send, size, peer, 0, group));
        program.ranks[r].push_back(call(OpKind::Recv, size, peer, 0, group));
      }
      program.ranks[r].push_back({.act = Act::sync});
    }
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
  CHECK(lead(report).confidence == Confidence::likely);
}

// In every step a replay of fixed size, a call of each pair, and a ring among all, whose size
// changes.
Program make_changing_ring() {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}},
                   {.ranks = {0, 1}, .parent = 0},
                   {.ranks = {2, 3}, .parent = 0, .colour = 1}};
  program.ranks.resize(4);
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    const auto add_ring = [&](uint64_t count, uint32_t group, uint32_t graph) {
      own.push_back(call(OpKind::Send, count, (r + 1) % 4, 0, group));
      own.push_back(call(OpKind::Recv, count, (r + 3) % 4, 0, group));
      for (auto step = own.end() - 2; step != own.end(); ++step) step->graph = graph;
    };
    add_ring(8, 1, 1);
    for (uint32_t step = 0; step < 4; ++step) {
      own.push_back({.act = Act::replay, .graph = 1});
      own.push_back(call(OpKind::AllReduce, 4, -1, 1 + r / 2));
      add_ring(16 + uint64_t{step} * 7, 2 + step, 0);
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("sizes that change beside replays of one size are no reason to doubt who is as usual") {
  Program program = make_changing_ring();
  Steps& own = program.ranks[2];
  // Before the ring of the last step.
  own.insert(own.end() - 3, {call(OpKind::AllGather, 7777, -1, 2), {.act = Act::sync}});
  const Report report =
      analyse(execute(program, {.stall_ns = 60'000'000'000, .watched = true}).run, {});
  CHECK(check_blames(report, Verdict::missing_call, 2).op == "AllGather");
  CHECK(lead(report).misstep == Misstep::made_more);
}

}  // namespace changing_sizes_test
}  // namespace rollcall::analysis
