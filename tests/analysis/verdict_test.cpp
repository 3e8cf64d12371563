// One verdict at a time, on small jobs of the virtual cluster that are bent by hand.
#include <fmt/format.h>

#include <algorithm>

#include "tests/analysis/cost.h"
#include "tests/analysis/steps.h"
#include "trace/clocks.h"

namespace rollcall::analysis {
namespace verdict_test {

// Three steps of Broadcast, AllReduce, Reduce on one communicator; 9 collectives.
Program make_job(int ranks) {
  Program program;
  program.comms.emplace_back();
  for (int r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(r);
  const std::vector<Step> one = {call(OpKind::Broadcast, 8, 0),
                                 call(OpKind::AllReduce, 100),
                                 call(OpKind::Reduce, 3, 0),
                                 {.act = Act::sync}};
  program.ranks.resize(static_cast<size_t>(ranks));
  for (auto& steps : program.ranks) {
    for (int i = 0; i < 3; ++i) steps.insert(steps.end(), one.begin(), one.end());
  }
  return program;
}
constexpr size_t kSecondBroadcast = 4;  // index of the step; seq 3
constexpr size_t kSecondAllReduce = 5;  // seq 4

TEST_CASE("a healthy job is in lockstep and nothing else, at every size") {
  for (const int ranks : {1, 2, 4, 8, 16, 64}) {
    const Report report = analyse(execute(make_job(ranks)).run);
    REQUIRE(report.findings.size() == 1);
    CHECK(lead(report).verdict == Verdict::in_lockstep);
    CHECK(lead(report).confidence == Confidence::certain);
    CHECK(report.status == 0);
    REQUIRE(report.comms.size() == 1);
    CHECK(report.comms[0].last_common_seq == 8u);
    CHECK_FALSE(report.comms[0].first_difference_seq);
    CHECK(report.table.empty());
  }
}

TEST_CASE("one rank's slip names that rank and that position, at every size with a majority") {
  for (const int ranks : {3, 4, 8, 16, 64}) {
    for (const int culprit : {0, 1, ranks - 1}) {
      const auto judge = [&](Verdict verdict, uint64_t seq, auto change) {
        Program program = make_job(ranks);
        change(program.ranks[static_cast<size_t>(culprit)]);
        const Report report = analyse(execute(program).run);
        INFO(code_of(verdict) << " " << ranks << " " << culprit << ": " << lead(report).summary);
        CHECK(lead(report).verdict == verdict);
        CHECK(report.findings.size() == 1);
        CHECK(report.status == 1);
        REQUIRE(lead(report).culprits.size() == 1);
        CHECK(lead(report).culprits[0].rank == culprit);
        CHECK(lead(report).culprits[0].seq == seq);
        CHECK(lead(report).victims.size() == static_cast<size_t>(ranks - 1));
        CHECK(report.comms[0].first_difference_seq == seq);
        CHECK(report.table.size() == static_cast<size_t>(ranks));
      };
      judge(Verdict::missing_call, 3, [](Steps& s) { s.erase(s.begin() + kSecondBroadcast); });
      judge(Verdict::op_mismatch, 3,
            [](Steps& s) { s[kSecondBroadcast] = call(OpKind::AllGather, 8); });
      judge(Verdict::count_mismatch, 4, [](Steps& s) { s[kSecondAllReduce].count = 101; });
      judge(Verdict::dtype_mismatch, 4, [](Steps& s) { s[kSecondAllReduce].datatype = 9; });
      judge(Verdict::redop_mismatch, 4, [](Steps& s) { s[kSecondAllReduce].reduction = 2; });
      judge(Verdict::root_mismatch, 3, [](Steps& s) { s[kSecondBroadcast].root_or_peer = 1; });
      judge(Verdict::order_mismatch, 3,
            [](Steps& s) { std::swap(s[kSecondBroadcast], s[kSecondAllReduce]); });
      judge(Verdict::rank_dead, 4,
            [](Steps& s) { s.insert(s.begin() + kSecondAllReduce, Step{.act = Act::die}); });
      judge(Verdict::rank_dead, 4,
            [](Steps& s) { s.insert(s.begin() + kSecondAllReduce, Step{.act = Act::exit}); });
      judge(Verdict::missing_call, 4,
            [](Steps& s) { s.insert(s.begin() + kSecondAllReduce, Step{.act = Act::stick}); });
    }
  }
}

TEST_CASE("hosts whose clocks are hours apart get the verdict of hosts whose clocks agree") {
  constexpr int64_t kHoursNs = 7 * 3600 * 1'000'000'000ll;
  constexpr int kCulprit = 2;
  for (const Act act : {Act::die, Act::exit, Act::stick}) {
    Program program = make_job(8);
    auto& steps = program.ranks[kCulprit];
    steps.insert(steps.begin() + kSecondAllReduce, Step{.act = act});
    const trace::Run agreed = execute(program).run;
    const Report expected = analyse(agreed);
    REQUIRE(lead(expected).culprits.size() == 1);
    REQUIRE(lead(expected).culprits[0].rank == kCulprit);
    for (const int64_t span_ns : {-kHoursNs, kHoursNs}) {
      for (const bool culprit_is_wrong : {true, false}) {
        trace::Run run = agreed;
        for (trace::Process& process : run.processes) {
          const bool is_wrong = culprit_is_wrong == (process.job_rank == kCulprit);
          process.host = is_wrong ? "node1" : "node0";
          if (is_wrong) trace::shift_times(process, span_ns);
        }
        trace::align_clocks(run);
        CHECK(run.issues.size() == agreed.issues.size() + 1);
        const Report report = analyse(run);
        INFO(static_cast<int>(act) << " " << span_ns << ": " << lead(report).summary);
        CHECK(lead(report).verdict == lead(expected).verdict);
        REQUIRE(lead(report).culprits.size() == 1);
        CHECK(lead(report).culprits[0].rank == kCulprit);
        CHECK(lead(report).culprits[0].seq == lead(expected).culprits[0].seq);
        CHECK(report.findings.size() == expected.findings.size());
      }
    }
  }
}

TEST_CASE("of two ranks that differ, the steps before tell which is wrong") {
  Program program = make_job(2);
  program.ranks[0][kSecondAllReduce].count = 99;
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::count_mismatch, 0);
}

TEST_CASE("of two ranks that differ in their first call, both are named") {
  Program program = make_job(2);
  program.ranks[0][0].count = 9;
  const Report report = analyse(execute(program).run);
  CHECK(lead(report).verdict == Verdict::count_mismatch);
  CHECK(lead(report).culprits.size() == 2);
  CHECK(lead(report).confidence != Confidence::certain);
}

TEST_CASE("datatype and count that differ at equal bytes are named as such") {
  Program program = make_job(4);
  program.ranks[2][kSecondAllReduce].datatype = 8;
  program.ranks[2][kSecondAllReduce].count = 50;
  const Report report = analyse(execute(program).run);
  CHECK(lead(report).verdict == Verdict::dtype_mismatch);
  CHECK(lead(report).summary.find("400 bytes on both sides") != std::string::npos);
}

TEST_CASE("a stopped rank is told from a stuck one by the kernel's word") {
  Program program = make_job(4);
  program.ranks[3].insert(program.ranks[3].begin() + kSecondAllReduce, Step{.act = Act::stop});
  const Report report = analyse(execute(program, {.stall_ns = 60'000'000'000, .live = true}).run);
  check_blames(report, Verdict::rank_stopped, 3);
}

TEST_CASE("a job that is killed while healthy is in lockstep, with its ranks some calls apart") {
  Program program = make_job(8);
  program.ranks[5].insert(program.ranks[5].begin() + kSecondAllReduce, Step{.act = Act::stick});
  const Report report = analyse(execute(program, {.stall_ns = 100'000'000}).run);
  REQUIRE(report.findings.size() == 1);
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

TEST_CASE("while a job is being killed, who is gone a moment earlier is not dead for that") {
  Program program = make_job(8);
  program.ranks[5].insert(program.ranks[5].begin() + kSecondAllReduce, Step{.act = Act::stick});
  Outcome outcome = execute(program, {.stall_ns = 60'000'000'000, .live = true});
  for (trace::Process& process : outcome.run.processes) {
    const bool gone = process.job_rank == 5 || process.job_rank == 2;
    process.heartbeat_ns = outcome.run.read_at_ns - (gone ? 20'000'000 : 0);
    process.liveness = gone ? trace::Liveness::dead : trace::Liveness::running;
  }
  CHECK(lead(analyse(outcome.run)).verdict == Verdict::missing_call);
  // Gone for long while the others live on: that is a death.
  for (trace::Process& process : outcome.run.processes) {
    if (process.job_rank == 2) process.liveness = trace::Liveness::running;
    if (process.job_rank == 5) process.heartbeat_ns = outcome.run.read_at_ns - 50'000'000'000;
  }
  CHECK(lead(analyse(outcome.run)).verdict == Verdict::rank_dead);
}

TEST_CASE("names that are no words are told as groups, with what tells them apart") {
  const auto name_of_comm = [](const std::string& given) {
    trace::Run run = execute(make_job(3)).run;
    for (trace::Process& process : run.processes) process.comms[0].name = given;
    return analyse(run).comms.at(0).name;
  };
  CHECK(name_of_comm("") == "world");
  CHECK(name_of_comm("7") == "group 7");
  CHECK(name_of_comm("d876ba237e5099dbfad9b1471bd79bb9a4de297") == "group d876ba23 of ranks 0-2");
  CHECK(name_of_comm("141302374050867951402370594702384657192") == "group 14130237 of ranks 0-2");
  CHECK(name_of_comm("tensor_parallel") == "tensor_parallel");
  CHECK(name_of_comm("decade") == "decade");
}

TEST_CASE("equal sequences that stand still are not decided, and the candidates are named") {
  Program program = make_job(4);
  Outcome outcome = execute(program);
  for (trace::Process& process : outcome.run.processes) {
    process.exited_ns = 0;
    process.liveness = trace::Liveness::dead;
    process.heartbeat_ns += 60'000'000'000;
  }
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::insufficient);
  for (const char* part : {"RC-STREAM-BLOCKED", "with CUDA graphs, RC-GRAPH-DIVERGED",
                           "the preloaded library does, unless ROLLCALL_GPU_TIMING=off"}) {
    CHECK(lead(report).next.find(part) != std::string::npos);
  }
  CHECK(report.status == 3);
  for (trace::Process& process : outcome.run.processes) process.meta["graph_launches"] = "watched";
  CHECK(lead(analyse(outcome.run)).next.find("RC-GRAPH-DIVERGED") == std::string::npos);
}

// A job that stands still after equal calls, with the GPUs watched: all operations have finished.
Outcome stand_still_watched(int ranks) {
  Outcome outcome = execute(make_job(ranks));
  for (trace::Process& process : outcome.run.processes) {
    hang_watched(process);
    for (trace::Op& op : process.ops) {
      op.started_ns = op.called_ns + 1'000;
      op.finished_ns = op.called_ns + 2'000;
      op.state = trace::OpState::finished;
    }
  }
  return outcome;
}

// From its n-th operation on the rank's stream has come to nothing; `starts`: but it began that
// one.
void stand_still_at(trace::Process& process, size_t n, bool starts) {
  for (size_t i = n; i < process.ops.size(); ++i) {
    trace::Op& op = process.ops[i];
    op.finished_ns = 0;
    if (i > n || !starts) op.started_ns = 0;
    op.state = op.started_ns != 0 ? trace::OpState::started : trace::OpState::returned;
    op.awaits_gpu = true;
  }
}

TEST_CASE("a stream that did not reach a call which the others wait in is blocked") {
  for (const int ranks : {2, 4, 16}) {
    Outcome outcome = stand_still_watched(ranks);
    for (trace::Process& process : outcome.run.processes) {
      stand_still_at(process, 5, process.job_rank != 1);
    }
    const Report report = analyse(outcome.run);
    INFO(lead(report).summary);
    CHECK(lead(report).verdict == Verdict::stream_blocked);
    CHECK(lead(report).confidence == Confidence::certain);
    REQUIRE(lead(report).culprits.size() == 1);
    CHECK(lead(report).culprits[0].rank == 1);
    CHECK(lead(report).culprits[0].seq == 5u);
    CHECK(lead(report).victims.size() == static_cast<size_t>(ranks) - 1);
    CHECK(lead(report).summary.find("seq 4 of") != std::string::npos);  // the last that finished
    CHECK(report.status == 1);
  }
}

TEST_CASE("a call that every rank has started and one has not finished is stuck on that GPU") {
  Outcome outcome = stand_still_watched(4);
  for (trace::Process& process : outcome.run.processes) {
    stand_still_at(process, process.job_rank == 2 ? 4 : 5, true);
  }
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::stuck_on_gpu, 2);
  CHECK(lead(report).culprits[0].seq == 4u);
  CHECK(report.status == 1);
}

TEST_CASE("a call that nobody has finished is stuck on all of their GPUs") {
  Outcome outcome = stand_still_watched(4);
  for (trace::Process& process : outcome.run.processes) stand_still_at(process, 7, true);
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  CHECK(lead(report).culprits.size() == 4);
  CHECK(lead(report).summary.find("no rank has finished") != std::string::npos);
}

TEST_CASE("a job whose GPUs finished everything waits outside of NCCL") {
  Outcome outcome = stand_still_watched(4);
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::stuck_outside);
  CHECK(lead(report).culprits.empty());
  CHECK(report.status == 1);
}

TEST_CASE("a running job that is quiet after its calls is no hang that anybody should end") {
  Outcome outcome = stand_still_watched(4);
  outcome.run.live = true;
  for (trace::Process& process : outcome.run.processes) {
    process.liveness = trace::Liveness::running;
    outcome.run.read_at_ns = std::max(outcome.run.read_at_ns, process.heartbeat_ns);
  }
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::stuck_outside);
  CHECK(lead(report).severity == Severity::risk);
  CHECK(report.status == 4);
}

TEST_CASE("what an abort ended has not finished by itself") {
  Outcome outcome = stand_still_watched(4);
  for (trace::Process& process : outcome.run.processes) {
    const int64_t aborted_ns = process.ops.back().called_ns + 30'000'000'000;
    trace::Op& last = process.ops.back();
    last.finished_ns = aborted_ns + 1'000;  // all started it, and only the abort ended it
    trace::Event event{};
    event.kind = EventKind::CommAbort;
    event.called_ns = aborted_ns;
    event.returned_ns = aborted_ns + 2'000;
    event.comm = last.comm;
    event.result = kResultSuccess;
    process.events.push_back(event);
    process.comms[last.comm].state = CommState::aborted;
    process.comms[last.comm].ended_ns = event.returned_ns;
  }
  const Report report = analyse(outcome.run);
  for (const Finding& finding : report.findings) {
    INFO(code_of(finding.verdict) << ": " << finding.summary);
    CHECK(finding.verdict != Verdict::stuck_outside);
  }
}

TEST_CASE("what was not watched is not concluded from") {
  Outcome outcome = stand_still_watched(4);
  SECTION("the last call of a rank was not timed") {
    trace::Op& last = outcome.run.processes[2].ops.back();
    last.finished_ns = last.started_ns = 0;
    last.state = trace::OpState::returned;
    last.flags |= kOpGpuTimesUnknown;
  }
  SECTION("a rank's calls went into a graph") {
    trace::Op& last = outcome.run.processes[2].ops.back();
    last.finished_ns = last.started_ns = 0;
    last.graph = 7;
  }
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).next.find("was not seen for the calls in question") != std::string::npos);
  CHECK(lead(report).next.find("ROLLCALL_OVERHEAD_BUDGET=100") != std::string::npos);
  CHECK(report.status == 3);
}

TEST_CASE("a rank without a file is unknown, not guilty") {
  Outcome outcome = execute(make_job(4));
  outcome.run.processes.pop_back();
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[1].verdict == Verdict::record_gap);
  CHECK(report.status == 3);
}

TEST_CASE("records that were overwritten count as called") {
  Program program = make_job(4);
  program.ranks[2].erase(program.ranks[2].begin() + kSecondAllReduce + 4);  // the third AllReduce
  Outcome outcome = execute(program);
  auto& ops = outcome.run.processes[1].ops;
  ops.erase(ops.begin(), ops.begin() + 5);
  outcome.run.processes[1].first_complete_ticket = 6;
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::missing_call, 2);
  CHECK(lead(report).culprits[0].seq == 7u);
}

TEST_CASE("an absence is not blamed on a rank whose recorder missed calls") {
  Program program = make_job(4);
  program.ranks[2].insert(program.ranks[2].begin() + kSecondAllReduce, Step{.act = Act::stick});
  Outcome outcome = execute(program);
  outcome.run.processes[2].statistics["dropped_paused"] = 10;
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(report.status == 3);
}

TEST_CASE("sends in a ring without a group wait for each other when they are large") {
  for (const int ranks : {2, 4, 8}) {
    Program program = make_job(ranks);
    for (int r = 0; r < ranks; ++r) {
      program.ranks[static_cast<size_t>(r)] = {
          call(OpKind::Send, 1 << 20, (r + 1) % ranks),
          call(OpKind::Recv, 1 << 20, (r + ranks - 1) % ranks)};
    }
    const Report report = analyse(execute(program).run);
    CHECK(lead(report).verdict == Verdict::deadlock_p2p);
    CHECK(report.findings.size() == 1);
  }
}

TEST_CASE("the same ring in groups, or of small sends, is in lockstep") {
  for (const bool grouped : {false, true}) {
    Program program = make_job(4);
    for (int r = 0; r < 4; ++r) {
      const uint64_t count = grouped ? 1 << 20 : 16;
      program.ranks[static_cast<size_t>(r)] = {
          call(OpKind::Send, count, (r + 1) % 4, 0, grouped ? 1 : 0),
          call(OpKind::Recv, count, (r + 3) % 4, 0, grouped ? 1 : 0)};
    }
    const Report report = analyse(execute(program).run);
    CHECK(lead(report).verdict == Verdict::in_lockstep);
    CHECK(report.findings.size() == 1);
  }
}

TEST_CASE("a buffered send that nobody received is found though nothing hung") {
  Program program = make_job(4);
  program.ranks[1].push_back(call(OpKind::Send, 16, 2));
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::p2p_unmatched, 1);
  CHECK(lead(report).culprits[0].peer == 2);
}

TEST_CASE("a rank that entered a call and did not come back is stuck in it, and the others wait") {
  for (const size_t at : {kSecondBroadcast, kSecondAllReduce}) {
    Program program = make_job(4);
    auto& steps = program.ranks[1];
    steps.insert(steps.begin() + static_cast<ptrdiff_t>(at), Step{.act = Act::hold});
    const Report report = analyse(execute(program).run);
    const Culprit& culprit = check_blames(report, Verdict::stuck_in_call, 1);
    CHECK(culprit.seq == at - 1);
    CHECK(lead(report).victims == std::vector<int32_t>{0, 2, 3});
    // Where, and for how long.
    const char* call = at == kSecondBroadcast ? "Broadcast of 8" : "AllReduce of 100";
    CHECK(lead(report).summary.find(call) != std::string::npos);
    CHECK(lead(report).summary.find("for 20.0 s") != std::string::npos);
    CHECK(report.findings.size() == 1);
  }
}

TEST_CASE("ranks that are all inside the same call are stuck in it together") {
  Program program = make_job(4);
  for (auto& steps : program.ranks) {
    steps.insert(steps.begin() + kSecondAllReduce, Step{.act = Act::hold});
  }
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_in_call);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).culprits.size() == 4);
  CHECK(lead(report).summary ==
        "ranks 0-3 have been inside AllReduce of 100 float32 (sum) for 20.0 s; all ranks made the "
        "same calls");
}

TEST_CASE("a call that came back before NCCL was through with it is one to be stuck in") {
  Program program = make_job(4);
  program.ranks[1].insert(program.ranks[1].begin() + kSecondAllReduce, Step{.act = Act::hold});
  trace::Run run = execute(program).run;
  trace::Op& op = run.processes[1].ops.back();
  op.returned_ns = op.called_ns + 1'000;
  op.result = kResultInProgress;
  const Report report = analyse(run);
  INFO(text_of(report));
  check_blames(report, Verdict::stuck_in_call, 1);
  CHECK(lead(report).summary.find("inside AllReduce of 100 float32 (sum), which came back in "
                                  "progress and was not launched, for 20.0 s") !=
        std::string::npos);
}

TEST_CASE("a call that is under way is nobody's fault while it is young") {
  Program program = make_job(4);
  program.ranks[1].insert(program.ranks[1].begin() + kSecondAllReduce, Step{.act = Act::hold});
  const Report report = analyse(execute(program, {.stall_ns = 100'000'000, .live = true}).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

TEST_CASE("a stopped rank is named though nobody waits for it any more") {
  Program program = make_job(2);
  program.comms.push_back({.ranks = {0}});
  program.comms.push_back({.ranks = {1}});
  for (int r = 0; r < 2; ++r) {
    program.ranks[static_cast<size_t>(r)] = {call(OpKind::AllReduce, 8),
                                             call(OpKind::AllReduce, 8, -1, 1 + r)};
  }
  program.ranks[1].push_back({.act = Act::stop});
  const Outcome outcome = execute(program, {.stall_ns = 60'000'000'000, .live = true});
  check_blames(analyse(outcome.run), Verdict::rank_stopped, 1);
}

// All reduce, and then make a communicator; `odd` leaves one of the two out.
Program make_reducing_creators(size_t ranks, size_t odd, Act left_out) {
  Program program;
  for (size_t k = 0; k < 2; ++k) {
    sim::CommSpec& comm = program.comms.emplace_back();
    for (size_t r = 0; r < ranks; ++r) comm.ranks.push_back(static_cast<int>(r));
    comm.origin = CommOrigin::init;
    comm.is_late = k == 1;
  }
  for (size_t r = 0; r < ranks; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < 3; ++step) steps.push_back(call(OpKind::AllReduce, 8));
    steps.push_back({.act = Act::sync});
    if (r != odd || left_out != Act::call) steps.push_back(call(OpKind::AllGather, 8));
    if (r != odd || left_out != Act::create) steps.push_back({.act = Act::create, .comm = 1});
    steps.push_back(call(OpKind::AllReduce, 8));
    steps.push_back({.act = Act::sync});
  }
  return program;
}

// Rank 0 sends what NCCL buffers, so nobody waits for rank 1, which does this in front of its
// receive.
Report leave_in_front_of_receive(Act act) {
  Program program;
  program.comms.push_back({.ranks = {0, 1}});
  program.ranks = {{call(OpKind::AllReduce, 4), call(OpKind::Send, 8, 1)},
                   {call(OpKind::AllReduce, 4), Step{.act = act}, call(OpKind::Recv, 8, 0)}};
  return analyse(execute(program, kLive).run);
}

TEST_CASE("a rank that has not received what it was sent is told by how it fell silent") {
  check_blames(leave_in_front_of_receive(Act::stick), Verdict::missing_call, 1);
  check_blames(leave_in_front_of_receive(Act::die), Verdict::rank_dead, 1);
  const Report stopped = leave_in_front_of_receive(Act::stop);
  check_blames(stopped, Verdict::rank_stopped, 1);
  CHECK(lead(stopped).next.find("kill -CONT") != std::string::npos);
}

TEST_CASE("who is in a creation while most of its ranks wait for its call left the call out") {
  Program program = make_reducing_creators(3, 0, Act::call);
  for (Steps& steps : program.ranks) {
    // The host waits for the collective before it creates.
    const auto create = std::find_if(steps.begin(), steps.end(),
                                     [](const Step& step) { return step.act == Act::create; });
    steps.insert(create, {.act = Act::sync});
  }
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::missing_call, 0);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("all who are in a creation without the call that most of its ranks wait in are named") {
  Program program = make_reducing_creators(8, 0, Act::call);
  program.ranks[1] = program.ranks[0];
  for (size_t r = 2; r < 8; ++r) {
    Steps& steps = program.ranks[r];
    steps.insert(steps.begin() + 5, {.act = Act::sync});
  }
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::missing_call);
  REQUIRE(lead(report).culprits.size() == 2);
  CHECK(lead(report).culprits[0].rank == 0);
  CHECK(lead(report).culprits[1].rank == 1);
  CHECK(lead(report).culprits[1].seq == 3u);
}

TEST_CASE("who went on without a creation that most are in is named") {
  check_blames(analyse(execute(make_reducing_creators(3, 0, Act::create)).run),
               Verdict::init_incomplete, 0);
}

TEST_CASE("of two, one in a creation and one in a collective, neither is certain to be wrong") {
  const Report report = analyse(execute(make_reducing_creators(2, 0, Act::create)).run);
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).confidence == Confidence::likely);
}

// Rank 3 leaves the world, and joins again.
Program make_elastic() {
  Program program = make_job(4);
  program.comms.push_back(
      {.ranks = {0, 1, 2}, .parent = 0, .origin = CommOrigin::shrink, .is_late = true});
  program.comms.push_back(
      {.ranks = {0, 1, 2, 3}, .parent = 1, .origin = CommOrigin::grow, .is_late = true});
  for (int r = 0; r < 4; ++r) {
    auto& steps = program.ranks[static_cast<size_t>(r)];
    if (r != 3) steps.push_back({.act = Act::create, .comm = 1});
    steps.push_back({.act = Act::create, .comm = 2});
    steps.push_back(call(OpKind::AllReduce, 8, -1, 2));
  }
  return program;
}

TEST_CASE("communicators that shrink and grow with all their ranks are in lockstep") {
  const Report report = analyse(execute(make_elastic()).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("a rank that does not shrink is named for that, not for what cannot grow without it") {
  Program program = make_elastic();
  std::erase_if(program.ranks[1], [](const Step& step) { return step.comm != 0; });
  program.ranks[1].push_back({.act = Act::stick});
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::split_mismatch, 1);
  CHECK(lead(report).summary.find("2 of 3 ranks") != std::string::npos);
}

TEST_CASE("a rank that does not take part in a grow is named") {
  for (const int culprit : {0, 3}) {
    Program program = make_elastic();
    std::erase_if(program.ranks[static_cast<size_t>(culprit)],
                  [](const Step& step) { return step.comm == 2; });
    program.ranks[static_cast<size_t>(culprit)].push_back({.act = Act::stick});
    check_blames(analyse(execute(program).run), Verdict::split_mismatch, culprit);
  }
}

TEST_CASE(
    "behind arguments that differ in captured calls the difference that stops them is found") {
  Program program = make_job(4);
  for (auto& steps : program.ranks) steps[kSecondAllReduce].graph = 1;
  program.ranks[1][kSecondAllReduce].reduction = 2;
  program.ranks[3][kSecondAllReduce + 1].count = 4;
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 2);
  std::vector<Verdict> verdicts = {report.findings[0].verdict, report.findings[1].verdict};
  std::sort(verdicts.begin(), verdicts.end());
  CHECK(verdicts == std::vector<Verdict>{Verdict::count_mismatch, Verdict::redop_mismatch});
}

TEST_CASE("a call that NCCL refused is an error, and the others' wait follows from it") {
  Program program = make_job(4);
  program.ranks[1].insert(program.ranks[1].begin() + kSecondAllReduce + 1, Step{.act = Act::stick});
  Outcome outcome = execute(program);
  trace::Op& op = outcome.run.processes[1].ops[4];
  op.result = 5;
  op.state = trace::OpState::failed;
  CHECK(lead(analyse(outcome.run)).verdict == Verdict::async_error);
  op.result = 1;
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::cuda_error);
  CHECK(lead(report).culprits[0].rank == 1);
}

TEST_CASE("memory of a GPU that CUDA calls faulty is of the node, any other error is not") {
  for (const auto& [text, origin] :
       {std::pair{"Cuda failure 214 'uncorrectable ECC error encountered'", Origin::node},
        std::pair{"Cuda failure 700 'an illegal memory access was encountered'", Origin::unknown},
        std::pair{"", Origin::unknown}}) {
    Program program = make_job(4);
    program.ranks[1].insert(program.ranks[1].begin() + kSecondAllReduce + 1,
                            Step{.act = Act::stick});
    Outcome outcome = execute(program);
    trace::Process& process = outcome.run.processes[1];
    process.ops[4].result = 1;
    process.ops[4].state = trace::OpState::failed;
    trace::Event event{
        .kind = EventKind::CallFailed, .called_ns = process.ops[4].called_ns, .text = text};
    event.result = 1;
    event.comm = 0;
    process.events.push_back(event);
    const Report report = analyse(outcome.run);
    REQUIRE(lead(report).verdict == Verdict::cuda_error);
    CHECK(origin_of(lead(report)) == origin);
  }
}

// Rank 2 aborts, and the others, whom NCCL tells of it, follow.
void abort_after_rank_2(trace::Run& run, int64_t hang_ns, int64_t delay_ms,
                        EventKind told = EventKind::AsyncError) {
  for (size_t r = 0; r < 4; ++r) {
    trace::Process& process = run.processes[r];
    const int64_t at_ns = hang_ns + (r == 2 ? 1 : delay_ms + static_cast<int64_t>(r)) * 1'000'000;
    if (r != 2) {
      trace::Event error{.kind = told, .called_ns = at_ns - 1000, .text = ""};
      if (told == EventKind::AsyncError) error.arguments[1] = kResultRemoteError;
      if (told == EventKind::CallFailed) error.result = kResultRemoteError;
      error.comm = 0;
      process.events.push_back(error);
    }
    add_abort(process, 0, at_ns);
    process.exited_ns = at_ns + 1'000'000;
    process.liveness = trace::Liveness::exited;
  }
}

TEST_CASE("a rank that aborts when NCCL tells it of an abort is not why the first one waited") {
  Program program = make_job(4);
  for (const size_t r : {0, 1, 3}) {
    program.ranks[r].insert(program.ranks[r].begin() + kSecondAllReduce, Step{.act = Act::stick});
  }
  // When it asks, or by refusing a call.
  for (const EventKind told : {EventKind::AsyncError, EventKind::CallFailed}) {
    Outcome outcome = execute(program, {.stall_ns = 500'000'000});
    abort_after_rank_2(outcome.run, outcome.run.processes[2].ops.back().called_ns, 2, told);
    check_blames(analyse(outcome.run), Verdict::abort_cascade, 2);
  }
}

TEST_CASE("the first to abort leads, and who followed is told") {
  Program program = make_job(4);
  program.ranks[2].insert(program.ranks[2].begin() + kSecondAllReduce, Step{.act = Act::stick});
  Outcome outcome = execute(program, {.stall_ns = 500'000'000});
  abort_after_rank_2(outcome.run, outcome.run.processes[0].ops.back().called_ns, 10);
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::abort_cascade);
  CHECK(report.findings.size() == 1);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 2);
}

TEST_CASE("a rank that aborts because CUDA had failed there is told of for that") {
  Program program = make_job(4);
  program.ranks[2].insert(program.ranks[2].begin() + kSecondAllReduce, Step{.act = Act::stick});
  for (const bool is_before : {true, false}) {
    Outcome outcome = execute(program, {.stall_ns = 500'000'000});
    const int64_t hang_ns = outcome.run.processes[0].ops.back().called_ns;
    abort_after_rank_2(outcome.run, hang_ns, 10);
    trace::Event failure{.kind = EventKind::CallFailed, .comm = 0, .result = 1, .text = ""};
    failure.called_ns = hang_ns + (is_before ? 500'000 : 1'500'000);
    outcome.run.processes[2].events.push_back(failure);
    check_blames(analyse(outcome.run), is_before ? Verdict::cuda_error : Verdict::abort_cascade, 2);
  }
}

TEST_CASE("aborts long after a hang began are how it ended, not why") {
  Program program = make_job(4);
  program.ranks[2].insert(program.ranks[2].begin() + kSecondAllReduce, Step{.act = Act::stick});
  Outcome outcome = execute(program, {.stall_ns = 20'000'000'000});
  for (trace::Process& process : outcome.run.processes) {
    const int64_t at_ns = process.heartbeat_ns - 1'000'000;
    add_abort(process, 0, at_ns);
    process.exited_ns = process.heartbeat_ns;
    process.liveness = trace::Liveness::exited;
  }
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).culprits[0].rank == 2);
}

TEST_CASE("nothing to read is unusable input") {
  const Report report = analyse(trace::Run{});
  CHECK(report.status == 2);
  CHECK(lead(report).verdict == Verdict::insufficient);
}

TEST_CASE("a thousand ranks of two thousand calls are judged in a moment", "[scale]") {
  const Outcome small = execute(make_job(2));
  Outcome big;
  constexpr uint32_t kRanks = 1024;
  constexpr uint32_t kCalls = 2000;
  big.run = small.run;
  big.run.processes.resize(1);
  trace::Process first = big.run.processes[0];
  first.comms[0].nranks = kRanks;
  first.comms[0].collectives = kCalls;
  const trace::Op example = first.ops[1];
  first.ops.clear();
  for (uint32_t i = 0; i < kCalls; ++i) {
    trace::Op op = example;
    op.ticket = i + 1;
    op.seq = i;
    op.count = 64 + i % 7;
    first.ops.push_back(op);
  }
  first.exited_ns = 0;
  first.heartbeat_ns = example.called_ns + 60'000'000'000;
  first.liveness = trace::Liveness::dead;
  big.run.processes.assign(kRanks, first);
  for (uint32_t r = 0; r < kRanks; ++r) {
    big.run.processes[r].job_rank = static_cast<int32_t>(r);
    big.run.processes[r].comms[0].rank = static_cast<int32_t>(r);
  }
  big.run.processes[700].ops.pop_back();
  big.run.processes[700].comms[0].collectives = kCalls - 1;
  Report report;
  CHECK(yards_to_judge("1,024 ranks x 2,000 calls", big.run, report) < 40);
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).culprits[0].rank == 700);
}

// Rank `r` is inside a split of the world; without a colour it has no communicator of it.
void enter_split(trace::Process& process, int32_t colour, int64_t called_ns) {
  trace::Event event{};
  event.kind = EventKind::CommSplit;
  event.comm = 0;
  event.called_ns = called_ns;
  event.ticket = 1;
  event.arguments[0] = colour;
  event.arguments[3] = colour < 0 ? -1 : 1;
  process.events.push_back(event);
  if (colour < 0) return;
  trace::Comm child;
  child.origin = CommOrigin::split;
  child.state = CommState::initialising;
  child.key = {99, 7};
  child.parent_key = process.comms[0].key;
  child.colour = colour;
  child.created_ns = called_ns;
  process.comms.push_back(child);
}

TEST_CASE("a rank that waits in a split without a colour is not taken for the one that is absent") {
  Outcome outcome = execute(make_job(4));
  const int64_t called_ns = outcome.run.read_at_ns;
  for (uint32_t r = 0; r < 4; ++r) {
    trace::Process& process = outcome.run.processes[r];
    process.exited_ns = 0;
    process.liveness = trace::Liveness::dead;
    process.heartbeat_ns = called_ns + 20'000'000'000;
    if (r != 3) enter_split(process, r == 2 ? 5 : -1, called_ns);
  }
  outcome.run.read_at_ns = called_ns + 20'000'000'000;
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::split_mismatch, 3);
}

}  // namespace verdict_test
}  // namespace rollcall::analysis
