// A job of which `rollcall run` saw how it ended.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace job_end_test {

trace::Run equal_run() {
  Program program;
  program.comms.emplace_back().ranks = {0, 1};
  const Steps steps = {call(OpKind::AllReduce, 64), {.act = Act::sync}};
  program.ranks = {steps, steps};
  return execute(program).run;
}

trace::JobEnd end_of(const trace::Run& run) {
  trace::JobEnd end;
  end.file = "run/node0.9.1.ended";
  end.host = run.processes[1].host;
  end.run_id = run.processes[1].run_id;
  end.pid = run.processes[1].pid;
  end.number = 1;
  return end;
}

TEST_CASE("a job that ended with a status is not in lockstep with nothing to do") {
  trace::Run run = equal_run();
  REQUIRE(lead(analyse(run)).verdict == Verdict::in_lockstep);
  run.ends = {end_of(run)};
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(report.status == 3);
  CHECK(lead(report).summary.starts_with("the job ended with exit status 1, and the calls"));
  CHECK(lead(report).next.find("nothing to do") == std::string::npos);
  CHECK(lead(report).culprits.empty());
  for (const Finding& finding : report.findings) CHECK(finding.verdict != Verdict::in_lockstep);
}

TEST_CASE("of ranks that were started one by one, the first that failed is named with its signal") {
  trace::Run run = equal_run();
  trace::JobEnd end = end_of(run);
  end.rank = 1;
  end.by_signal = true;
  end.number = 9;
  end.ended_ns = 5;
  trace::JobEnd later = end;
  later.rank = 0;
  later.ended_ns = 6;
  run.ends = {later, end};
  const Report report = analyse(run);
  const Culprit& culprit = check_blames(report, Verdict::insufficient, 1);
  CHECK(culprit.process == 1);
  CHECK(lead(report).summary.find("killed by signal 9") != std::string::npos);
  CHECK(lead(report).next.find("OOM killer") != std::string::npos);
}

TEST_CASE("an end that somebody asked for, or of another run in the directory, changes nothing") {
  const trace::Run run = equal_run();
  const Report before = analyse(run);
  for (const trace::EndReason reason :
       {trace::EndReason::signal, trace::EndReason::hang, trace::EndReason::time_limit}) {
    trace::Run ended = run;
    ended.ends = {end_of(run)};
    ended.ends[0].reason = reason;
    CHECK(lead(analyse(ended)).summary == lead(before).summary);
  }
  trace::Run other = run;
  other.ends = {end_of(run)};
  ++other.ends[0].run_id;
  CHECK(lead(analyse(other)).summary == lead(before).summary);
  CHECK(lead(analyse(other)).verdict == Verdict::in_lockstep);
}

TEST_CASE("where the calls tell the cause it leads, and the end is evidence") {
  Program program;
  program.comms.emplace_back().ranks = {0, 1};
  program.ranks = {{call(OpKind::AllReduce, 64), {.act = Act::sync}}, {{.act = Act::stick}}};
  trace::Run run = execute(program).run;
  const Report before = analyse(run);
  REQUIRE(is_defect(lead(before)));
  run.ends = {end_of(run)};
  const Report report = analyse(run);
  CHECK(lead(report).verdict == lead(before).verdict);
  CHECK(lead(report).summary == lead(before).summary);
  CHECK(report.status == before.status);
  CHECK(lead(report).evidence.back().text == "the job ended with exit status 1");
}

}  // namespace job_end_test
}  // namespace rollcall::analysis
