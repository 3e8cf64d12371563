// Calls that one rank makes and nobody else, in jobs that did the same before: who is blamed.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace stray_call_test {

// Four ranks reduce on a group of three of them, on a stream of its own, then all together.
Program training(int steps) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2}, .parent = 0}};
  program.ranks.resize(4);
  for (size_t r = 0; r < 4; ++r) {
    for (int step = 0; step < steps; ++step) {
      if (r < 3) program.ranks[r].push_back(call(OpKind::AllReduce, 8, -1, 1));
      if (r < 3) program.ranks[r].back().stream = 1;
      program.ranks[r].push_back(call(OpKind::AllReduce, 4));
      program.ranks[r].push_back({.act = Act::sync});
    }
  }
  return program;
}

// Of the last step, behind its first call.
void insert_in_last_step(Steps& steps, Step step) { steps.insert(steps.end() - 2, step); }

TEST_CASE("who calls once more than most is named where those went on, not they") {
  Program program = training(4);
  Step extra = call(OpKind::AllReduce, 8, -1, 1);
  extra.stream = 1;
  insert_in_last_step(program.ranks[1], extra);
  const Report report = analyse(execute(program, kLive).run);
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 4);
  CHECK(lead(report).misstep == Misstep::made_more);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).summary.starts_with("rank 1 made one call more than the other 2 ranks"));
  CHECK(lead(report).victims == std::vector<int32_t>{0, 2});
  CHECK(report.findings.size() == 1);
}

TEST_CASE("who calls once more when the others have ended is named, not those that ended") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < (r == 1 ? 5 : 4); ++step) {
      steps.push_back(call(OpKind::AllReduce, 8));
      steps.push_back({.act = Act::sync});
    }
    if (r != 1) steps.push_back({.act = Act::exit});
  }
  const Report report = analyse(execute(program, kLive).run);
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 4);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("who ends while most still call is named, not they") {
  Program program = training(4);
  program.ranks[1].insert(program.ranks[1].end() - 2, {.act = Act::exit});
  check_blames(analyse(execute(program, kLive).run), Verdict::rank_dead, 1);
}

TEST_CASE("who left out what most called is named as before") {
  Program program = training(4);
  program.ranks[1].erase(program.ranks[1].end() - 3);
  const Report report = analyse(execute(program, kLive).run);
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 3);
  CHECK(lead(report).summary.find("one call more") == std::string::npos);
}

TEST_CASE("of two that differ, the one that calls once more elsewhere too is named") {
  Program program = training(4);
  program.comms.push_back({.ranks = {1, 3}, .parent = 0, .child_number = 1});
  for (const int comm : {1, 2}) {
    Step extra = call(OpKind::AllGather, 16, -1, comm);
    extra.stream = comm;
    insert_in_last_step(program.ranks[1], extra);
  }
  // Both have used the pair's communicator before.
  for (const size_t r : {1u, 3u}) {
    Step first = call(OpKind::AllGather, 16, -1, 2);
    first.stream = 2;
    program.ranks[r].insert(program.ranks[r].begin(), first);
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  check_blames(report, Verdict::missing_call, 1);
  for (const Finding& finding : report.findings) {
    for (const Culprit& culprit : finding.culprits) CHECK(culprit.rank == 1);
  }
}

TEST_CASE("who waits in a call that no step before had is named, where the others did as before") {
  Program program = training(4);
  insert_in_last_step(program.ranks[1], {.act = Act::sync});
  insert_in_last_step(program.ranks[1], call(OpKind::AllReduce, 2, -1, 1));
  insert_in_last_step(program.ranks[1], {.act = Act::sync});
  const Report report = analyse(execute(program, kLive).run);
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 4);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 2, 3});
}

TEST_CASE("and so where the newest record of one of them is lost") {
  Program program = training(4);
  insert_in_last_step(program.ranks[1], {.act = Act::sync});
  insert_in_last_step(program.ranks[1], call(OpKind::AllReduce, 2, -1, 1));
  insert_in_last_step(program.ranks[1], {.act = Act::sync});
  Outcome outcome = execute(program, {.stall_ns = 60'000'000'000});
  trace::Process& loser = outcome.run.processes[0];
  loser.ops.pop_back();
  loser.torn = 1;
  CHECK(check_blames(analyse(outcome.run), Verdict::missing_call, 1).seq == 4);
}

TEST_CASE("a call that no step before had proves nothing where there is no step before") {
  Program program = training(1);
  insert_in_last_step(program.ranks[1], call(OpKind::AllReduce, 2, -1, 1));
  insert_in_last_step(program.ranks[1], {.act = Act::sync});
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).summary.find("one call more") == std::string::npos);
}

TEST_CASE("a call that no step before had proves nothing where the others did as never before") {
  Program program = training(4);
  for (const size_t r : {0u, 2u, 3u}) {
    program.ranks[r].push_back(call(OpKind::AllGather, 16));
    program.ranks[r].push_back({.act = Act::sync});
  }
  program.ranks[1].push_back(call(OpKind::AllReduce, 2, -1, 1));
  program.ranks[1].push_back({.act = Act::sync});
  program.ranks[1].push_back(call(OpKind::AllGather, 16));
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).summary.find("one call more") == std::string::npos);
}

TEST_CASE("who stands behind its last call on a group has not gone past the next one there") {
  Program program = training(4);
  for (const size_t r : {0u, 2u}) {
    Steps& steps = program.ranks[r];
    std::swap(steps[steps.size() - 3], steps[steps.size() - 2]);
  }
  Step next = call(OpKind::AllReduce, 8, -1, 1);
  next.stream = 1;
  insert_in_last_step(program.ranks[1], next);
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).summary.find("one call more") == std::string::npos);
}

// Ranks 1 and 3 have used a communicator of their own before; rank 1 calls on it once more.
Program training_of_pair(int steps) {
  Program program = training(steps);
  program.comms.push_back({.ranks = {1, 3}, .parent = 0, .child_number = 1});
  Step extra = call(OpKind::AllGather, 16, -1, 2);
  extra.stream = 2;
  insert_in_last_step(program.ranks[1], extra);
  for (const size_t r : {1u, 3u}) program.ranks[r].insert(program.ranks[r].begin(), extra);
  return program;
}

TEST_CASE("of two that differ nobody is said to have called once more where nothing else tells") {
  const Report report = analyse(execute(training_of_pair(1), kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).summary.find("one call more") == std::string::npos);
}

TEST_CASE("of two that differ the one whose steps before had another call there is named") {
  const Report report = analyse(execute(training_of_pair(80), kLive).run);
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 1);
  CHECK(lead(report).summary.starts_with("rank 1 made one call more than rank 3"));
}

TEST_CASE("who calls once more is named also where one of the others lost its newest record") {
  Program program = training(4);
  // As usual, and once more: the lost record of rank 2 may be of that, too.
  Step extra = call(OpKind::AllReduce, 8, -1, 1);
  SECTION("a call that no step before had") { extra.count = 16; }
  SECTION("a usual one, in front of another than usual") {}
  extra.stream = 1;
  insert_in_last_step(program.ranks[1], extra);
  Outcome outcome = execute(program, {.stall_ns = 60'000'000'000});
  trace::Process& loser = outcome.run.processes[2];
  loser.ops.pop_back();
  loser.torn = 1;
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::missing_call, 1);
  CHECK(lead(report).summary.starts_with("rank 1 made one call more than the other 2 ranks"));
}

TEST_CASE("a rank that lost its newest record is not said to owe the call") {
  Program program = training(4);
  program.ranks[2].insert(program.ranks[2].end() - 2, {.act = Act::stick});
  Outcome outcome = execute(program, {.stall_ns = 60'000'000'000});
  trace::Process& loser = outcome.run.processes[3];
  loser.ops.pop_back();
  loser.torn = 1;
  check_blames(analyse(outcome.run), Verdict::missing_call, 2);
}

TEST_CASE("where most went on without a call, one that may still come does not matter") {
  // Two groups of the same eight ranks, one step: nothing tells what is usual. Of some the newest
  // record is lost, that of the call behind it.
  Program program;
  program.comms.resize(2);
  program.comms[1].parent = 0;
  for (int r = 0; r < 8; ++r) {
    for (sim::CommSpec& comm : program.comms) comm.ranks.push_back(r);
    Step step = call(OpKind::AllReduce, 8, -1, 1);
    step.stream = 1;
    Steps& steps = program.ranks.emplace_back();
    steps.push_back(step);
    if (r == 1) steps.push_back(step);
    steps.push_back(call(OpKind::AllReduce, 4));
    steps.push_back({.act = Act::sync});
  }
  const auto is_said_after_losing = [&](size_t first_lost) {
    Outcome outcome = execute(program, {.stall_ns = 60'000'000'000});
    for (size_t r = first_lost; r < 8; ++r) {
      outcome.run.processes[r].ops.pop_back();
      outcome.run.processes[r].torn = 1;
    }
    return text_of(analyse(outcome.run)).find("rank 1 made one call more than the other 7 ranks") !=
           std::string::npos;
  };
  CHECK(is_said_after_losing(7));
  CHECK_FALSE(is_said_after_losing(3));
}

TEST_CASE("who has made no call since does not show that a new one is not for all") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2}}};
  for (int r = 0; r < 3; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      steps.push_back(call(OpKind::AllReduce, 8));
      steps.push_back(call(OpKind::AllReduce, 4));
      steps.push_back({.act = Act::sync});
    }
    if (r == 1) steps.push_back(call(OpKind::AllReduce, 16));
    steps.push_back({.act = r == 1 ? Act::sync : Act::stick});
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).culprits.size() == 2);
  CHECK(lead(report).summary.find("one call more") == std::string::npos);
}

TEST_CASE("who made a usual call once more is named where only the others wait in a circle") {
  // Two pairs; the two halves of a step in all look alike.
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}},
                   {.ranks = {0, 1}, .parent = 0},
                   {.ranks = {2, 3}, .parent = 0, .colour = 1}};
  for (int r = 0; r < 4; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      steps.push_back(call(OpKind::AllReduce, 8, -1, 1 + r / 2));
      if (r == 2 && step == 3) steps.push_back(steps.back());
      for (const uint64_t count : {4, 2, 4}) steps.push_back(call(OpKind::AllReduce, count));
      steps.push_back({.act = Act::sync});
    }
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 2);
}

TEST_CASE("the first repetition of a step is no slip of the one that repeats it") {
  // Rank 0 sends the same twice a step, so that its second step seems to begin in another way.
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2}, .parent = 0}};
  for (int r = 0; r < 4; ++r) {
    Steps& steps = program.ranks.emplace_back();
    const auto transfer = [&] {
      if (r == 0) steps.push_back(call(OpKind::Send, 64, 3));
      if (r == 3) steps.push_back(call(OpKind::Recv, 64, 0));
    };
    for (int step = 0; step < 3; ++step) {
      if (r < 3) steps.push_back(call(OpKind::AllReduce, 8, -1, 1));
      if (r == 1 && step == 2) steps.push_back(steps.back());
      transfer();
      steps.push_back(call(OpKind::AllReduce, 4));
      transfer();
      steps.push_back({.act = Act::sync});
    }
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 1);
}

TEST_CASE("a call of another thread is not behind the one that waits, so nobody is past it") {
  Program program = training(4);
  Step extra = call(OpKind::AllReduce, 8, -1, 1);
  extra.stream = 1;
  insert_in_last_step(program.ranks[1], extra);
  Outcome outcome = execute(program, kLive);
  std::vector<trace::Op>& ops = outcome.run.processes[1].ops;
  REQUIRE(ops[ops.size() - 2].count == 8);
  ops[ops.size() - 2].thread = 1;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).summary.find("one call more") == std::string::npos);
}

TEST_CASE("calls in another order are no calls more, whatever the rank that made them") {
  for (const size_t who : {5u, 100u}) {
    Program program;
    program.comms.resize(2);
    program.comms[1].parent = 0;
    for (int r = 0; r < 128; ++r) {
      for (sim::CommSpec& comm : program.comms) comm.ranks.push_back(r);
      Steps& steps = program.ranks.emplace_back();
      for (int step = 0; step < 4; ++step) {
        for (const int comm : {0, 1}) {
          const bool is_swapped = step == 3 && static_cast<size_t>(r) == who;
          steps.push_back(call(OpKind::AllReduce, 8, -1, is_swapped ? 1 - comm : comm));
          steps.push_back({.act = Act::sync});
        }
      }
    }
    const Report report = analyse(execute(program, kLive).run);
    INFO(text_of(report));
    REQUIRE(lead(report).culprits.size() == 1);
    CHECK(lead(report).culprits[0].rank == static_cast<int>(who));
    CHECK(lead(report).summary.find("one call more") == std::string::npos);
  }
}

// Each of four ranks sends to the next one.
Program pipeline(int steps) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.resize(4);
  for (int r = 0; r < 4; ++r) {
    for (int step = 0; step < steps; ++step) {
      Steps& own = program.ranks[static_cast<size_t>(r)];
      if (r > 0) own.push_back(call(OpKind::Recv, kLarge, r - 1));
      if (r < 3) own.push_back(call(OpKind::Send, kLarge, r + 1));
      own.push_back(call(OpKind::AllReduce, 4));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who sends to another peer than before is named, not the one that expects nothing") {
  Program program = pipeline(4);
  Steps& steps = program.ranks[1];
  REQUIRE(steps[steps.size() - 3].kind == OpKind::Send);
  steps[steps.size() - 3].root_or_peer = 3;
  const Report report = analyse(execute(program, kLive).run);
  const Culprit& culprit = check_blames(report, Verdict::p2p_unmatched, 1);
  CHECK(culprit.peer == 3);
  CHECK(culprit.p2p_seq == 0);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 2, 3});
  CHECK(lead(report).summary.find("where its steps before had Send of 1048576 float32 to 2") !=
        std::string::npos);
}

TEST_CASE("a send to another peer proves nothing in a first step") {
  Program program = pipeline(1);
  program.ranks[1][1].root_or_peer = 3;
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).summary.find("steps before") == std::string::npos);
}

TEST_CASE("a stage that comes to its backward passes sends to no wrong peer") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.resize(4);
  const auto add = [&](size_t rank, OpKind kind, int peer) {
    program.ranks[rank].push_back(call(kind, kLarge, peer));
    program.ranks[rank].push_back({.act = Act::sync});
  };
  for (int pass = 0; pass < 5; ++pass) {
    add(0, OpKind::Send, 1);
    add(1, OpKind::Recv, 0);
    add(1, OpKind::Send, 2);
    add(2, OpKind::Recv, 1);
    if (pass < 4) add(2, OpKind::Send, 3);
    add(3, OpKind::Recv, 2);
  }
  // Stage 2 goes on to its backward passes, stage 1 has one forward pass more.
  add(2, OpKind::Send, 1);
  const bool waits_in_turn = GENERATE(true, false);
  if (waits_in_turn) {
    add(0, OpKind::Send, 1);
    add(1, OpKind::Recv, 0);
    add(1, OpKind::Send, 2);
  }
  for (Steps& own : program.ranks) own.push_back(call(OpKind::AllReduce, 4));
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  const bool is_wrong_peer = lead(report).summary.find("its steps before had") != std::string::npos;
  CHECK(is_wrong_peer != waits_in_turn);
  if (waits_in_turn) CHECK(lead(report).verdict == Verdict::deadlock_p2p);
}

TEST_CASE("a send to another peer proves nothing where the former one expects none any more") {
  Program program = pipeline(4);
  Steps& sender = program.ranks[1];
  sender[sender.size() - 3].root_or_peer = 3;
  Steps& former = program.ranks[2];
  former.erase(former.end() - 4);
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::p2p_unmatched);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank != 1);
}

TEST_CASE("a send to the second of two usual peers first is not to blame for a stuck receiver") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2}}};
  program.ranks.resize(3);
  for (int step = 0; step < 4; ++step) {
    const bool is_last = step == 3;
    program.ranks[0].push_back(call(OpKind::Send, kLarge, is_last ? 2 : 1));
    program.ranks[0].push_back(call(OpKind::Send, kLarge, is_last ? 1 : 2));
    program.ranks[1].push_back(call(OpKind::Recv, kLarge, 0));
    if (!is_last) program.ranks[2].push_back(call(OpKind::Recv, kLarge, 0));
    for (Steps& steps : program.ranks) steps.push_back({.act = Act::sync});
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 2);
}

TEST_CASE("a send to a new peer is not to blame for it where that one hangs outside of NCCL") {
  Program program = pipeline(4);
  Steps& sender = program.ranks[1];
  sender.insert(sender.end() - 3, call(OpKind::Send, kLarge, 3));
  Steps& stuck = program.ranks[3];
  stuck.erase(stuck.end() - 3, stuck.end());
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 3);
}

TEST_CASE("calls that a host may only have queued do not show that a job went past a difference") {
  for (const size_t behind : {100u, 3000u}) {
    Program program;
    program.comms = {{.ranks = {0, 1, 2}}};
    program.ranks.assign(3, Steps(behind, call(OpKind::AllReduce, 8)));
    program.ranks[1][4].count = 7;
    Outcome outcome = execute(program, kLive);
    // The recorder sees calls return that NCCL has only queued.
    const Report report = analyse(outcome.run);
    CHECK(check_blames(report, Verdict::count_mismatch, 1).seq == 4);
    CHECK((lead(report).severity == Severity::hang) == (behind < 1000));
  }
}

TEST_CASE("who stays when most have ended is named, not the GPUs of all") {
  Program program = training(2);
  for (const size_t r : {0u, 2u, 3u}) program.ranks[r].push_back({.act = Act::exit});
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.find("ranks 0,2-3 ended by themselves then, and rank 1 has not") !=
        std::string::npos);
  CHECK(lead(report).next.find("stack of rank 1") != std::string::npos);
}

TEST_CASE("of a rank that has ended by itself nobody is sent to look at the stack") {
  Program program = training(4);
  Steps& steps = program.ranks[3];
  steps.erase(steps.end() - 2, steps.end());
  steps.push_back({.act = Act::exit});
  Outcome outcome = execute(program, kLive);
  for (trace::Comm& comm : outcome.run.processes[3].comms) {
    comm.state = CommState::destroyed;
    comm.ended_ns = outcome.run.processes[3].exited_ns;
  }
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::missing_call, 3);
  CHECK(lead(report).summary.starts_with("rank 3 ended by itself, "));
  CHECK(lead(report).next.find("gdb") == std::string::npos);
}

// Two groups of two ranks, and two pairs across them: every rank calls twice in its group, then in
// its pair, step after step.
constexpr int kGroup = 0;  // of rank 1; its pair is communicator 3
constexpr int kPair = 3;
struct Crossed {
  uint64_t pair_size = 64;
  int steps = 4;
  bool waits = true;  // a host waits at the end of a step
};
Program make_crossed(const Crossed& crossed) {
  Program program;
  program.comms = {{.ranks = {0, 1}}, {.ranks = {2, 3}}, {.ranks = {0, 2}}, {.ranks = {1, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < crossed.steps; ++step) {
      own.push_back(call(OpKind::AllReduce, 64, -1, r / 2));
      own.push_back(call(OpKind::AllReduce, 32, -1, r / 2));
      own.push_back(call(OpKind::AllReduce, crossed.pair_size, -1, 2 + r % 2));
      if (crossed.waits) own.push_back({.act = Act::sync});
    }
  }
  return program;
}
// A call of the third step of rank 1.
Step& call_of_third_step(Program& program, size_t which, bool waits) {
  return program.ranks[1][2 * (waits ? 4 : 3) + which];
}

TEST_CASE("a call on another communicator than before is told as that, whatever it meets there") {
  for (const uint64_t size : {64, 128}) {
    for (const bool waits : {false, true}) {
      const Crossed crossed{.pair_size = size, .waits = waits};
      INFO("size " << size << ", waits " << waits);
      Program to_pair = make_crossed(crossed);
      call_of_third_step(to_pair, 0, waits).comm = kPair;
      const Report report = analyse(execute(to_pair, kLive).run);
      const Culprit& culprit = check_blames(report, Verdict::missing_call, 1);
      CHECK(culprit.comm == CommKey{kGroup + 1, 7});
      CHECK(culprit.seq == 4u);
      CHECK(lead(report).severity == Severity::hang);
      CHECK(lead(report).confidence == Confidence::likely);
      CHECK(lead(report).misstep == Misstep::other_communicator);
      CHECK(lead(report).victims == std::vector<int32_t>{0, 2, 3});
      CHECK(lead(report).summary ==
            "rank 1 called AllReduce of 64 float32 (sum) on another communicator than in the steps "
            "before: as seq 2 of communicator of ranks 1,3, and not seq 4 of communicator of ranks "
            "0-1");
      CHECK(report.findings.size() == 1);
      Program to_group = make_crossed(crossed);
      call_of_third_step(to_group, 2, waits).comm = kGroup;
      const Report other = analyse(execute(to_group, kLive).run);
      CHECK(check_blames(other, Verdict::missing_call, 1).seq == 2u);
      CHECK(lead(other).summary.find("as seq 6 of communicator of ranks 0-1, and not seq 2 of ") !=
            std::string::npos);
    }
  }
}

TEST_CASE("a size that the communicator never had tells that the call belongs to another") {
  Program program = make_crossed({.pair_size = 128});
  Steps& own = program.ranks[1];
  call_of_third_step(program, 2, true).comm = kGroup;
  own.resize(2 * 4 + 3);
  own.push_back({.act = Act::sync});
  const Report report = analyse(execute(program, kLive).run);
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 2u);
  CHECK(lead(report).summary.find("on another communicator") != std::string::npos);
}

TEST_CASE("a call that is left out, made more or changed places is not one on another") {
  const auto is_told = [](const Program& program) {
    const Report report = analyse(execute(program, kLive).run);
    INFO(text_of(report));
    CHECK(lead(report).severity == Severity::hang);
    return text_of(report).find("another communicator") != std::string::npos;
  };
  for (const bool waits : {false, true}) {
    const ptrdiff_t third = 2 * (waits ? 4 : 3);
    Program left_out = make_crossed({.waits = waits});
    left_out.ranks[1].erase(left_out.ranks[1].begin() + third);
    CHECK_FALSE(is_told(left_out));
    Program more = make_crossed({.waits = waits});
    more.ranks[1].insert(more.ranks[1].begin() + third, more.ranks[1][2]);
    CHECK_FALSE(is_told(more));
    Program swapped = make_crossed({.waits = waits});
    std::swap(swapped.ranks[1][static_cast<size_t>(third)],
              swapped.ranks[1][static_cast<size_t>(third) + 2]);
    // The two groups of the others are in no circle with that; it takes two.
    std::swap(swapped.ranks[2][static_cast<size_t>(third)],
              swapped.ranks[2][static_cast<size_t>(third) + 2]);
    CHECK_FALSE(is_told(swapped));
  }
}

TEST_CASE("a call on a communicator that nothing is known of is not said to belong to another") {
  for (const bool waits : {false, true}) {
    Program program = make_crossed({.waits = waits});
    call_of_third_step(program, 0, waits).comm = kPair;
    for (const bool is_usual : {false, true}) {
      Outcome outcome = execute(program, kLive);
      const int forgotten = is_usual ? kGroup : kPair;
      forget_comm(outcome.run.processes[1], {static_cast<uint64_t>(forgotten) + 1, 7});
      const Report report = analyse(outcome.run);
      INFO("waits " << waits << ", usual " << is_usual << "\n" << text_of(report));
      CHECK(lead(report).severity == Severity::hang);
      CHECK(text_of(report).find("another communicator") == std::string::npos);
    }
  }
}

TEST_CASE("on which communicator a call belongs is not known before a step came twice") {
  Program program = make_crossed({.pair_size = 128, .steps = 1});
  program.ranks[1][0].comm = kPair;
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  CHECK(text_of(report).find("another communicator") == std::string::npos);
}

}  // namespace stray_call_test
}  // namespace rollcall::analysis
