// Errors that NCCL returned: to whom, in what, and what follows from them.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace errors_test {

constexpr int64_t kMillisecondNs = 1'000'000;
constexpr int16_t kSystemError = 2;
constexpr int16_t kInvalidArgument = 4;
constexpr int16_t kInvalidUsage = 5;

Outcome make_outcome(int ranks) {
  Program program;
  program.comms.emplace_back();
  for (int r = 0; r < ranks; ++r) {
    program.comms[0].ranks.push_back(r);
    program.ranks.push_back({call(OpKind::AllReduce, 8), {.act = Act::sync}});
  }
  return execute(program);
}

void add_failure(trace::Process& process, int16_t result, int64_t at_ns, const std::string& text) {
  trace::Event event{.kind = EventKind::CallFailed, .called_ns = at_ns, .text = text};
  event.returned_ns = at_ns + 1000;
  event.ticket = process.events.size() + 1;
  event.comm = 0;
  event.result = result;
  event.arguments[0] = -1;
  process.events.push_back(event);
}

// The process has made no call but the one that creates its communicator.
void stay_in_making(trace::Process& process, CommState state) {
  process.ops.clear();
  trace::Comm& comm = process.comms[0];
  comm.state = state;
  comm.collectives = 0;
  comm.ready_ns = comm.ended_ns = 0;
}

void end(trace::Process& process, int64_t at_ns) {
  process.exited_ns = process.heartbeat_ns = at_ns;
  process.liveness = trace::Liveness::exited;
}

// NCCL refuses all ranks their communicator, the last one first.
struct Refused {
  int16_t result = kInvalidUsage;
  std::vector<std::string> texts = {"", "Multiple Ranks are using the same GPU", "Multiple", ""};
};
Outcome make_refused(const Refused& refused) {
  Outcome outcome = make_outcome(4);
  const int64_t at_ns = outcome.run.processes[0].comms[0].created_ns + kMillisecondNs;
  for (size_t r = 0; r < 4; ++r) {
    trace::Process& process = outcome.run.processes[r];
    stay_in_making(process, CommState::failed);
    const auto later = static_cast<int64_t>(3 - r);
    add_failure(process, refused.result, at_ns + later * kMillisecondNs, refused.texts[r]);
    end(process, at_ns + 100 * kMillisecondNs);
  }
  return outcome;
}

TEST_CASE("a communicator that NCCL refuses to all of its ranks is no rank's fault") {
  const Report report = analyse(make_refused({}).run);
  INFO(text_of(report));
  CHECK(report.findings.size() == 1);
  CHECK(lead(report).verdict == Verdict::async_error);
  CHECK(lead(report).culprits.empty());
  CHECK(lead(report).victims.size() == 4);
  CHECK(lead(report).summary.find("refused to make") != std::string::npos);
  CHECK(lead(report).summary.find("on all 4 ranks") != std::string::npos);
  CHECK(lead(report).summary.find("the same GPU") != std::string::npos);
  CHECK(lead(report).next.find("network") == std::string::npos);
  CHECK(report.status == 1);
}

TEST_CASE("what broke on one rank and reached the others is told of the first") {
  const Outcome outcome = make_refused(
      {kSystemError, {"socket closed", "socket closed", "socket closed", "no memory"}});
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::async_error, 3);
  CHECK(lead(report).next.find("network") != std::string::npos);
  const std::vector<std::string> same(4, "no shared memory");
  CHECK(lead(analyse(make_refused({kSystemError, same}).run)).culprits.empty());
}

TEST_CASE("an error that not all ranks of a communicator got is told of the first") {
  Outcome outcome = make_refused({});
  outcome.run.processes[1].events.back().result = kSystemError;
  check_blames(analyse(outcome.run), Verdict::async_error, 3);
  outcome = make_refused({});
  // A communicator that was there.
  for (trace::Process& process : outcome.run.processes) {
    process.comms[0].state = CommState::destroyed;
  }
  check_blames(analyse(outcome.run), Verdict::async_error, 3);
}

// NCCL refuses the second call to those of four ranks that come to it.
constexpr size_t kRefused = 1;
struct RefusedCall {
  size_t came = 4;
  size_t let_pass = 0;     // of those that came, the first ones
  bool has_other = false;  // the last rank passed another count
  bool is_in_pairs = false;
};
Outcome make_refused_call(const RefusedCall& refused) {
  Program program;
  if (refused.is_in_pairs) {
    program.comms = {{.ranks = {0, 1}}, {.ranks = {2, 3}}};
  } else {
    program.comms = {{.ranks = {0, 1, 2, 3}}};
  }
  for (int r = 0; r < 4; ++r) {
    const int comm = refused.is_in_pairs ? r / 2 : 0;
    const bool is_other = refused.has_other && r == 3;
    Steps steps = {call(OpKind::AllReduce, 8, -1, comm),
                   {.act = Act::sync},
                   call(OpKind::Broadcast, is_other ? 5 : 4, 17, comm)};
    if (static_cast<size_t>(r) >= refused.came) steps.resize(2);
    program.ranks.push_back(steps);
  }
  Outcome outcome = execute(program);
  for (size_t r = refused.let_pass; r < refused.came; ++r) {
    trace::Process& process = outcome.run.processes[r];
    trace::Op& op = process.ops[kRefused];
    op.state = trace::OpState::failed;
    op.result = kInvalidArgument;
    add_failure(process, kInvalidArgument, op.called_ns, r == 1 ? "invalid root 17" : "");
    process.events.back().arguments[0] = static_cast<int64_t>(op.kind);
    process.events.back().arguments[1] = static_cast<int64_t>(op.ticket);
  }
  for (trace::Process& process : outcome.run.processes) {
    end(process, outcome.run.processes[0].ops[kRefused].called_ns + kMillisecondNs);
  }
  return outcome;
}

TEST_CASE("a call that NCCL refuses to all who make it is no rank's fault") {
  for (const RefusedCall& refused :
       {RefusedCall{}, RefusedCall{.came = 3}, RefusedCall{.is_in_pairs = true}}) {
    const Report report = analyse(make_refused_call(refused).run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::async_error);
    CHECK(lead(report).culprits.empty());
    CHECK(lead(report).victims.size() == refused.came);
    CHECK(lead(report).summary.starts_with("NCCL refused Broadcast of 4 float32, root 17, seq 1"));
    const char* told = " alike: ncclInvalidArgument (4: invalid root 17)";
    CHECK(lead(report).summary.find(told) != std::string::npos);
    CHECK(lead(report).next.find("in the program") != std::string::npos);
    CHECK(report.findings.size() == 1);
    CHECK(report.status == 1);
  }
}

TEST_CASE("a call that NCCL refuses to some is told of the first of them") {
  for (const RefusedCall& refused :
       {RefusedCall{.let_pass = 1}, RefusedCall{.came = 2}, RefusedCall{.has_other = true}}) {
    const Outcome outcome = make_refused_call(refused);
    const auto& processes = outcome.run.processes;
    size_t first = refused.let_pass;
    for (size_t r = first; r < refused.came; ++r) {
      const bool is_before =
          processes[r].ops[kRefused].called_ns < processes[first].ops[kRefused].called_ns;
      if (is_before) first = r;
    }
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::async_error, processes[first].job_rank);
    CHECK(text_of(report).find("alike") == std::string::npos);
  }
}

TEST_CASE("arguments that NCCL refused one rank are to be looked at, not the network") {
  for (const int16_t result : {kInvalidArgument, kInvalidUsage, kSystemError}) {
    Outcome outcome = make_outcome(4);
    trace::Process& process = outcome.run.processes[2];
    add_failure(process, result, process.ops.back().called_ns + kMillisecondNs, "ncclBroadcast");
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::async_error, 2);
    const bool is_network = lead(report).next.find("network") != std::string::npos;
    CHECK(is_network == (result == kSystemError));
    const bool is_arguments = lead(report).next.find("arguments") != std::string::npos;
    CHECK(is_arguments == (result != kSystemError));
  }
}

// Rank 0 waits for rank 1 in the creation of their communicator; rank 1 ends.
Outcome make_ended_in_creation() {
  Outcome outcome = make_outcome(2);
  const int64_t at_ns = outcome.run.processes[0].comms[0].created_ns;
  stay_in_making(outcome.run.processes[0], CommState::initialising);
  stay_in_making(outcome.run.processes[1], CommState::failed);
  outcome.run.processes[1].comms[0].key = {7, 7};
  outcome.run.processes[0].exited_ns = 0;
  outcome.run.processes[0].liveness = trace::Liveness::dead;
  outcome.run.processes[0].heartbeat_ns = at_ns + 2000 * kMillisecondNs;
  end(outcome.run.processes[1], at_ns + 500 * kMillisecondNs);
  return outcome;
}

TEST_CASE("a rank that ended after its own error is told of for the error") {
  Outcome outcome = make_ended_in_creation();
  const Report before = analyse(outcome.run);
  check_blames(before, Verdict::rank_dead, 1);
  const int64_t at_ns = outcome.run.processes[0].comms[0].created_ns + 100 * kMillisecondNs;
  add_failure(outcome.run.processes[1], kSystemError, at_ns, "gone");
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::async_error, 1);
  CHECK(report.findings.size() == 1);
  REQUIRE_FALSE(lead(report).consequences.empty());
  CHECK(lead(report).consequences[0].verdict == Verdict::rank_dead);
}

TEST_CASE("a rank that died is told of first where only the others got errors") {
  Outcome outcome = make_ended_in_creation();
  const int64_t at_ns = outcome.run.processes[0].comms[0].created_ns + 100 * kMillisecondNs;
  add_failure(outcome.run.processes[0], kSystemError, at_ns, "connection reset");
  check_blames(analyse(outcome.run), Verdict::rank_dead, 1);
}

TEST_CASE("a rank that went on after its error did not die of it") {
  Program program;
  program.comms.push_back({.ranks = {0, 1, 2, 3}});
  program.ranks.resize(4);
  for (Steps& own : program.ranks) {
    for (int i = 0; i < 3; ++i) {
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
  }
  program.ranks[1].insert(program.ranks[1].begin() + 4, Step{.act = Act::die});
  Outcome outcome = execute(program);
  trace::Process& died = outcome.run.processes[1];
  add_failure(died, kInvalidArgument, died.ops.back().called_ns - 1, "ncclMemAlloc");
  check_blames(analyse(outcome.run), Verdict::rank_dead, 1);
  died.events.back().called_ns = died.ops.back().called_ns + 1;
  check_blames(analyse(outcome.run), Verdict::async_error, 1);
}

TEST_CASE("a call that a thread is stuck in is not hidden by what another has just entered") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  for (int r = 0; r < 2; ++r) {
    Steps& own = program.ranks.emplace_back();
    own = {call(OpKind::AllReduce, 64), call(OpKind::AllReduce, 64)};
    if (r == 1) own.insert(own.begin() + 1, Step{.act = Act::hold});
  }
  Outcome outcome = execute(program, kLive);
  check_blames(analyse(outcome.run), Verdict::stuck_in_call, 1);
  trace::Process& process = outcome.run.processes[1];
  trace::Op fresh = process.ops.back();
  REQUIRE(fresh.state == trace::OpState::called);
  fresh.comm = kCommUnknown;
  fresh.thread = 1;
  fresh.ticket += 1;
  fresh.called_ns = outcome.run.read_at_ns - kMillisecondNs;
  process.ops.push_back(fresh);
  check_blames(analyse(outcome.run), Verdict::stuck_in_call, 1);
}

}  // namespace errors_test
}  // namespace rollcall::analysis
