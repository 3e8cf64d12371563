// Waits that no stream shows: PyTorch chains the streams of its communicators by events, which are
// on no file. Here the jobs run on one stream, and each communicator's calls are put on one of its
// own in the record.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace reading_test {

Outcome execute_chained(const Program& program) {
  Outcome outcome = execute(program, kLive);
  for (trace::Process& process : outcome.run.processes) {
    for (trace::Op& op : process.ops) op.stream = is_p2p(op.kind) ? 100 : op.comm;
  }
  return outcome;
}

// Two groups of four by calls of their own, as new_group makes them: gradients are added up in all
// after every fourth of their calls.
Program accumulation(int steps) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5, 6, 7}},
                   {.ranks = {0, 1, 2, 3}, .parent = 0, .child_number = 0},
                   {.ranks = {4, 5, 6, 7}, .parent = 0, .child_number = 1}};
  program.ranks.resize(8);
  for (int r = 0; r < 8; ++r) {
    for (int step = 0; step < steps; ++step) {
      Steps& own = program.ranks[static_cast<size_t>(r)];
      if (step % 4 == 3) own.push_back(call(OpKind::AllReduce, 2112));
      own.push_back(call(OpKind::AllReduce, 16, -1, 1 + r / 4));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

bool says(const Finding& finding, std::string_view text) {
  return std::any_of(finding.evidence.begin(), finding.evidence.end(),
                     [&](const Evidence& one) { return one.text.find(text) != std::string::npos; });
}

TEST_CASE("who waits behind an early call of another rank is not said to owe that call") {
  Program program = accumulation(16);
  // Of the last round, in front of its second call.
  Steps& early = program.ranks[1];
  early.insert(early.end() - 7, call(OpKind::AllReduce, 2112));
  const Report report = analyse(execute_chained(program).run);
  check_blames(report, Verdict::deadlock_comms, 1);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(says(lead(report), "that is on no file"));
}

TEST_CASE("groups that were made one by one are compared by what they are to their ranks") {
  // From the first step on: no rank's own steps before tell.
  Program program = accumulation(4);
  Steps& early = program.ranks[5];
  early.insert(early.begin() + 4, call(OpKind::AllReduce, 2112));
  check_blames(analyse(execute_chained(program).run), Verdict::deadlock_comms, 5);
}

// Every step has a call of all and one of each half; all are made before anybody waits for them. Of
// the rank and the steps that are named, the two are in another order.
Program two_orders(int steps, int rank, int from, int to) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5}},
                   {.ranks = {0, 1, 2}, .parent = 0},
                   {.ranks = {3, 4, 5}, .parent = 0, .colour = 1}};
  program.ranks.resize(6);
  for (int r = 0; r < 6; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    for (int step = 0; step < steps; ++step) {
      own.push_back(call(OpKind::AllReduce, 16));
      own.push_back(call(OpKind::AllGather, 8, -1, 1 + r / 3));
      if (r == rank && step >= from && step < to) std::swap(own.back(), own[own.size() - 2]);
    }
    own.push_back({.act = Act::sync});
  }
  return program;
}

// A stream for each communicator; nobody in NCCL waits for the other ones.
Outcome execute_free(Program program) {
  for (Steps& own : program.ranks) {
    own.pop_back();  // the wait at the end
    for (Step& step : own) step.stream = step.comm;
    own.push_back({.act = Act::stick});
  }
  return execute(program, kLive);
}

TEST_CASE("communicators in another order are a deadlock where a job stands and streams may wait") {
  const Report report = analyse(execute_chained(two_orders(3, 4, 2, 3)).run);
  check_blames(report, Verdict::deadlock_comms, 4);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(says(lead(report), "that is on no file"));
  CHECK(report.status == 1);
}

TEST_CASE("that the GPUs wait for each other is certain where they were watched") {
  Outcome outcome = execute_chained(two_orders(3, 4, 2, 3));
  for (trace::Process& process : outcome.run.processes) {
    for (size_t i = 0; i < process.ops.size(); ++i) {
      trace::Op& op = process.ops[i];
      op.awaits_gpu = i >= 4;
      op.state = i < 4 ? trace::OpState::finished : trace::OpState::returned;
      if (i < 5) op.started_ns = op.called_ns + 1;
      if (i < 4) op.finished_ns = op.called_ns + 2;
    }
  }
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::deadlock_comms, 4);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK_FALSE(says(lead(report), "that is on no file"));
}

// What PyTorch's Flight Recorder writes of it: no streams, no groups, and whether a call is
// through.
void become_dumps(Outcome& outcome, size_t finished) {
  outcome.run.live = false;
  for (trace::Process& process : outcome.run.processes) {
    process.recorder = "flight_recorder";
    process.knowledge.groups = process.knowledge.reductions = process.knowledge.creations = false;
    process.liveness = trace::Liveness::unknown;
    process.heartbeat_ns = 0;
    process.written_ns = process.ops.back().called_ns + 60'000'000'000;
    for (size_t i = 0; i < process.ops.size(); ++i) {
      process.ops[i].stream = 0;
      process.ops[i].state = i < finished ? trace::OpState::finished : trace::OpState::returned;
    }
  }
}

TEST_CASE("dumps of PyTorch's Flight Recorder tell which rank used its groups in another order") {
  Outcome outcome = execute_chained(two_orders(3, 4, 2, 3));
  SECTION("where calls are not through") {
    become_dumps(outcome, 4);
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::deadlock_comms, 4);
    CHECK(lead(report).confidence == Confidence::likely);
  }
  SECTION("not where the second was seen to run beside the first") {
    become_dumps(outcome, 4);
    outcome.run.processes[4].ops.back().state = trace::OpState::started;
    CHECK(lead(analyse(outcome.run)).verdict == Verdict::insufficient);
  }
  SECTION("not where all are through") {
    become_dumps(outcome, 6);
    CHECK(lead(analyse(outcome.run)).verdict == Verdict::in_lockstep);
  }
}

TEST_CASE("an order that did not stop the job is not said to") {
  Outcome outcome = execute_free(two_orders(3, 4, 2, 3));
  trace::Process& odd = outcome.run.processes[4];
  SECTION("the GPU has begun with the second") { odd.ops.back().started_ns = 1; }
  SECTION("the job called on for long") {
    for (trace::Process& process : outcome.run.processes) {
      trace::Op& first = process.ops.front();
      trace::Op later = first;
      later.seq = 3;
      later.called_ns = process.ops.back().called_ns + 11'000'000'000;
      later.returned_ns = later.called_ns + 1;
      later.ticket = process.ops.size() + 1;
      process.ops.push_back(later);
      ++process.comms[0].collectives;
      process.next_ticket = later.ticket + 1;
      process.heartbeat_ns += 22'000'000'000;
    }
    outcome.run.read_at_ns += 22'000'000'000;
  }
  SECTION("the rank always differed") { outcome = execute_free(two_orders(3, 4, 0, 3)); }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(report.status == 3);
}

TEST_CASE(
    "who may wait behind another stream's call with an unknown rank is not said to be silent") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5}},
                   {.ranks = {0, 1}, .parent = 0},
                   {.ranks = {1, 3}, .parent = 0, .child_number = 1}};
  program.ranks.resize(6);
  for (size_t r = 0; r < 6; ++r) {
    Steps& own = program.ranks[r];
    for (int step = 0; step < 3; ++step) {
      if (r == 1 || r == 3) own.push_back(call(OpKind::AllReduce, 32, -1, 2));
      if (r == 3 && step == 2) own.back().reduction = 2;
      if (r < 2) own.push_back(call(OpKind::AllReduce, 16, -1, 1));
      own.push_back({.act = Act::sync});
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
  }
  Outcome outcome = execute_chained(program);
  outcome.run.processes.erase(outcome.run.processes.begin() + 3);
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
}

TEST_CASE(
    "who waits behind another stream's call that the ranks disagree about is not said to owe any") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5}},
                   {.ranks = {0, 1}, .parent = 0},
                   {.ranks = {1, 3, 4}, .parent = 0, .child_number = 1}};
  program.ranks.resize(6);
  for (size_t r = 0; r < 6; ++r) {
    Steps& own = program.ranks[r];
    for (int step = 0; step < 3; ++step) {
      const bool is_wrong = r == 3 && step == 2;
      const bool is_member = r == 1 || r == 3 || r == 4;
      if (is_member) own.push_back(call(OpKind::Broadcast, 32, is_wrong ? 1 : 0, 2));
      if (r < 2) own.push_back(call(OpKind::AllReduce, 16, -1, 1));
      own.push_back({.act = Act::sync});
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
  }
  const Report report = analyse(execute_chained(program).run);
  check_blames(report, Verdict::root_mismatch, 3);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("what is on file as finished does not wait, however the streams are chained") {
  Program program = accumulation(16);
  Steps& early = program.ranks[1];
  early.insert(early.end() - 7, call(OpKind::AllReduce, 2112));
  Outcome outcome = execute_chained(program);
  for (trace::Process& process : outcome.run.processes) {
    trace::Op& last = process.ops.back();
    if (last.comm != 0) last.state = trace::OpState::finished;
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).culprits.size() == 3);
}

TEST_CASE("a rank that stopped outside of NCCL is blamed for it, whatever streams there are") {
  Program program = accumulation(16);
  program.ranks[6].insert(program.ranks[6].end() - 3, {.act = Act::stick});
  const Report report = analyse(execute_chained(program).run);
  check_blames(report, Verdict::missing_call, 6);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK_FALSE(says(lead(report), "that is on no file"));
}

// Each rank receives from the one before, sends to the next, and all meet.
Program chain(int steps) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.resize(4);
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    for (int step = 0; step < steps; ++step) {
      if (r > 0) own.push_back(call(OpKind::Recv, kLarge, r - 1));
      if (r < 3) own.push_back(call(OpKind::Send, kLarge, r + 1));
      own.push_back(call(OpKind::AllReduce, 4));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who sends once more is named, not the one that did what it always did") {
  Program program = chain(4);
  Steps& sender = program.ranks[1];
  sender.insert(sender.end() - 2, call(OpKind::Send, kLarge, 2));
  SECTION("all on one stream") {
    check_blames(analyse(execute(program, kLive).run), Verdict::p2p_unmatched, 1);
  }
  SECTION("the transfers on a stream of their own") {
    const Report report = analyse(execute_chained(program).run);
    CHECK(check_blames(report, Verdict::p2p_unmatched, 1).p2p_seq == 4);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(lead(report).summary.find("rank 2 did what it always did") != std::string::npos);
  }
}

TEST_CASE("who receives once more is named, not the one that did what it always did") {
  Program program = chain(4);
  Steps& receiver = program.ranks[2];
  receiver.insert(receiver.end() - 2, call(OpKind::Recv, kLarge, 1));
  check_blames(analyse(execute_chained(program).run), Verdict::p2p_unmatched, 2);
}

TEST_CASE("a new transfer of one rank is not to blame where the job went on to new calls") {
  Program program = chain(4);
  // All but rank 3 go on to something new at once, in which rank 2 sends to it.
  program.comms.push_back({.ranks = {0, 1}, .parent = 0});
  for (size_t r = 0; r < 3; ++r) {
    Steps& own = program.ranks[r];
    own.push_back(r == 2 ? call(OpKind::Send, kLarge / 2, 3) : call(OpKind::Broadcast, 5, 0, 1));
    own.push_back({.act = Act::sync});
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  for (const Finding& finding : report.findings) {
    CHECK(finding.summary.find("expects none") == std::string::npos);
  }
}

TEST_CASE("of a rank that may owe a transfer nobody says that it is certain") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks = {{call(OpKind::Send, kLarge, 1), call(OpKind::Send, kLarge, 1)},
                   {call(OpKind::Recv, kLarge, 0), {.act = Act::stick}}};
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::missing_call, 1);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("who is alone in a call of many is named where nothing else tells") {
  // One step: rank 2 goes to the common end at once, the others of its group to that group's call.
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5, 6, 7}},
                   {.ranks = {0, 1, 2, 3}, .parent = 0},
                   {.ranks = {4, 5, 6, 7}, .parent = 0, .colour = 1}};
  program.ranks.resize(8);
  for (int r = 0; r < 8; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    // The other group waits for what is between the two.
    if (r >= 4) own.push_back(call(OpKind::Recv, kLarge, r - 4));
    if (r != 2) own.push_back(call(OpKind::AllReduce, 16, -1, 1 + r / 4));
    own.push_back({.act = Act::sync});
    if (r < 4 && r != 2) own.push_back(call(OpKind::Send, kLarge, r + 4));
    own.push_back(call(OpKind::AllReduce, 4));
    own.push_back({.act = Act::sync});
    if (r == 2) own.push_back(call(OpKind::AllReduce, 16, -1, 1));
    if (r == 2) own.push_back(call(OpKind::Send, kLarge, 6));
  }
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::deadlock_comms, 2);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("one rank in a call that most have not made may be the one that is wrong") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5, 6, 7}}};
  program.ranks.resize(8);
  for (size_t r = 0; r < 8; ++r) {
    program.ranks[r].push_back(call(OpKind::AllReduce, 16));
    program.ranks[r].push_back({.act = Act::sync});
    program.ranks[r].push_back({.act = r == 3 ? Act::sync : Act::stick});
    program.ranks[r].push_back(call(OpKind::AllReduce, 16));
    program.ranks[r].push_back({.act = Act::sync});
  }
  const Report report = analyse(execute(program, kLive).run);
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).confidence == Confidence::open);
  CHECK(lead(report).summary.ends_with("or rank 3 should not have made it"));
}

TEST_CASE("who stood and aborted after another had is blamed for the missing call, not the abort") {
  Program program = accumulation(16);
  program.ranks[6].insert(program.ranks[6].end() - 3, {.act = Act::stick});
  Outcome outcome = execute(program, kLive);
  int64_t last_ns = 0;
  for (const trace::Process& process : outcome.run.processes) {
    last_ns = std::max(last_ns, process.ops.back().called_ns);
  }
  for (trace::Process& process : outcome.run.processes) {
    const int64_t later_ns = process.job_rank == 6 ? 600'000'000 : 500'000'000;
    for (uint32_t i = 0; i < process.comms.size(); ++i) add_abort(process, i, last_ns + later_ns);
  }
  check_blames(analyse(outcome.run), Verdict::missing_call, 6);
}

// The calls of the watchdog's victims: rank 2 left a call out, everybody is freed by aborts, and
// rank 2's program comes to its next call before the exception reaches it.
TEST_CASE("a call behind the process's own abort was not made by the job") {
  Program program = accumulation(16);
  Steps& culprit = program.ranks[2];
  culprit.erase(culprit.end() - 5);
  culprit.insert(culprit.end() - 2, {.act = Act::sync});
  Outcome outcome = execute_chained(program);
  int64_t end_ns = 0;
  for (const trace::Process& process : outcome.run.processes) {
    end_ns = std::max(end_ns, process.ops.back().called_ns + 10'000'000'000);
  }
  for (trace::Process& process : outcome.run.processes) {
    add_abort(process, 0, end_ns);
    if (process.job_rank != 2) continue;
    trace::Op late = process.ops.back();
    late.comm = 1;
    late.stream = 1;
    late.kind = OpKind::AllReduce;
    late.count = 16;
    late.seq = process.comms[1].collectives++;
    late.called_ns = end_ns + 2'000'000;
    late.returned_ns = late.called_ns + 1000;
    process.ops.push_back(late);
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 2);
  CHECK(lead(report).verdict == Verdict::missing_call);
}

// Four calls of four ranks, two of which have a communicator of their own besides.
Program make_four_calls() {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1}, .parent = 0}};
  program.ranks.assign(4, {});
  for (Steps& own : program.ranks) {
    for (int step = 0; step < 4; ++step) own.push_back(call(OpKind::AllReduce, 16));
    own.push_back({.act = Act::sync});
  }
  return program;
}

// Those two abort it between the third call and the last.
void abort_pair(Outcome& outcome) {
  for (size_t r = 0; r < 2; ++r) {
    trace::Process& process = outcome.run.processes[r];
    add_abort(process, 1, process.ops[2].called_ns + 1);
  }
}

TEST_CASE("a job that aborts a communicator and ends in order has lost no call by it") {
  Outcome outcome = execute(make_four_calls(), {});
  abort_pair(outcome);
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

TEST_CASE("a process that was at work when it aborted has lost no call by it") {
  Program program = make_four_calls();  // of which rank 3 leaves the last one out
  program.ranks[3].insert(program.ranks[3].end() - 2, {.act = Act::stick});
  Outcome outcome = execute(program, kLive);
  abort_pair(outcome);
  check_blames(analyse(outcome.run), Verdict::missing_call, 3);
}

TEST_CASE("one that is known not to have finished does not wait for those that are known to have") {
  Program program = accumulation(16);
  program.ranks[3].insert(program.ranks[3].end() - 3, {.act = Act::stick});
  Outcome outcome = execute_chained(program);
  for (trace::Process& process : outcome.run.processes) {
    for (trace::Op& op : process.ops) {
      const bool is_last = &op == &process.ops.back();
      if (process.job_rank != 3 || !is_last) op.state = trace::OpState::finished;
    }
    // The others wait in the last round's call.
    if (process.job_rank != 3) process.ops.back().state = trace::OpState::returned;
  }
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::missing_call, 3);
}

TEST_CASE("an end by _exit long after the last call is no certain lockstep") {
  Outcome outcome = execute(accumulation(4), {});
  for (trace::Process& process : outcome.run.processes) {
    trace::Event exit{.kind = EventKind::ProcessExit, .text = ""};
    exit.arguments[0] = kExitAtOnce;
    process.exited_ns = process.ops.back().called_ns + 600'000'000'000;
    exit.called_ns = exit.returned_ns = process.exited_ns;
    process.events.push_back(exit);
    process.liveness = trace::Liveness::exited;
  }
  const Report late = analyse(outcome.run);
  CHECK(lead(late).verdict == Verdict::in_lockstep);
  CHECK(lead(late).confidence == Confidence::likely);
  CHECK(lead(late).summary.find("ended by _exit") != std::string::npos);
  for (trace::Process& process : outcome.run.processes) {
    process.exited_ns = process.ops.back().called_ns + 1'000'000;
    process.events.back().called_ns = process.events.back().returned_ns = process.exited_ns;
  }
  CHECK(lead(analyse(outcome.run)).confidence == Confidence::certain);
}

TEST_CASE("a rank that was freed from a call is in it no more") {
  // Rank 0 aborted the pair's communicator that rank 2 never used, and went on.
  Program program;
  program.comms = {{.ranks = {0, 2}}, {.ranks = {0, 1, 2}}};
  program.ranks = {{call(OpKind::AllReduce, 16), call(OpKind::AllReduce, 8, -1, 1)},
                   {call(OpKind::AllReduce, 8, -1, 1)},
                   {{.act = Act::stick}}};
  Outcome outcome = execute(program, kLive);
  trace::Process& freed = outcome.run.processes[0];
  for (trace::Comm& comm : freed.comms) {
    if (comm.nranks != 2) continue;
    comm.state = CommState::aborted;
    comm.ended_ns = freed.ops.front().called_ns + 1;
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(text_of(report).find("should not have made it") == std::string::npos);
  CHECK(lead(report).severity == Severity::hang);
}

// Rank 0 stands in front of a call with rank 1, whose transfer to rank 2 is called behind that call
// or, `sends_first`, in front of it; the rest waits in a call of all.
Outcome stand_before_transfer(bool sends_first) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5, 6}}, {.ranks = {0, 1}, .parent = 0}};
  program.ranks.resize(7);
  for (int r = 0; r < 7; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    for (int step = 0; step < 3; ++step) {
      if (r == 0 && step == 2) own.push_back({.act = Act::stick});
      if (r == 1 && sends_first) own.push_back(call(OpKind::Send, kLarge, 2));
      if (r <= 1) own.push_back(call(OpKind::AllReduce, 64, -1, 1));
      if (r == 1 && !sends_first) own.push_back(call(OpKind::Send, kLarge, 2));
      if (r == 2) own.push_back(call(OpKind::Recv, kLarge, 1));
      if (r == 2 && sends_first && step == 2) own.push_back({.act = Act::stick});
      if (r <= 2) own.push_back({.act = Act::sync});
      own.push_back(call(OpKind::AllReduce, 1));
      own.push_back({.act = Act::sync});
    }
  }
  return execute_chained(program);
}

TEST_CASE("of two silent ranks the one that may wait for the other is its victim") {
  const Report report = analyse(stand_before_transfer(false).run);
  check_blames(report, Verdict::missing_call, 0);
  CHECK(report.findings.size() == 1);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(says(lead(report), "that is on no file"));
  CHECK(std::count(lead(report).victims.begin(), lead(report).victims.end(), 2) == 1);
}

TEST_CASE("of two silent ranks that cannot wait for each other both are named") {
  const auto check_both = [](const Outcome& outcome) {
    const Report report = analyse(outcome.run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::missing_call);
    CHECK_FALSE(says(lead(report), "that is on no file"));
    std::vector<int32_t> blamed;
    for (const Finding& finding : report.findings) {
      for (const Culprit& culprit : finding.culprits) blamed.push_back(culprit.rank);
    }
    std::sort(blamed.begin(), blamed.end());
    CHECK(blamed == std::vector<int32_t>{0, 2});
  };
  check_both(stand_before_transfer(true));
  // The GPU has begun with what would wait.
  Outcome outcome = stand_before_transfer(false);
  trace::Op& send = outcome.run.processes[1].ops.back();
  REQUIRE(send.kind == OpKind::Send);
  send.started_ns = send.called_ns + 1;
  check_both(outcome);
}

}  // namespace reading_test
}  // namespace rollcall::analysis
