// How one rank's calls follow from those of the others, where they go on calling behind a slip.
#include <algorithm>
#include <utility>

#include "tests/analysis/cost.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace slip_test {

constexpr uint64_t kStepCalls = 6;

// Three steps of six reductions that differ in size, and some smaller ones at the end; nobody
// waits in between.
Program make_asynchronous(int ranks = 4) {
  Program program;
  program.comms.emplace_back();
  for (int r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(r);
  Steps steps;
  for (int i = 0; i < 3; ++i) {
    for (uint64_t n = 1; n <= kStepCalls; ++n) steps.push_back(call(OpKind::AllReduce, 8 * n));
  }
  for (uint64_t n = 1; n <= 5; ++n) steps.push_back(call(OpKind::AllReduce, n));
  steps.push_back({.act = Act::sync});
  program.ranks.assign(static_cast<size_t>(ranks), steps);
  return program;
}

// This rank gathers so many times before its second step, each time another size.
void add_gathers(Program& program, size_t rank, uint64_t times) {
  Steps gathers;
  for (uint64_t n = 0; n < times; ++n) gathers.push_back(call(OpKind::AllGather, 1000 + n));
  Steps& steps = program.ranks[rank];
  steps.insert(steps.begin() + kStepCalls, gathers.begin(), gathers.end());
}

// In the first sentence or in the evidence, which holds what did not fit there.
bool says(const Report& report, std::string_view part) {
  const Finding& finding = lead(report);
  return finding.summary.find(part) != std::string::npos ||
         std::ranges::any_of(finding.evidence, [&](const Evidence& evidence) {
           return evidence.text.find(part) != std::string::npos;
         });
}

TEST_CASE("who makes several calls more is told so, and where the calls agree again") {
  for (const uint64_t times : {1u, 2u, 3u}) {
    Program program = make_asynchronous();
    add_gathers(program, 0, times);
    const Report report = analyse(execute(program).run);
    check_blames(report, Verdict::op_mismatch, 0);
    CHECK(lead(report).confidence == Confidence::certain);
    CHECK(says(report, "agree again with theirs, which begin with AllReduce of 8 float32"));
    CHECK(says(report, "which ranks 1-3 never did") == (times == 1));
    const std::string several = fmt::format(
        "rank 0 made {} calls more than ranks 1-3 from seq 6 of world on, the first "
        "AllGather of 1000 float32",
        times);
    CHECK(says(report, several) == (times != 1));
  }
}

TEST_CASE("calls are not said to agree again where none is on file that does") {
  Program program = make_asynchronous();
  add_gathers(program, 0, 3);
  program.ranks[0].resize(kStepCalls + 3);
  program.ranks[0].push_back({.act = Act::sync});
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::op_mismatch, 0);
  CHECK(says(report, "rank 0 called AllGather of 1000 float32 at seq 6 of world where ranks 1-3"));
  CHECK_FALSE(says(report, "agree"));
  CHECK_FALSE(says(report, "more"));
}

TEST_CASE("what a rank calls behind calls that it left out is counted where not all of it fits") {
  Program program = make_asynchronous();
  Steps& steps = program.ranks[3];
  steps.erase(steps.begin() + kStepCalls, steps.begin() + kStepCalls + 2);
  SECTION("all of it") {
    const Report report = analyse(execute(program).run);
    check_blames(report, Verdict::missing_call, 3);
    CHECK(says(report, "rank 3 left out 2 calls"));
    CHECK(says(report, "what rank 3 calls from there on is what the others call next"));
  }
  SECTION("all but one") {
    steps[kStepCalls + 3].count = 7;
    const Report report = analyse(execute(program).run);
    check_blames(report, Verdict::missing_call, 3);
    CHECK(says(report, "14 are what the others call next, 1 is not"));
    CHECK_FALSE(says(report, "what rank 3 calls from there on"));
  }
}

// The rank does not make its third step; the smaller calls follow at once.
void leave_a_step_out(Program& program, size_t rank) {
  Steps& steps = program.ranks[rank];
  steps.erase(steps.begin() + 2 * kStepCalls, steps.begin() + 3 * kStepCalls);
}

TEST_CASE("who leaves a whole step out is told so where all its later calls agree") {
  Program program = make_asynchronous();
  leave_a_step_out(program, 3);
  SECTION("many") {
    const Report report = analyse(execute(program).run);
    CHECK(check_blames(report, Verdict::missing_call, 3).seq == 2 * kStepCalls);
    CHECK(says(report, "rank 3 left out 6 calls, the first AllReduce of 8 float32"));
    CHECK(lead(report).confidence == Confidence::likely);
  }
  SECTION("one is wrong") {
    program.ranks[3][2 * kStepCalls + 2].count = 99;
    check_blames(analyse(execute(program).run), Verdict::count_mismatch, 3);
  }
  SECTION("there is one alone, and it may be one of a wrong size") {
    for (Steps& steps : program.ranks) steps.erase(steps.end() - 5, steps.end() - 1);
    Outcome outcome = execute(program);
    check_blames(analyse(outcome.run), Verdict::count_mismatch, 3);
    // The script's lines tell: the others called it from there later.
    for (trace::Process& process : outcome.run.processes) {
      process.meta["frame.1"] = "train.py:1 step";
      process.meta["frame.2"] = "train.py:2 evaluate";
      for (trace::Op& op : process.ops) op.frames = op.count == 1 ? 2 : 1;
    }
    check_blames(analyse(outcome.run), Verdict::missing_call, 3);
    for (trace::Op& op : outcome.run.processes[3].ops) op.frames = 1;
    check_blames(analyse(outcome.run), Verdict::count_mismatch, 3);
  }
}

TEST_CASE("who makes as many calls more as others in a step is told how many") {
  for (const uint64_t times : {5u, 10u, 30u}) {
    Program program = make_asynchronous();
    add_gathers(program, 0, times);
    const Report report = analyse(execute(program).run);
    check_blames(report, Verdict::op_mismatch, 0);
    CHECK(says(report, fmt::format("rank 0 made {} calls more", times)));
  }
}

TEST_CASE("calls of a wrong size in step with the others are not taken for calls more") {
  Program program = make_asynchronous();
  program.ranks[1][kStepCalls].count = 99;
  program.ranks[1][kStepCalls + 3].count = 98;
  const Report report = analyse(execute(program).run);
  CHECK(check_blames(report, Verdict::count_mismatch, 1).seq == kStepCalls);
  CHECK(says(report, "and so at 1 later position"));
}

TEST_CASE("calls in another order are told up to where all agree again") {
  Program program = make_asynchronous();
  Steps& steps = program.ranks[2];
  const auto begin = steps.begin() + kStepCalls;
  std::swap(begin[0], begin[1]);
  std::swap(begin[3], begin[4]);
  SECTION("all later calls agree") {
    const Report report = analyse(execute(program).run);
    CHECK(check_blames(report, Verdict::order_mismatch, 2).seq == kStepCalls);
    CHECK(says(report, "rank 2 made 5 calls from seq 6 of world on in another order"));
  }
  SECTION("nothing behind it is on file") {
    steps.resize(kStepCalls + 5);
    steps.push_back({.act = Act::sync});
    const Report report = analyse(execute(program).run);
    check_blames(report, Verdict::order_mismatch, 2);
    CHECK(says(report, "rank 2 made 2 calls from seq 6 of world on in another order"));
  }
}

// Three steps of two micro batches of so many calls and some calls behind them. In the last step
// rank 2 leaves the second micro batch out; with `others_wait` the others stand in its first call.
struct Batches {
  uint64_t calls = 200;
  uint64_t calls_behind = 3;
  bool others_wait = false;
  int steps = 3;
};
Program make_batches(const Batches& batches) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < batches.steps; ++step) {
      const bool is_last = step + 1 == batches.steps;
      for (const bool is_second : {false, true}) {
        if (is_last && is_second && r == 2) continue;
        for (uint64_t n = 0; n < batches.calls; ++n) {
          steps.push_back(call(OpKind::AllReduce, 64 + n));
          const bool waits = is_last && is_second && batches.others_wait && n == 0;
          if (waits) steps.push_back({.act = Act::sync});
        }
      }
      for (uint64_t n = 0; n < batches.calls_behind; ++n) {
        steps.push_back(call(OpKind::Reduce, 7 + n, 0));
      }
      steps.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who leaves out hundreds of calls is told so and how many") {
  for (const bool others_wait : {false, true}) {
    const Report report = analyse(execute(make_batches({.others_wait = others_wait})).run);
    CHECK(check_blames(report, Verdict::missing_call, 2).seq == 2 * 403 + 200);
    CHECK(says(report, "rank 2 left out 200 calls, the first AllReduce of 64 float32"));
    // The rest of what it left out is on no file then.
    CHECK(says(report, "is what came next in the steps before") == others_wait);
    CHECK(says(report, "is what the others call next") != others_wait);
    CHECK(lead(report).confidence == Confidence::likely);
  }
}

TEST_CASE("who makes hundreds of calls more is told how many") {
  Program program = make_batches({});
  std::swap(program.ranks[0], program.ranks[2]);
  program.ranks[1] = program.ranks[3] = program.ranks[0];
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::op_mismatch, 2);
  CHECK(says(report, "rank 2 made 200 calls more than ranks 0-1,3 from seq 1006 of world on"));
}

TEST_CASE("one call alone may be a wrong one, or the one behind hundreds that were left out") {
  const char* maybe = " that 200 calls later: rank 2 may have left these out";
  for (const bool others_wait : {false, true}) {
    const Report report =
        analyse(execute(make_batches({.calls_behind = 1, .others_wait = others_wait})).run);
    check_blames(report, Verdict::op_mismatch, 2);
    CHECK(says(report,
               std::string(others_wait ? "the steps before had" : "the others called") + maybe));
    CHECK(lead(report).confidence == Confidence::likely);
  }
}

TEST_CASE("a call that nobody makes later is not said to be due later") {
  Program program = make_batches({.calls_behind = 1});
  program.ranks[2].end()[-2] = call(OpKind::AllGather, 9);
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::op_mismatch, 2);
  CHECK_FALSE(says(report, "later"));
  CHECK(lead(report).confidence == Confidence::certain);
  // Nor where nothing is on file that it would come behind.
  const Report first =
      analyse(execute(make_batches({.calls_behind = 1, .others_wait = true, .steps = 1})).run);
  check_blames(first, Verdict::op_mismatch, 2);
  CHECK_FALSE(says(first, "later"));
}

TEST_CASE("where most ranks do not agree all of them are named, none as a victim") {
  Program program = make_asynchronous();
  const auto change = [&](auto how) {
    for (size_t r = 0; r < 4; ++r) how(program.ranks[r][kStepCalls], r);
    const Report report = analyse(execute(program).run);
    INFO(text_of(report));
    CHECK(report.findings.size() == 1);
    CHECK(lead(report).culprits.size() == 4);
    CHECK(lead(report).victims.empty());
    CHECK(lead(report).confidence == Confidence::certain);
    return lead(report);
  };
  SECTION("counts") {
    const Finding found = change([](Step& step, size_t r) { step.count = 8 + r; });
    CHECK(found.verdict == Verdict::count_mismatch);
    CHECK(found.summary ==
          "all 4 ranks of world passed different counts to AllReduce at seq 6: 8 to 11 float32");
  }
  SECTION("counts, and two alike") {
    const Finding found = change([](Step& step, size_t r) { step.count = 30 + r / 2 * r; });
    CHECK(found.summary ==
          "ranks 0-3 passed 3 different counts to AllReduce at seq 6 of world: 30 to 33 float32");
  }
  SECTION("roots") {
    const Finding found = change(
        [](Step& step, size_t r) { step = call(OpKind::Broadcast, 5, static_cast<int>(r)); });
    CHECK(found.verdict == Verdict::root_mismatch);
    CHECK(found.summary ==
          "all 4 ranks of world passed different roots to Broadcast at seq 6: 0 to 3");
  }
  SECTION("counts, and a datatype") {
    const Finding found = change([](Step& step, size_t r) {
      step.count = 8 + r;
      if (r == 1) step.datatype = 8;
    });
    CHECK(found.summary.find("ranks 0-3 called 4 different things") != std::string::npos);
  }
  SECTION("operations") {
    const Finding found = change([](Step& step, size_t r) {
      step = r == 0 ? call(OpKind::AllGather, 5) : call(OpKind::AllReduce, 50 + r);
    });
    CHECK(found.verdict == Verdict::op_mismatch);
    CHECK(found.summary.find("called 4 different things at seq 6 of world: rank 0 AllGather of 5 "
                             "float32, rank 1 AllReduce of 51") != std::string::npos);
  }
}

TEST_CASE("ranks that each made the same calls in an order of their own are all named, once") {
  Program program = make_asynchronous();
  const auto step = [&](size_t r) { return program.ranks[r].begin() + kStepCalls; };
  for (size_t r = 1; r < 4; ++r) std::rotate(step(r), step(r) + static_cast<long>(r), step(r) + 4);
  SECTION("all four") {
    const Report report = analyse(execute(program).run);
    INFO(text_of(report));
    CHECK(report.findings.size() == 1);
    CHECK(lead(report).verdict == Verdict::order_mismatch);
    CHECK(lead(report).culprits.size() == 4);
    CHECK(lead(report).victims.empty());
    CHECK(says(report,
               "ranks 0-3 made the same calls from seq 6 of world on in 4 different orders: rank 0 "
               "AllReduce of 8 float32 (sum) first, rank 1 AllReduce of 16 float32 (sum) first"));
    CHECK(lead(report).next.find("look at what the order comes from") == 0);
  }
  SECTION("two of them in one order, which may be right") {
    program.ranks[1] = program.ranks[0];
    const Report report = analyse(execute(program).run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::order_mismatch);
    CHECK_FALSE(says(report, "4 different orders"));
  }
}

// Four steps of one reduction each, for which every rank waits, then a barrier and a fifth step.
Program make_steps_and_barrier() {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  Steps steps;
  const auto add = [&](uint64_t count) {
    steps.push_back(call(OpKind::AllReduce, count));
    steps.push_back({.act = Act::sync});
  };
  for (int i = 0; i < 4; ++i) add(1000);
  add(1);
  add(1000);
  program.ranks.assign(4, steps);
  return program;
}

TEST_CASE(
    "what now and then followed a call before does not make a second barrier a call left out") {
  Program program = make_steps_and_barrier();
  Steps& steps = program.ranks[0];
  SECTION("one barrier too many") {
    steps.insert(steps.begin() + 8, {call(OpKind::AllReduce, 1), {.act = Act::sync}});
    const Report report = analyse(execute(program, kLive).run);
    check_blames(report, Verdict::count_mismatch, 0);
    CHECK(says(report, "rank 0 called AllReduce of 1 float32 (sum) at seq 5 of world where"));
    CHECK_FALSE(says(report, "left out"));
  }
  SECTION("a call left out where the same call always followed it") {
    for (Steps& own : program.ranks) {
      const Steps once = own;
      own.insert(own.end(), once.begin(), once.end());
    }
    steps.erase(steps.end() - 4, steps.end() - 2);
    const Report report = analyse(execute(program, kLive).run);
    INFO(text_of(report));
    CHECK(lead(report).culprits[0].rank == 0);
  }
}

TEST_CASE("one call that agrees behind one that does not is no sign of a call left out") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.assign(4, {call(OpKind::Broadcast, 40, 0),
                           call(OpKind::Broadcast, 10, 0),
                           call(OpKind::AllReduce, 30),
                           {.act = Act::sync}});
  program.ranks[3][0].count = 30;
  program.ranks[3].erase(program.ranks[3].begin() + 1);
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::count_mismatch, 3);
  CHECK(says(report, "rank 3 called Broadcast of 30 float32, root 0 at seq 0 of world where"));
  CHECK_FALSE(says(report, "left out"));
}

TEST_CASE("where most ranks agree each of the others is named") {
  Program program = make_asynchronous(5);
  program.ranks[1][kStepCalls].count = 50;
  program.ranks[3][kStepCalls].count = 51;
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::count_mismatch, 1);
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[1].culprits[0].rank == 3);
}

TEST_CASE("beside ranks that differ, one that has ended before is no victim, and is told of") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.assign(4, {call(OpKind::AllReduce, 8),
                           {.act = Act::sync},
                           call(OpKind::AllReduce, 8),
                           {.act = Act::sync}});
  program.ranks[1][2].count = 9;
  const bool has_ended = GENERATE(true, false);
  program.ranks[3].erase(program.ranks[3].begin() + 2, program.ranks[3].end());
  program.ranks[3].push_back({.act = has_ended ? Act::die : Act::stick});
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::count_mismatch, 1);
  CHECK(says(report, "; rank 3 is gone, and did not come to it") == has_ended);
  CHECK((lead(report).next.find("exit status of rank 3") != std::string::npos) == has_ended);
  CHECK(lead(report).victims ==
        (has_ended ? std::vector<int32_t>{0, 2} : std::vector<int32_t>{0, 2, 3}));
}

TEST_CASE("a hundred ranks that all differ are named in one finding") {
  Program program = make_asynchronous(100);
  for (size_t r = 0; r < 100; ++r) program.ranks[r][kStepCalls].count = 8 + r;
  const Report report = analyse(execute(program).run);
  CHECK(report.findings.size() == 1);
  CHECK(lead(report).culprits.size() == 100);
  CHECK(lead(report).evidence.size() == 8);
  CHECK(says(report, "all 100 ranks of world passed different counts to AllReduce at seq 6: 8 to"));
}

TEST_CASE(
    "the advice is to look at a branch where ranks made different calls, not one in two ways") {
  const auto advice = [](auto change, bool has_sites, bool are_two, bool has_others = true) {
    Program program = make_asynchronous();
    change(program.ranks[3][kStepCalls]);
    Outcome outcome = execute(program);
    for (trace::Process& process : outcome.run.processes) {
      process.meta["python_frames"] = has_sites ? "3.11.2" : "off";
      if (has_sites) process.meta["frame.1"] = "train.py:1 step";
      if (has_sites) process.meta["frame.2"] = "train.py:2 evaluate";
      const bool is_odd = are_two && process.job_rank == 3;
      for (trace::Op& op : process.ops) op.frames = !has_sites ? 0 : is_odd ? 2 : has_others;
    }
    return lead(analyse(outcome.run)).next;
  };
  const auto count = [](Step& step) { step.count = 9; };
  const auto operation = [](Step& step) { step.kind = OpKind::AllGather; };
  const std::string compare =
      "compare the call sites: what the ranks computed this call from differs, or one of them made "
      "a call more or less in front of it";
  const std::string look = "look at the branch that decides about this call on that rank";
  CHECK(advice(count, false, false) ==
        compare + " (the lines are recorded without ROLLCALL_PYTHON_FRAMES=0)");
  CHECK(advice(count, true, false) == compare);
  CHECK(advice(count, true, true) == look);
  // The others' come from a thread of autograd.
  CHECK(advice(count, true, true, false) == look);
  CHECK(advice(operation, false, false) == look);
}

TEST_CASE("of calls in another order that several threads make the threads are named") {
  for (const bool are_two : {true, false}) {
    Program program = make_asynchronous();
    std::swap(program.ranks[3][kStepCalls].count, program.ranks[3][kStepCalls + 1].count);
    Outcome outcome = execute(program);
    for (trace::Process& process : outcome.run.processes) {
      for (trace::Op& op : process.ops) op.thread = are_two && op.count % 16 == 0 ? 8 : 7;
    }
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::order_mismatch, 3);
    CHECK((lead(report).next.find("several threads make these calls") == 0) == are_two);
  }
}

TEST_CASE("a step that one of a thousand ranks leaves out is found in a moment", "[scale]") {
  constexpr size_t kRanks = 1024;
  constexpr uint64_t kCalls = 2000;
  constexpr uint64_t kLeftOut = 40;
  Outcome outcome = execute(make_asynchronous(2));
  trace::Process one = outcome.run.processes[0];
  one.comms[0].nranks = kRanks;
  one.comms[0].collectives = kCalls;
  const trace::Op example = one.ops.front();
  one.ops.clear();
  for (uint64_t seq = 0; seq < kCalls; ++seq) {
    one.ops.push_back(example);
    one.ops.back().ticket = seq + 1;
    one.ops.back().seq = seq;
    one.ops.back().count = 64 + (seq < kCalls - kLeftOut ? seq % kLeftOut : seq);
  }
  outcome.run.processes.assign(kRanks, one);
  for (size_t r = 0; r < kRanks; ++r) {
    trace::Process& process = outcome.run.processes[r];
    process.job_rank = process.comms[0].rank = static_cast<int32_t>(r);
    if (r != 700) continue;
    const auto end = process.ops.end() - kLeftOut;
    process.ops.erase(end - kLeftOut, end);
    process.comms[0].collectives -= kLeftOut;
    for (uint64_t seq = 0; seq < process.ops.size(); ++seq) process.ops[seq].seq = seq;
  }
  Report report;
  CHECK(yards_to_judge("1,024 ranks, of which one leaves out a step", outcome.run, report) < 40);
  check_blames(report, Verdict::missing_call, 700);
  CHECK(says(report, "rank 700 left out 40 calls"));
}

// Two ranks in their first step, of which the second has one call less.
Report judge_first_step(size_t short_rank) {
  Program program;
  program.comms.push_back({.ranks = {0, 1}});
  const Steps steps = {call(OpKind::AllReduce, 1),
                       call(OpKind::Broadcast, 2, 0),
                       call(OpKind::AllReduce, 3),
                       {.act = Act::sync}};
  program.ranks.assign(2, steps);
  program.ranks[short_rank].erase(program.ranks[short_rank].begin() + 1);
  return analyse(execute(program).run);
}

TEST_CASE("of two ranks in their first step nobody knows which made a call too many or too few") {
  for (const int short_rank : {0, 1}) {
    const Report report = judge_first_step(static_cast<size_t>(short_rank));
    CHECK(lead(report).verdict == Verdict::missing_call);
    CHECK(lead(report).culprits.size() == 2);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(says(report, fmt::format("rank {} left out Broadcast", short_rank)));
    CHECK(says(report, fmt::format("or rank {} made it without need; nothing on file tells",
                                   1 - short_rank)));
    CHECK_FALSE(says(report, "as in the steps before"));
  }
}

// Every rank reduces as many floats as its string says, a letter a call: (letter - 'A' + 1) * 10;
// small letters gather. `waits`: its host waits for each call.
Program make_letters(bool waits, const std::vector<std::string>& ranks) {
  Program program;
  program.comms.emplace_back();
  for (const std::string& letters : ranks) {
    program.comms[0].ranks.push_back(static_cast<int>(program.ranks.size()));
    Steps& steps = program.ranks.emplace_back();
    for (const char letter : letters) {
      const bool gathers = letter >= 'a';
      const auto number = static_cast<uint64_t>(letter - (gathers ? 'a' : 'A')) + 1;
      steps.push_back(call(gathers ? OpKind::AllGather : OpKind::AllReduce, 10 * number));
      if (waits) steps.push_back({.act = Act::sync});
    }
    steps.push_back({.act = Act::sync});
  }
  return program;
}

// Its calls come before the others' calls in front of them, for which it has not waited.
void let_run_ahead(trace::Process& process) {
  for (trace::Op& op : process.ops) op.called_ns -= 1'000'000'000;
}

TEST_CASE("one call more of a step that repeats itself is not told as others left out") {
  const std::vector<std::vector<std::string>> cases = {
      {"ABBABBABB", "ABBABBBABB"},       // and not two left out
      {"ABABABAB", "ABABBABAB"},         // nor one
      {"ABCABCABC", "ABCABCCABC"},       // nor two
      {"ABCCABCCABCC", "ABCCABCCCABCC"}  // nor three
  };
  for (const std::vector<std::string>& letters : cases) {
    const std::string& usual = letters[0];
    CAPTURE(letters[1]);
    Outcome outcome = execute(make_letters(false, {usual, usual, letters[1], usual}), kLive);
    for (const bool runs_ahead : {false, true}) {
      if (runs_ahead) let_run_ahead(outcome.run.processes[2]);
      const Report report = analyse(outcome.run);
      CHECK(check_blames(report, Verdict::count_mismatch, 2).seq);
      CHECK(says(report, "which ranks 0-1,3 never did"));
      CHECK(says(report, "behind it the calls agree again"));
      // Who may have waited may have left out the end of a step, and be in the next one.
      CHECK(says(report, "rank 2 may instead have left out") == !runs_ahead);
      CHECK(lead(report).confidence == (runs_ahead ? Confidence::certain : Confidence::likely));
    }
  }
}

TEST_CASE("the end of a step that a rank leaves out is not told as calls more with certainty") {
  // As PyTorch averages gradients where there are any: the host waits at the end of each step.
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      for (const uint64_t count : {256u, 16u, 64u, 4u}) {
        if (r == 1 && step == 2 && (count == 64 || count == 4)) continue;
        steps.push_back(call(OpKind::AllReduce, count));
      }
      steps.push_back({.act = Act::sync});
    }
  }
  const Report report = analyse(execute(program, kLive).run);
  CHECK(check_blames(report, Verdict::count_mismatch, 1).seq == 10);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(says(report,
             "rank 1 may instead have left out 2 of the others' calls (what it called is what "
             "came next in the steps before)"));
}

TEST_CASE("one call less of a step that repeats itself is told as left out") {
  for (const char* fewer : {"ABBABABB", "ABBBBABB", "ABBABBAB"}) {
    CAPTURE(fewer);
    const Report report = analyse(
        execute(make_letters(false, {"ABBABBABB", "ABBABBABB", fewer, "ABBABBABB"}), kLive).run);
    CHECK(lead(report).verdict == Verdict::missing_call);
    CHECK_FALSE(says(report, "never did"));
  }
}

TEST_CASE("who waits in its first odd call is told of in all ways that leave that record") {
  SECTION("of one operation with another count the count leads") {
    const Report report = analyse(
        execute(make_letters(true, {"ABBABBABB", "ABBABBABB", "ABBABA", "ABBABBABB"}), kLive).run);
    check_blames(report, Verdict::count_mismatch, 2);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(says(report,
               "rank 2 called AllReduce of 10 float32 (sum) at seq 5 of world where ranks "
               "0-1,3 called AllReduce of 20 float32 (sum) (40 against 80 bytes)"));
    CHECK(says(report,
               "rank 2 may also have left out the others' call (what it called is what came next "
               "in the steps before), or have made one call more"));
    CHECK(lead(report).next.find("what the ranks computed this call from differs, or one of them "
                                 "made a call more or less") != std::string::npos);
  }
  SECTION("of another operation the call left out leads") {
    const Report report = analyse(
        execute(make_letters(true, {"aBcaBcaBc", "aBcaBcaBc", "aBcac", "aBcaBcaBc"}), kLive).run);
    check_blames(report, Verdict::missing_call, 2);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(says(report,
               "rank 2 left out the others' call (what it called is what came next in the steps "
               "before) or was to make it later, or called another in its place, or made one call "
               "more"));
    CHECK_FALSE(says(report, "what the others call next"));
  }
  SECTION("a call that no step had there is a wrong one") {
    const Report report = analyse(
        execute(make_letters(true, {"aBcaBcaBc", "aBcaBcaBc", "aBcaZ", "aBcaBcaBc"}), kLive).run);
    check_blames(report, Verdict::count_mismatch, 2);
    CHECK(lead(report).confidence == Confidence::certain);
    CHECK_FALSE(says(report, "left"));
  }
}

TEST_CASE("calls that the steps before do not have there speak against a call left out") {
  // Eight times two batches of gathers and sums, then two ranks go through one batch more.
  const std::string before = "gggggggSSrggggSSrggggSSrggggSSrggggSSrggggSSr";
  const std::string more = before + "gg" + "ggSS";
  const std::string usual = before + "gg" + "r";
  const Report report =
      analyse(execute(make_letters(false, {more, more, usual, usual}), kLive).run);
  INFO(text_of(report));
  CHECK_FALSE(says(report, "from there on is what"));
  CHECK_FALSE(says(report, "as in the steps before"));
}

// A step of three calls, of which the host waits for the first two alone: it has passed them where
// one was left out, and is a step ahead of those who stand in it.
TEST_CASE("who goes on where the others stand has made no calls more, but left one out") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      if (r != 1 || step != 2) own.push_back(call(OpKind::Reduce, 769, 2));
      own.push_back(call(OpKind::AllReduce, 465));
      own.back().graph = 1;
      own.push_back({.act = Act::sync});
    }
  }
  Outcome outcome = execute(program, kLive);
  SECTION("as the last call was captured into a graph") {}
  SECTION("as the last call is on another stream, for which it does not wait") {
    for (trace::Process& process : outcome.run.processes) {
      for (trace::Op& op : process.ops) {
        if (op.graph != 0) op.stream += 8;
        op.graph = 0;
      }
    }
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(check_blames(report, Verdict::missing_call, 1).seq == 4);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK_FALSE(says(report, "never did"));
  CHECK_FALSE(says(report, "more than"));
}

}  // namespace slip_test
}  // namespace rollcall::analysis
