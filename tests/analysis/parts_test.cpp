// Processes that drive several GPUs.
#include "analysis/record/index.h"
#include "analysis/views/by_gpu.h"
#include "tests/analysis/steps.h"
#include "tests/sim/together.h"

namespace rollcall::analysis {
namespace parts_test {

constexpr size_t kGpus = 4;

// Eight ranks: a call of all, and one of each half, three times.
Program make_job() {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3, 4, 5, 6, 7}},
                   {.ranks = {0, 2, 4, 6}, .parent = 0, .child_number = 0},
                   {.ranks = {1, 3, 5, 7}, .parent = 0, .child_number = 0, .colour = 1}};
  program.ranks.resize(8);
  for (int r = 0; r < 8; ++r) {
    for (int step = 0; step < 3; ++step) {
      Steps& own = program.ranks[static_cast<size_t>(r)];
      own.insert(own.end(), {call(OpKind::AllReduce, 100),
                             call(OpKind::AllGather, 10, -1, 1 + r % 2),
                             {.act = Act::sync}});
    }
  }
  return program;
}

Outcome execute_in_two_processes(const Program& program, bool one_thread = false) {
  Outcome outcome = execute(program, kLive);
  sim::run_together(outcome, kGpus, one_thread);
  REQUIRE(outcome.run.processes.size() == 2);
  return outcome;
}

TEST_CASE("a healthy job of two processes with four GPUs each is in lockstep") {
  const Report report = analyse(execute_in_two_processes(make_job()).run);
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).summary.starts_with("all 8 GPUs of 2 processes made the same calls"));
  CHECK(report.numbering == "those of the communicator that all 8 GPUs of 2 processes are in");
}

TEST_CASE("a thread that stops calling for its GPU is named, and the process that it is in") {
  Program program = make_job();
  Steps& steps = program.ranks[6];
  steps.insert(steps.begin() + 4, Step{.act = Act::stick});
  const Report report = analyse(execute_in_two_processes(program).run);
  const Culprit& culprit = check_blames(report, Verdict::missing_call, 6);
  CHECK(culprit.process == 1);
  CHECK(culprit.gpu == 2);
  CHECK(culprit.comm_rank == 3);
}

TEST_CASE("a call that is left out for one GPU of several is found") {
  Program program = make_job();
  Steps& steps = program.ranks[5];
  steps.erase(steps.begin() + 3);
  const Report report = analyse(execute_in_two_processes(program).run);
  CHECK(check_blames(report, Verdict::missing_call, 5).seq == 1u);
  CHECK(lead(report).victims.size() == 7);
  CHECK(report.table.size() == 8);
  CHECK(report.table[5].process == 1);
}

// Rank 1 owes the call that rank 3 waits in; the thread that waits for rank 3 calls for rank 2 too,
// and makes none for it.
TEST_CASE("who waits for another of its GPUs is not said to be silent") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {1, 3}, .parent = 0, .child_number = 0}};
  program.ranks.resize(4);
  for (Steps& steps : program.ranks) steps = {call(OpKind::AllReduce, 100), {.act = Act::sync}};
  program.ranks[3].push_back(call(OpKind::AllGather, 10, -1, 1));
  program.ranks[0].push_back(call(OpKind::AllReduce, 200));
  program.ranks[1].push_back({.act = Act::stick});
  Outcome outcome = execute(program, kLive);
  const auto judge = [&](bool one_thread) {
    Outcome together = outcome;
    sim::run_together(together, 2, one_thread);
    // Only the second process has one thread for both.
    for (trace::Op& op : together.run.processes[0].ops) op.thread = op.comm == 0 ? 0 : 1;
    together.run.processes[0].ops.back().thread = 0;
    return analyse(together.run);
  };
  const auto blames = [](const Report& report, int rank) {
    return std::any_of(lead(report).culprits.begin(), lead(report).culprits.end(),
                       [&](const Culprit& culprit) { return culprit.rank == rank; });
  };
  CHECK(blames(judge(false), 2));
  const Report report = judge(true);
  INFO(text_of(report));
  CHECK(blames(report, 1));
  CHECK_FALSE(blames(report, 2));
}

TEST_CASE("GPUs that left no file are named where the others wait in the creation") {
  Outcome outcome = execute_in_two_processes(make_job());
  outcome.run.processes.pop_back();
  trace::Process& process = outcome.run.processes[0];
  const auto is_world = [&](uint32_t comm) { return process.comms[comm].nranks == 8; };
  std::erase_if(process.ops, [&](const trace::Op& op) { return is_world(op.comm); });
  for (trace::Comm& comm : process.comms) {
    if (comm.nranks != 8) continue;
    comm.state = CommState::initialising;
    comm.collectives = 0;
    process.heartbeat_ns = comm.created_ns + 60'000'000'000;
  }
  process.exited_ns = 0;
  process.liveness = trace::Liveness::dead;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::init_incomplete);
  REQUIRE(lead(report).culprits.size() == 4);
  for (const Culprit& culprit : lead(report).culprits) {
    CHECK(culprit.process == kNone);
    CHECK(culprit.gpu == -1);
  }
  CHECK(lead(report).culprits[0].comm_rank == 4);
}

TEST_CASE("a process of which no device is known stays whole") {
  Outcome outcome = execute_in_two_processes(make_job());
  for (trace::Process& process : outcome.run.processes) {
    for (trace::Comm& comm : process.comms) comm.device = -1;
  }
  CHECK_FALSE(take_apart(outcome.run));
}

TEST_CASE("a process with one rank of each communicator stays whole, whatever its devices") {
  Outcome outcome = execute(make_job(), kLive);
  for (trace::Process& process : outcome.run.processes) {
    for (size_t i = 0; i < process.comms.size(); ++i) {
      process.comms[i].device = static_cast<int32_t>(i);
    }
  }
  CHECK_FALSE(take_apart(outcome.run));
}

TEST_CASE("two ranks of a communicator on one device leave a process whole") {
  Outcome outcome = execute_in_two_processes(make_job());
  trace::Process& process = outcome.run.processes[0];
  for (trace::Comm& comm : process.comms) {
    if (comm.device == 3) comm.device = 2;
  }
  const std::optional<Parts> parts = take_apart(outcome.run);
  REQUIRE(parts);
  CHECK(parts->run.processes.size() == 1 + kGpus);
  CHECK(parts->origin == std::vector<uint32_t>{0, 1, 1, 1, 1});
}

TEST_CASE(
    "a communicator without a device goes to the GPU of its parent, or the next that lacks it") {
  Outcome outcome = execute_in_two_processes(make_job());
  trace::Process& process = outcome.run.processes[1];
  for (size_t i = 0; i < process.comms.size(); i += 2) process.comms[i].device = -1;
  trace::Comm child = process.comms[5];
  child.key = {99, 99};
  child.device = -1;
  child.parent = 5;
  process.comms.push_back(child);
  const std::optional<Parts> parts = take_apart(outcome.run);
  REQUIRE(parts);
  REQUIRE(parts->run.processes.size() == 2 * kGpus);
  for (size_t gpu = 0; gpu < kGpus; ++gpu) {
    const trace::Process& part = parts->run.processes[kGpus + gpu];
    REQUIRE(part.comms.size() == (gpu == 2 ? 3 : 2));
    CHECK(part.comms[1].rank == part.comms[0].rank / 2);
  }
}

TEST_CASE("without a communicator of all GPUs they are counted from process to process") {
  Outcome outcome = execute_in_two_processes(make_job());
  // The first process left no file.
  outcome.run.processes.erase(outcome.run.processes.begin());
  trace::Process& process = outcome.run.processes[0];
  for (trace::Comm& comm : process.comms) {
    if (comm.parent_key.is_null()) comm.key = {};
  }
  const std::optional<Parts> parts = take_apart(outcome.run);
  REQUIRE(parts);
  REQUIRE(parts->run.processes.size() == kGpus);
  for (size_t gpu = 0; gpu < kGpus; ++gpu) {
    CHECK(parts->run.processes[gpu].job_rank == static_cast<int32_t>(kGpus + gpu));
  }
  CHECK(parts->numbering == "the 4 GPUs of 1 process, counted on");
}

TEST_CASE("what belongs to a communicator or a call goes with it to its GPU") {
  Outcome outcome = execute_in_two_processes(make_job());
  trace::Process& process = outcome.run.processes[0];
  // Communicators 2 and 3 are GPU 1's.
  const auto call = std::find_if(process.ops.begin(), process.ops.end(),
                                 [](const trace::Op& op) { return op.comm == 3; });
  REQUIRE(call != process.ops.end());
  call->graph = 5;
  process.graphs.push_back({.graph = 5, .operations = 1, .lanes = {}});
  process.phases.push_back({.ticket = call->ticket});
  process.channels.push_back({.comm = 3});
  process.comms[3].parent = 2;
  trace::Event split{.kind = EventKind::CommSplit, .comm = 2, .text = ""};
  split.arguments[3] = 3;
  process.events.push_back(split);
  const std::optional<Parts> parts = take_apart(outcome.run);
  REQUIRE(parts);
  for (size_t gpu = 0; gpu < kGpus; ++gpu) {
    const trace::Process& part = parts->run.processes[gpu];
    const size_t expected = gpu == 1 ? 1 : 0;
    CHECK(part.graphs.size() == expected);
    CHECK(part.phases.size() == expected);
    CHECK(part.channels.size() == expected);
    CHECK(part.events.size() == expected);
  }
  const trace::Process& part = parts->run.processes[1];
  CHECK(part.channels[0].comm == 1);
  CHECK(part.comms[1].parent == 0);
  CHECK(part.events[0].comm == 0);
  CHECK(part.events[0].arguments[3] == 1);
}

TEST_CASE("of several communicators of all GPUs the oldest one numbers them") {
  Program program = make_job();
  program.comms.push_back({.ranks = {7, 6, 5, 4, 3, 2, 1, 0}, .parent = 0, .child_number = 1});
  Outcome outcome = execute_in_two_processes(program);
  const auto ranks = [&](size_t oldest) {
    for (trace::Process& process : outcome.run.processes) {
      for (trace::Comm& comm : process.comms) {
        comm.created_ns = comm.key.high == oldest + 1 ? 1000 : 2000;
      }
    }
    const std::optional<Parts> parts = take_apart(outcome.run);
    REQUIRE(parts);
    std::vector<int32_t> named;
    for (const trace::Process& part : parts->run.processes) {
      named.push_back(part.job_rank);
    }
    return named;
  };
  CHECK(ranks(0) == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(ranks(3) == std::vector<int32_t>{7, 6, 5, 4, 3, 2, 1, 0});
}

TEST_CASE("what belongs to no communicator is on each GPU that takes part in it") {
  Outcome outcome = execute_in_two_processes(make_job());
  trace::Process& process = outcome.run.processes[0];
  process.ops[0].group = process.ops[1].group = 9;
  trace::Op end;
  end.kind = OpKind::GroupEnd;
  end.comm = kCommUnknown;
  end.group = 9;
  process.ops.insert(process.ops.begin() + 2, end);
  process.events.push_back({.kind = EventKind::ProcessExit, .text = ""});
  process.statistics["dropped_pinned"] = 3;
  const std::optional<Parts> parts = take_apart(outcome.run);
  REQUIRE(parts);
  size_t ends = 0;
  size_t exits = 0;
  for (size_t gpu = 0; gpu < kGpus; ++gpu) {
    const trace::Process& part = parts->run.processes[gpu];
    ends += static_cast<size_t>(
        std::count_if(part.ops.begin(), part.ops.end(),
                      [](const trace::Op& op) { return op.kind == OpKind::GroupEnd; }));
    exits += part.events.size();
  }
  CHECK(ends == 2);
  CHECK(exits == kGpus);
  const Report report = analyse(outcome.run);
  const auto gap =
      std::find_if(report.findings.begin(), report.findings.end(),
                   [](const Finding& finding) { return finding.verdict == Verdict::record_gap; });
  REQUIRE(gap != report.findings.end());
  CHECK(gap->summary.starts_with("rank 0: 3 records were lost"));
}

}  // namespace parts_test
}  // namespace rollcall::analysis
