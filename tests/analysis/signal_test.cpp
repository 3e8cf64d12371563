// One-sided signals: who waits for which, and who left one out.
#include <utility>

#include "analysis/record/index.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace signal_test {

constexpr int kRanks = 4;
constexpr size_t kSignalOfStep2 = 6;  // indices of steps; each training step has five
constexpr size_t kWaitOfStep2 = 7;
constexpr size_t kWaitOfStep1 = 2;  // of the records

Step put(int peer) { return call(OpKind::PutSignal, 64, peer); }
Step wait(int peer, uint64_t signals) { return call(OpKind::WaitSignal, signals, peer); }

// Three steps, in each of which every rank writes to the next one and waits for the one before.
Program make_ring() {
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    program.comms[0].ranks.push_back(r);
    const Steps one = {call(OpKind::AllReduce, 100),
                       put((r + 1) % kRanks),
                       wait((r + kRanks - 1) % kRanks, 1),
                       call(OpKind::AllGather, 8),
                       {.act = Act::sync}};
    for (int i = 0; i < 3; ++i) {
      program.ranks[r].insert(program.ranks[r].end(), one.begin(), one.end());
    }
  }
  return program;
}

TEST_CASE("ranks that signal and wait for as many are in lockstep and nothing else") {
  const Report report = analyse(execute(make_ring()).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("a signal that nobody waits for is no finding") {
  Program program = make_ring();
  program.ranks[0].push_back(put(1));
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("a signal left out is named with the rank that owes it and the one that waits") {
  Program program = make_ring();
  auto& steps = program.ranks[2];
  steps.erase(steps.begin() + kSignalOfStep2);
  const Outcome outcome = execute(program);
  REQUIRE(outcome.hung);
  const Report report = analyse(outcome.run);
  const Culprit& culprit = check_blames(report, Verdict::p2p_unmatched, 2);
  CHECK(culprit.peer == 3);
  CHECK(culprit.p2p_seq == 1u);
  CHECK(culprit.op == "Signal");
  CHECK(lead(report).summary.find("WaitSignal for 1 signal from 2") != std::string::npos);
}

TEST_CASE("a rank that died before it signalled is the reason, not the one that waits") {
  Program program = make_ring();
  auto& steps = program.ranks[1];
  steps.insert(steps.begin() + kSignalOfStep2, Step{.act = Act::die});
  check_blames(analyse(execute(program).run), Verdict::rank_dead, 1);
}

TEST_CASE("a wait for more signals than are ever sent names the rank that owes them") {
  Program program = make_ring();
  program.ranks[0][kWaitOfStep2].count = 3;
  program.ranks[0].resize(kWaitOfStep2 + 1);
  program.ranks[0].push_back({.act = Act::sync});
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).summary.find("WaitSignal for 3 signals from 3") != std::string::npos);
}

TEST_CASE("a wait for signals of several ranks at once, or of an older recorder, accuses nobody") {
  Program program = make_ring();
  auto& steps = program.ranks[2];
  steps.erase(steps.begin() + kSignalOfStep2);
  Outcome outcome = execute(program);
  for (trace::Process& process : outcome.run.processes) {
    for (trace::Op& op : process.ops) {
      if (op.kind == OpKind::WaitSignal) op.root_or_peer = -1;
    }
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  for (const Finding& finding : report.findings) CHECK(finding.culprits.empty());
}

TEST_CASE("who may stand in a wait for several ranks is not blamed for what it did not call next") {
  // Rank 2 leaves out a signal; rank 3 waits for it before it goes on, and the others for rank 3.
  Program program = make_ring();
  program.ranks[2].erase(program.ranks[2].begin() + kSignalOfStep2);
  program.ranks[3].insert(program.ranks[3].begin() + kWaitOfStep2 + 1, Step{.act = Act::sync});
  Outcome outcome = execute(program);
  REQUIRE(outcome.hung);
  check_blames(analyse(outcome.run), Verdict::p2p_unmatched, 2);
  for (trace::Op& op : outcome.run.processes[3].ops) {
    if (op.kind == OpKind::WaitSignal) op.root_or_peer = -1;
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(report.status == 3);
}

TEST_CASE("a wait for many signals ends with the last of them") {
  for (const uint64_t signals : {50u, 200u, 5000u}) {
    Program program;
    program.comms.push_back({.ranks = {0, 1, 2}});
    program.ranks = {{wait(1, signals), call(OpKind::AllReduce, 8)},
                     Steps(signals, put(0)),
                     {{.act = Act::stick}}};
    program.ranks[1].push_back(call(OpKind::AllReduce, 8));
    const Outcome outcome = execute(program);
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::missing_call, 2);
    CHECK(lead(report).victims == std::vector<int32_t>{0, 1});
  }
}

TEST_CASE("numbers that no recorder writes do not stop the analysis") {
  for (const uint64_t seq :
       {~uint64_t{0}, ~uint64_t{0} - 4096, ~uint64_t{0} - 1, uint64_t{1} << 40}) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{4097}, ~uint64_t{0}}) {
      Program program = make_ring();
      program.ranks[2].insert(program.ranks[2].end() - 5, Step{.act = Act::stick});
      Outcome outcome = execute(program);
      for (trace::Op& op : outcome.run.processes[0].ops) {
        if (op.kind != OpKind::WaitSignal) continue;
        op.seq = seq;
        op.count = count;
      }
      const Report report = analyse(outcome.run);
      INFO(seq << " " << count << "\n" << text_of(report));
      CHECK(lead(report).severity == Severity::hang);
      // What may be a number is waited for in earnest.
      const bool is_number = last_awaited(outcome.run.processes[0].ops[kWaitOfStep1]).has_value();
      if (!is_number) check_blames(report, Verdict::missing_call, 2);
    }
  }
}

TEST_CASE("signals that replays of a graph send are not counted against those who wait") {
  Outcome outcome = execute(make_ring());
  auto& ops = outcome.run.processes[1].ops;
  bool is_first = true;
  std::erase_if(ops, [&](trace::Op& op) {
    if (op.kind != OpKind::PutSignal) return false;
    op.graph = 1;
    return !std::exchange(is_first, false);
  });
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

TEST_CASE(
    "a wait that the GPU has not come through is neither a wait outside nor a blocked stream") {
  Program program = make_ring();
  for (auto& steps : program.ranks) steps.resize(4);
  Outcome outcome = execute(program);
  for (trace::Process& process : outcome.run.processes) {
    process.exited_ns = 0;
    process.liveness = trace::Liveness::dead;
    process.meta["gpu_timing"] = "events";
    for (trace::Op& op : process.ops) {
      op.started_ns = op.called_ns + 10;
      op.finished_ns = op.called_ns + 20;
    }
    process.heartbeat_ns += 60'000'000'000;
  }
  outcome.run.read_at_ns += 60'000'000'000;
  trace::Process& waiter = outcome.run.processes[0];
  waiter.ops.resize(3);
  trace::Op& waits = waiter.ops.back();
  REQUIRE(waits.kind == OpKind::WaitSignal);
  waits.root_or_peer = -1;  // of several ranks
  waits.finished_ns = 0;
  waits.awaits_gpu = true;
  for (uint32_t r = 1; r < kRanks; ++r) outcome.run.processes[r].ops.resize(3);
  for (trace::Process& process : outcome.run.processes) process.comms[0].collectives = 1;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict != Verdict::stuck_outside);
  CHECK(lead(report).verdict != Verdict::stream_blocked);
  CHECK(lead(report).summary.find("WaitSignal for 1 signal of several ranks") != std::string::npos);
}

TEST_CASE("a wait whose sender's records were overwritten is taken for through") {
  Program program = make_ring();
  Outcome outcome = execute(program);
  trace::Process& sender = outcome.run.processes[3];
  sender.ops.erase(sender.ops.begin(), sender.ops.begin() + 6);
  sender.first_complete_ticket = 7;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

}  // namespace signal_test
}  // namespace rollcall::analysis
