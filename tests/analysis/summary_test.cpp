// The table of how each rank stands at the first difference.
#include "analysis/views/stream_order.h"
#include "analysis/words/tables.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace summary_test {

// Four ranks reduce twice, and the second time rank 1 does it otherwise.
Program make_job(void (*change)(Step&)) {
  Program program;
  program.comms.push_back({.ranks = {0, 1, 2, 3}});
  program.ranks.assign(4, {call(OpKind::AllReduce, 100), call(OpKind::AllReduce, 100)});
  change(program.ranks[1][1]);
  return program;
}

TEST_CASE("of a mismatch that the job went past no rank is said to wait") {
  Outcome outcome = execute(make_job([](Step& step) { step.reduction = 2; }));
  for (trace::Process& process : outcome.run.processes) {
    process.liveness = trace::Liveness::exited;
    process.exited_ns = process.heartbeat_ns;
  }
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::redop_mismatch);
  CHECK(lead(report).severity == Severity::corruption);
  REQUIRE(report.table.size() == 4);
  for (const RankRow& row : report.table) {
    CHECK(row.state == "went past it");
    CHECK(row.since.empty());
  }
}

TEST_CASE(
    "of a call that came back the table says how long ago, and of a captured one that it was") {
  for (const uint32_t graph : {0u, 1u}) {
    Program program;
    program.comms.push_back({.ranks = {0, 1, 2, 3}});
    program.ranks.assign(4, {call(OpKind::AllReduce, 100), call(OpKind::AllReduce, 100)});
    trace::Run run = execute(program, kLive).run;
    for (trace::Process& process : run.processes) process.ops[1].graph = graph;
    const Index index(run);
    const Options options;
    const JobState job = judge_processes(index, options);
    const std::vector<Difference> differences;
    const StreamOrderChoice waits(index, options, job, differences, differences);
    Draft draft;
    draft.group = 0;
    draft.seq = 1;
    draft.finding.severity = Severity::hang;
    const std::vector<RankRow> rows = standing_of(waits.facts(), draft);
    REQUIRE(rows.size() == 4);
    for (const RankRow& row : rows) {
      CHECK(row.state == (graph == 0 ? "returned" : "captured into a graph"));
      CHECK(row.since.ends_with(" ago"));
    }
  }
}

TEST_CASE("of a mismatch that ranks stand in it is said for how long they wait") {
  const Report report = analyse(execute(make_job([](Step& step) { ++step.count; }), kLive).run);
  CHECK(lead(report).verdict == Verdict::count_mismatch);
  CHECK(lead(report).severity == Severity::hang);
  REQUIRE(report.table.size() == 4);
  for (const RankRow& row : report.table) {
    CHECK(row.state == "waits");
    CHECK(row.since.starts_with("for "));
  }
}

}  // namespace summary_test
}  // namespace rollcall::analysis
