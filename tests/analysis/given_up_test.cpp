// A rank that comes when the others have waited, and are gone.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace given_up_test {

constexpr int64_t kSecondNs = 1'000'000'000;

// Four ranks call five times; rank 2 makes the last call when it is too late. `left`: when each of
// the others was last seen, and rank 2 came, behind the call in which they wait.
struct Late {
  int64_t left_s = 20;
  int64_t came_s = 40;
  int64_t end_s = 60;
  size_t ranks = 4;
  OpKind kind = OpKind::AllReduce;
};

Outcome make_late(const Late& late) {
  Program program;
  program.comms.emplace_back();
  for (size_t r = 0; r < late.ranks; ++r) {
    program.comms[0].ranks.push_back(static_cast<int>(r));
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      steps.push_back(call(OpKind::AllReduce, 16));
      steps.push_back({.act = Act::sync});
    }
    if (r == 2) steps.push_back({.act = Act::stick});
    steps.push_back(call(late.kind, 16));
    steps.push_back({.act = Act::sync});
  }
  Outcome outcome = execute(program);
  int64_t began_ns = 0;
  for (const trace::Process& process : outcome.run.processes) {
    began_ns = std::max(began_ns, process.ops.back().called_ns);
  }
  for (trace::Process& process : outcome.run.processes) {
    process.heartbeat_ns = began_ns + late.left_s * kSecondNs;
    if (process.job_rank != 2) continue;
    trace::Op op = outcome.run.processes[0].ops.back();
    op.ticket = process.next_ticket++;
    op.called_ns = began_ns + late.came_s * kSecondNs;
    op.returned_ns = op.called_ns + 1000;
    process.ops.push_back(op);
    ++process.comms[0].collectives;
    process.heartbeat_ns = began_ns + late.end_s * kSecondNs;
  }
  return outcome;
}

// The same call, a moment later.
void call_once_more(trace::Process& process) {
  trace::Op op = process.ops.back();
  ++op.ticket;
  op.seq = process.comms[0].collectives++;
  op.called_ns += 1'000'000;
  op.returned_ns = op.called_ns + 1000;
  process.ops.push_back(op);
}

void check_names_late(const Report& report) {
  const Culprit& culprit = check_blames(report, Verdict::missing_call, 2);
  CHECK(culprit.seq == 4u);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).victims.size() == 3);
  CHECK(lead(report).summary.find("for 20.0 s") != std::string::npos);
  CHECK(lead(report).summary.find("called again 20.0 s later") != std::string::npos);
  CHECK(report.status == 1);
}

TEST_CASE("a rank that comes when the others have aborted is named, not they") {
  Outcome outcome = make_late({});
  for (trace::Process& process : outcome.run.processes) {
    if (process.job_rank == 2) continue;
    add_abort(process, 0, process.heartbeat_ns);
    process.heartbeat_ns += 40 * kSecondNs;
  }
  const Report report = analyse(outcome.run);
  check_names_late(report);
}

TEST_CASE("a rank that comes when the others have died is named, not they") {
  const Report report = analyse(make_late({}).run);
  check_names_late(report);
  REQUIRE_FALSE(lead(report).consequences.empty());
  CHECK(lead(report).consequences[0].verdict == Verdict::rank_dead);
}

// Of all calls in which nobody waits.
void finish_on_gpus(trace::Run& run) {
  for (trace::Process& process : run.processes) {
    for (trace::Op& op : process.ops) {
      op.started_ns = op.returned_ns + 1000;
      if (op.seq < 4) op.finished_ns = op.started_ns + 1000;
      op.state = op.seq < 4 ? trace::OpState::finished : trace::OpState::started;
    }
  }
}

TEST_CASE("what a late rank's GPU ended by itself is not what the others waited for") {
  for (const bool ended_by_itself : {true, false}) {
    Outcome outcome = make_late({});
    finish_on_gpus(outcome.run);
    std::vector<trace::Op>& ops = outcome.run.processes[2].ops;
    trace::Op& earlier = ops[ops.size() - 2];
    REQUIRE(earlier.seq == 3);
    earlier.finished_ns = ended_by_itself ? ops.back().called_ns + 1'000'000 : 0;
    if (!ended_by_itself) earlier.state = trace::OpState::started;
    earlier.awaits_gpu = !ended_by_itself;
    const Report report = analyse(outcome.run);
    if (ended_by_itself) {
      check_names_late(report);
    } else {
      check_blames(report, Verdict::stuck_on_gpu, 2);
    }
  }
}

TEST_CASE("a rank that came too late and still stands is named in the running job") {
  Outcome outcome = make_late({});
  outcome.run.live = true;
  trace::Process& late = outcome.run.processes[2];
  late.liveness = trace::Liveness::running;
  outcome.run.read_at_ns = late.heartbeat_ns;
  check_names_late(analyse(outcome.run));
}

TEST_CASE("of two ranks the one that died while it waited is named, as long as it did not abort") {
  // Anything may have killed it.
  const Report died = analyse(make_late({.ranks = 3}).run);
  check_blames(died, Verdict::missing_call, 2);
  Outcome outcome = make_late({.ranks = 3});
  outcome.run.processes.erase(outcome.run.processes.begin() + 1);
  for (trace::Process& process : outcome.run.processes) {
    process.comms[0].nranks = 2;
    if (process.job_rank == 2) process.comms[0].rank = 1;
  }
  const Report alone = analyse(outcome.run);
  check_blames(alone, Verdict::rank_dead, 0);
}

TEST_CASE("a rank that comes while one still waits is not late") {
  Outcome outcome = make_late({});
  outcome.run.processes[0].heartbeat_ns += 40 * kSecondNs;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::rank_dead);
}

TEST_CASE("the dead are said to have waited long for a rank that came while they were there") {
  // A watchdog takes its time over the end.
  for (const int64_t came_s : {14, 1}) {
    Outcome outcome = make_late({.left_s = 25, .came_s = came_s, .end_s = 40});
    call_once_more(outcome.run.processes[2]);
    const Report report = analyse(outcome.run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::rank_dead);
    const bool is_mentioned =
        lead(report).summary.find("rank 2 came 14.0 s later") != std::string::npos;
    CHECK(is_mentioned == (came_s == 14));
  }
}

TEST_CASE("dumps of those who gave up before a late rank came tell how late it was") {
  for (const int64_t came_s : {14, 1}) {
    Outcome outcome = make_late({.left_s = 25, .came_s = came_s, .end_s = 40});
    call_once_more(outcome.run.processes[2]);
    for (trace::Process& process : outcome.run.processes) {
      process.recorder = "flight_recorder";
      process.liveness = trace::Liveness::unknown;
      process.heartbeat_ns = 0;
    }
    const Report report = analyse(outcome.run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::missing_call);
    const bool is_mentioned =
        lead(report).summary.find("rank 2 came 14.0 s later") != std::string::npos;
    CHECK(is_mentioned == (came_s == 14));
  }
}

TEST_CASE("a rank that had died by then is named, not one that came late besides") {
  Outcome outcome = make_late({.ranks = 6});
  for (trace::Process& process : outcome.run.processes) {
    if (process.job_rank == 2) continue;
    if (process.job_rank != 3) {
      add_abort(process, 0, process.heartbeat_ns);
      continue;
    }
    process.ops.pop_back();
    --process.comms[0].collectives;
    process.heartbeat_ns = process.ops.back().called_ns + 100'000'000;
  }
  check_blames(analyse(outcome.run), Verdict::rank_dead, 3);
}

TEST_CASE("who was killed after a moment of waiting has not waited for a late rank") {
  const Report report = analyse(make_late({.left_s = 3, .came_s = 6, .end_s = 20}).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::rank_dead);
  for (const Finding& finding : report.findings) {
    REQUIRE(finding.culprits.size() == 1);
    CHECK(finding.culprits[0].rank != 2);
  }
}

TEST_CASE("the dead of an hour later have not died of a late rank") {
  Outcome outcome = make_late({.left_s = 3600, .came_s = 14, .end_s = 3700});
  call_once_more(outcome.run.processes[2]);
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::rank_dead);
  CHECK(lead(report).summary.find("later than all others") == std::string::npos);
}

TEST_CASE("who goes on when the others are gone has not hung them by that") {
  // Nobody waited: they died between two calls.
  Outcome outcome = make_late({});
  for (trace::Process& process : outcome.run.processes) {
    if (process.job_rank == 2) continue;
    process.ops.pop_back();
    --process.comms[0].collectives;
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  REQUIRE_FALSE(lead(report).culprits.empty());
  for (const Culprit& culprit : lead(report).culprits) CHECK(culprit.rank != 2);
}

TEST_CASE(
    "an abort after a moment of waiting is nothing the rest is blamed for, which comes later") {
  // Rank 0 alone aborts what the others have not come to.
  Outcome outcome = make_late({.left_s = 2, .came_s = 4, .end_s = 30});
  const int64_t began_ns = outcome.run.processes[0].ops.back().called_ns;
  const trace::Op late = outcome.run.processes[2].ops.back();
  for (trace::Process& process : outcome.run.processes) {
    process.heartbeat_ns = began_ns + 30 * kSecondNs;
    if (process.job_rank == 0) {
      add_abort(process, 0, began_ns + 2 * kSecondNs);
    } else {
      process.ops.back() = late;
    }
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  for (const Culprit& culprit : lead(report).culprits) CHECK(culprit.rank == 0);
  CHECK(lead(report).verdict == Verdict::insufficient);
}

}  // namespace given_up_test
}  // namespace rollcall::analysis
