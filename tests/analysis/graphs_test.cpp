// What ranks capture into CUDA graphs, and where that differs.
#include <limits>

#include "tests/analysis/cost.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace graphs_test {

constexpr int kData = 1;          // ranks 0 and 2
constexpr uint64_t kMissing = 1;  // seq on kData that rank 2 has not

Step captured(OpKind kind) {
  Step step = call(kind, 8, -1, kData);
  step.graph = 1;
  return step;
}

// All capture on their data-parallel communicator, then meet on the world.
Program make_capturing() {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 2}, .parent = 0}};
  program.ranks.assign(4, {call(OpKind::AllReduce, 4)});
  for (const size_t r : {0u, 2u}) {
    program.ranks[r].push_back(captured(OpKind::AllReduce));
    program.ranks[r].push_back(captured(OpKind::AllGather));
  }
  for (Steps& steps : program.ranks) {
    steps.push_back(call(OpKind::AllReduce, 4));
    steps.push_back({.act = Act::sync});
  }
  return program;
}

void capture_less(Program& program) {
  std::erase_if(program.ranks[2],
                [](const Step& step) { return step.graph != 0 && step.kind == OpKind::AllGather; });
}

void stand_still(Program& program) {
  for (Steps& steps : program.ranks) steps.push_back({.act = Act::stick});
}

trace::Op& add_launch(trace::Process& process, uint32_t graph, uint64_t replay) {
  trace::Op launch = process.ops.back();
  launch.kind = OpKind::GraphLaunch;
  launch.graph = graph;
  launch.seq = replay;
  launch.comm = kCommUnknown;
  launch.ticket = process.next_ticket++;
  launch.called_ns += 2000;
  launch.returned_ns += 2000;
  process.ops.push_back(launch);
  return process.ops.back();
}

void watch_launches(Outcome& outcome) {
  for (trace::Process& process : outcome.run.processes) process.meta["graph_launches"] = "watched";
}

void add_launches(Outcome& outcome) {
  watch_launches(outcome);
  for (const size_t r : {0u, 2u}) add_launch(outcome.run.processes[r], 1, 0);
}

const Options kNeverStale = {.ended_threshold_ns = std::numeric_limits<int64_t>::max() / 4};

// Ranks on one communicator: the same call, then what they capture into graph 1.
Program make_alike(size_t ranks, std::initializer_list<OpKind> kinds) {
  Program program;
  program.comms.emplace_back();
  for (size_t r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(static_cast<int>(r));
  program.ranks.assign(ranks, {call(OpKind::AllReduce, 4)});
  for (Steps& steps : program.ranks) {
    for (const OpKind kind : kinds) {
      steps.push_back(call(kind, 8));
      steps.back().graph = 1;
    }
  }
  return program;
}

TEST_CASE("a rank that captured less is named though no call on that communicator follows") {
  Program program = make_capturing();
  capture_less(program);
  stand_still(program);
  Outcome outcome = execute(program);
  SECTION("its launches are on file") {
    add_launches(outcome);
    const Report report = analyse(outcome.run);
    CHECK(check_blames(report, Verdict::graph_diverged, 2).seq == kMissing);
    CHECK(lead(report).confidence == Confidence::certain);
  }
  SECTION("no launches are on file") {
    for (const char* timing : {"events", "off", "off (no driver)"}) {
      for (trace::Process& process : outcome.run.processes) process.meta["gpu_timing"] = timing;
      const Report report = analyse(outcome.run);
      CHECK(check_blames(report, Verdict::graph_diverged, 2).seq == kMissing);
      CHECK(lead(report).confidence == Confidence::likely);
      CHECK(lead(report).summary.find("captured 1 operation") != std::string::npos);
      // Without GPU timing what the plugin hears is in one graph.
      const bool is_timed = std::string_view(timing) == "events";
      for (const char* part :
           {"into CUDA graphs from seq", "launches of graphs were not recorded"}) {
        CHECK((lead(report).summary.find(part) == std::string::npos) == is_timed);
      }
    }
  }
  SECTION("the profiler plugin recorded it alone") {
    for (trace::Process& process : outcome.run.processes) process.knowledge.creations = false;
    const Report report = analyse(outcome.run);
    CHECK(check_blames(report, Verdict::graph_diverged, 2).seq == kMissing);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(lead(report).summary.find("hears of no launch of a graph") != std::string::npos);
  }
  SECTION("it was ended before anybody could see it hang") {
    const Report report = analyse(outcome.run, kNeverStale);
    CHECK(check_blames(report, Verdict::graph_diverged, 2).seq == kMissing);
    CHECK(lead(report).confidence == Confidence::likely);
  }
}

TEST_CASE("a rank that has not come as far as a captured call did not capture less") {
  Program program = make_capturing();
  Steps& steps = program.ranks[2];
  SECTION("it stands before all of them") { steps.resize(1); }
  SECTION("it stands in the middle of its graph") { steps.resize(2); }
  steps.push_back({.act = Act::stick});
  const Report report = analyse(execute(program).run);
  CHECK(check_blames(report, Verdict::missing_call, 2).comm_name == "world");
}

TEST_CASE("who captured less is not known as long as nobody made a call behind") {
  Program program = make_capturing();
  for (Steps& steps : program.ranks) steps.resize(steps.size() - 2);  // nor do they meet again
  capture_less(program);
  stand_still(program);
  CHECK(lead(analyse(execute(program).run)).verdict == Verdict::insufficient);
}

TEST_CASE("graphs that differ in a job that ended well are told of, and blamed for nothing") {
  Program program = make_capturing();
  capture_less(program);
  const Report report = analyse(execute(program).run);
  REQUIRE(report.findings.size() == 1);
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.status == 0);
  CHECK(lead(report).summary.find("rank 2 captured 1 operation") != std::string::npos);
}

TEST_CASE("graphs that are equal are not told of") {
  Program program = make_capturing();
  SECTION("in a job that ended") {
    const Report report = analyse(execute(program).run);
    CHECK(lead(report).verdict == Verdict::in_lockstep);
    CHECK(lead(report).summary.find("captured") == std::string::npos);
  }
  SECTION("in one that stands still") {
    stand_still(program);
    CHECK(lead(analyse(execute(program).run)).verdict == Verdict::insufficient);
  }
}

TEST_CASE("the rank that is ahead of the others in the same graph is not blamed") {
  Program program = make_alike(4, {OpKind::AllReduce, OpKind::AllGather});
  for (const size_t r : {0u, 1u, 2u}) program.ranks[r].pop_back();
  stand_still(program);
  Outcome outcome = execute(program);
  SECTION("launches are watched") { watch_launches(outcome); }
  SECTION("they are not") {}
  CHECK(lead(analyse(outcome.run)).verdict == Verdict::insufficient);
  CHECK(lead(analyse(outcome.run, kNeverStale)).verdict == Verdict::in_lockstep);
}

TEST_CASE("a rank that has not begun a second graph is not said to have captured less") {
  Program program = make_alike(4, {OpKind::AllReduce, OpKind::AllGather});
  stand_still(program);
  Outcome outcome = execute(program);
  watch_launches(outcome);
  for (size_t r = 0; r < 4; ++r) {
    trace::Process& process = outcome.run.processes[r];
    const trace::Op captured = process.ops.back();
    for (uint64_t replay = 0; replay < 5; ++replay) {
      add_launch(process, 1, replay).finished_ns = process.ops.back().returned_ns + 1;
    }
    if (r == 2) continue;
    trace::Op op = captured;
    op.graph = 2;
    ++op.seq;
    op.ticket = process.next_ticket++;
    op.called_ns = process.ops.back().called_ns + 2000;
    op.returned_ns = op.called_ns + 1000;
    process.ops.push_back(op);
    ++process.comms[op.comm].collectives;
  }
  for (const Options& options : {Options{}, kNeverStale}) {
    const Report report = analyse(outcome.run, options);
    INFO(text_of(report));
    for (const Finding& finding : report.findings) {
      CHECK(finding.verdict != Verdict::graph_diverged);
    }
  }
}

TEST_CASE("a lost record inside a graph is not taken for one that was not captured") {
  Program program = make_alike(4, {OpKind::AllReduce, OpKind::AllGather, OpKind::AllReduce});
  stand_still(program);
  Outcome outcome = execute(program);
  watch_launches(outcome);
  trace::Process& process = outcome.run.processes[1];
  const auto lose = [&](ptrdiff_t at) { process.ops.erase(process.ops.begin() + at); };
  SECTION("torn") {
    lose(2);
    process.torn = 1;
  }
  SECTION("not recorded") {
    lose(2);
    process.skipped = 1;
  }
  SECTION("in front of the graph") {
    lose(0);
    process.skipped = 1;
  }
  SECTION("the graph's first ones") {
    lose(0);
    lose(0);
    process.skipped = 2;
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  for (const Finding& finding : report.findings) {
    CHECK(finding.verdict != Verdict::graph_diverged);
  }
}

TEST_CASE("ranks that captured less, one than the other, are each named with its own difference") {
  Program program =
      make_alike(6, {OpKind::AllReduce, OpKind::AllGather, OpKind::AllReduce, OpKind::AllGather});
  program.ranks[4].resize(2);
  program.ranks[5].resize(4);
  stand_still(program);
  Outcome outcome = execute(program);
  watch_launches(outcome);
  for (trace::Process& process : outcome.run.processes) add_launch(process, 1, 0);
  const Finding finding = lead(analyse(outcome.run));
  INFO(finding.summary);
  CHECK(finding.verdict == Verdict::graph_diverged);
  CHECK(finding.confidence == Confidence::certain);
  CHECK(finding.summary.find("ranks 4-5 captured 1 to 3 operations") != std::string::npos);
  REQUIRE(finding.culprits.size() == 2);
  CHECK(finding.culprits[0].seq == 2u);
  CHECK(finding.culprits[1].seq == 4u);
}

// All replay a graph twice, but rank 2 once, which waits in the call behind.
Outcome replay_once_less() {
  Program program = make_alike(4, {OpKind::AllReduce, OpKind::AllGather});
  stand_still(program);
  Outcome outcome = execute(program);
  watch_launches(outcome);
  for (trace::Process& process : outcome.run.processes) {
    const trace::Op eager = process.ops.front();
    trace::Op& first = add_launch(process, 1, 0);
    first.started_ns = first.called_ns + 1;
    first.finished_ns = first.called_ns + 2;
    trace::Op& second = add_launch(process, 1, 1);
    second.started_ns = second.called_ns + 1;
    second.finished_ns = 0;
    second.awaits_gpu = true;
    if (process.job_rank != 2) continue;
    trace::Op next = eager;
    next.seq = process.comms[next.comm].collectives++;
    next.ticket = second.ticket;
    next.called_ns = second.called_ns;
    next.returned_ns = second.returned_ns;
    next.awaits_gpu = true;
    second = next;
  }
  return outcome;
}

TEST_CASE("who waits in a replay that another rank has not launched is not taken for silent") {
  Outcome outcome = replay_once_less();
  SECTION("the replay has begun and is not through") {
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::graph_diverged, 2);
    CHECK(lead(report).confidence == Confidence::certain);
    CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3});
    CHECK(report.findings.size() == 1);
    REQUIRE(lead(report).consequences.size() == 1);
    CHECK(lead(report).consequences[0].verdict == Verdict::missing_call);
  }
  SECTION("one of them is through with it, and silent") {
    outcome.run.processes[1].ops.back().finished_ns = outcome.run.processes[1].ops.back().called_ns;
    outcome.run.processes[1].ops.back().awaits_gpu = false;
    CHECK(lead(analyse(outcome.run)).verdict == Verdict::missing_call);
  }
  SECTION("the replay waits behind something else") {
    for (trace::Process& process : outcome.run.processes) {
      if (process.job_rank != 2) process.ops.back().started_ns = 0;
    }
    CHECK(lead(analyse(outcome.run)).verdict == Verdict::missing_call);
  }
}

// Three replays of the first graph and three of the second, each with the replay that others lack
// not through; behind them all gather.
Outcome replay_two_graphs() {
  Program program = make_alike(4, {OpKind::AllReduce, OpKind::AllReduce});
  for (Steps& steps : program.ranks) {
    steps.push_back(call(OpKind::AllGather, 16));
    for (int i = 0; i < 2; ++i) {
      steps.push_back(call(OpKind::AllReduce, 32));
      steps.back().graph = 2;
    }
  }
  stand_still(program);
  Outcome outcome = execute(program);
  watch_launches(outcome);
  for (trace::Process& process : outcome.run.processes) {
    const trace::Op eager = process.ops.front();
    const auto launch = [&](uint32_t graph, uint64_t replay, bool is_through) {
      trace::Op& op = add_launch(process, graph, replay);
      op.started_ns = op.called_ns + 1;
      op.finished_ns = is_through ? op.called_ns + 2 : 0;
      op.awaits_gpu = !is_through;
    };
    const bool is_odd = process.job_rank == 2;
    launch(1, 0, true);
    launch(2, 0, true);
    launch(is_odd ? 1 : 2, 1, false);
    trace::Op next = eager;
    next.kind = OpKind::AllGather;
    next.seq = process.comms[next.comm].collectives++;
    next.ticket = process.next_ticket++;
    next.called_ns = process.ops.back().called_ns + 1;
    next.returned_ns = next.called_ns + 1;
    next.started_ns = next.finished_ns = 0;
    next.awaits_gpu = true;
    process.ops.push_back(next);
  }
  return outcome;
}

TEST_CASE("who replays another graph than the others is named, not they") {
  Outcome outcome = replay_two_graphs();
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  check_blames(report, Verdict::graph_diverged, 2);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3});
  CHECK(lead(report).misstep == Misstep::other_operation);
  CHECK(lead(report).summary.find("it is the other way round") != std::string::npos);
  CHECK(lead(report).next.find("look at what decides which graph is launched") == 0);
}

TEST_CASE("who replays a graph once more than the others is named where they went on") {
  Outcome outcome = replay_two_graphs();
  for (trace::Process& process : outcome.run.processes) {
    const auto launch = process.ops.end() - 2;
    if (process.job_rank == 2) {
      launch->graph = 1;
    } else {
      process.ops.erase(launch);
    }
  }
  SECTION("they wait behind it") {
    const Report report = analyse(outcome.run);
    INFO(text_of(report));
    check_blames(report, Verdict::graph_diverged, 2);
    CHECK(lead(report).summary.find("rank 2 replayed the graph") == 0);
    CHECK(lead(report).misstep == Misstep::made_more);
    CHECK(lead(report).summary.find("2 times, ranks 0-1,3 1 time") != std::string::npos);
    CHECK(lead(report).summary.find("other way") == std::string::npos);
  }
  SECTION("they have made no call since, and may owe it") {
    for (trace::Process& process : outcome.run.processes) {
      process.ops.pop_back();
      process.comms[0].collectives--;
    }
    const Report report = analyse(outcome.run);
    INFO(text_of(report));
    CHECK(lead(report).summary.find("rank 2 replayed the graph") == std::string::npos);
  }
}

TEST_CASE("replays that differ are not told of as captures in a job that goes on") {
  Program program = make_capturing();
  Outcome outcome = execute(program);
  watch_launches(outcome);
  for (const uint64_t replay : {0u, 1u}) add_launch(outcome.run.processes[0], 1, replay);
  add_launch(outcome.run.processes[2], 1, 0);
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).summary.find("captured") == std::string::npos);
}

TEST_CASE("who captured another call than its partner is told by what the other pairs captured") {
  constexpr int kOdd = 2;
  const auto captured_into = [](uint32_t graph, OpKind kind, int root, int comm) {
    Step step = call(kind, 8, root, comm);
    step.graph = graph;
    return step;
  };
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}},
                   {.ranks = {0, 1}, .parent = 0},
                   {.ranks = {2, 3}, .parent = 0, .colour = 1}};
  program.ranks.resize(4);
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    own.push_back(captured_into(1, OpKind::Broadcast, 0, 0));
    if (r != kOdd) own.push_back(captured_into(1, OpKind::AllGather, -1, 1 + r / 2));
    own.push_back(captured_into(2, OpKind::AllReduce, -1, 1 + r / 2));
    own.insert(
        own.end(),
        {{.act = Act::replay, .graph = 1}, {.act = Act::replay, .graph = 2}, {.act = Act::sync}});
  }
  const Report report =
      analyse(execute(program, {.stall_ns = 60'000'000'000, .watched = true}).run, {});
  check_blames(report, Verdict::graph_diverged, kOdd);
}

TEST_CASE("equal graphs of eight thousand ranks are compared in a moment", "[scale]") {
  Program program = make_alike(2, {OpKind::AllReduce, OpKind::AllGather});
  for (Steps& steps : program.ranks) {
    for (uint32_t graph = 2; graph < 20; ++graph) {
      for (int i = 0; i < 10; ++i) {
        steps.push_back(call(OpKind::AllReduce, 8));
        steps.back().graph = graph;
      }
    }
  }
  stand_still(program);
  Outcome outcome = execute(program);
  multiply(outcome.run, 8192);
  Report report;
  CHECK(yards_to_judge("equal graphs of 8,192 ranks", outcome.run, report) < 60);
  CHECK(lead(report).verdict == Verdict::insufficient);
}

}  // namespace graphs_test
}  // namespace rollcall::analysis
