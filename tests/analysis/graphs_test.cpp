// What ranks capture into CUDA graphs, and where that differs.
#include <limits>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace {

constexpr int kWorld = 0;
constexpr int kData = 1;  // ranks 0 and 2
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
  std::erase_if(program.ranks[2], [](const Step& step) {
    return step.graph != 0 && step.kind == OpKind::AllGather;
  });
}

void stand_still(Program& program) {
  for (Steps& steps : program.ranks) steps.push_back({.act = Act::stick});
}

// Launches of the graphs: by the ranks that have one.
void add_launches(Outcome& outcome) {
  for (const size_t r : {0u, 2u}) {
    trace::Process& process = outcome.run.processes[r];
    trace::Op launch = process.ops.back();
    launch.kind = OpKind::GraphLaunch;
    launch.graph = 1;
    launch.seq = 0;
    ++launch.ticket;
    launch.called_ns += 2000;
    launch.returned_ns += 2000;
    process.next_ticket = launch.ticket + 1;
    process.ops.push_back(launch);
  }
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
    const Report report = analyse(outcome.run);
    CHECK(check_blames(report, Verdict::graph_diverged, 2).seq == kMissing);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(lead(report).summary.find("captured 1 operations") != std::string::npos);
  }
  SECTION("the profiler plugin recorded it alone") {
    for (trace::Process& process : outcome.run.processes) process.knowledge.creations = false;
    const Report report = analyse(outcome.run);
    CHECK(check_blames(report, Verdict::graph_diverged, 2).seq == kMissing);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(lead(report).summary.find("hears of no launch of a graph") != std::string::npos);
  }
  SECTION("it was ended before anybody could see it hang") {
    const Report report = analyse(
        outcome.run, {.ended_threshold_ns = std::numeric_limits<int64_t>::max() / 4});
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
  CHECK(lead(report).summary.find("rank 2 captured 1 operations") != std::string::npos);
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

}  // namespace
}  // namespace rollcall::analysis
