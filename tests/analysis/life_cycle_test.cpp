// Jobs that stand inside a call that is no operation.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

constexpr uint32_t kWorld = 0;
constexpr uint32_t kOther = 1;
constexpr uint32_t kNoComm = kCommUnknown;

// Four ranks that made the same three AllReduce, the last of which can be captured, and then stand
// outside NCCL.
trace::Run make_standing(uint32_t graph, bool live) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2, 3}, .parent = 0}};
  Step last = call(OpKind::AllReduce, 8);
  last.graph = graph;
  program.ranks.assign(4, {call(OpKind::AllReduce, 4),
                           call(OpKind::AllReduce, 4, -1, kOther),
                           last,
                           {.act = Act::stick}});
  return execute(program, {.stall_ns = 60'000'000'000, .live = live}).run;
}
trace::Run make_standing() { return make_standing(0, true); }

// The rank is in this call from `delay_ns` behind its last operation on.
void enter(trace::Run& run, size_t rank, EventKind kind, uint32_t comm = kWorld,
           int64_t delay_ns = kMillisecond) {
  trace::Process& process = run.processes[rank];
  trace::Event event{
      .kind = kind, .called_ns = process.ops.back().called_ns + delay_ns, .text = ""};
  event.ticket = process.events.size() + 1;
  event.comm = comm;
  process.events.push_back(event);
}

void end_comm(trace::Run& run, size_t rank) {
  enter(run, rank, EventKind::CommDestroy);
  trace::Process& process = run.processes[rank];
  process.events.back().returned_ns = process.events.back().called_ns + kMillisecond;
  process.comms[0].state = CommState::destroyed;
}

std::vector<int32_t> culprits_of(const Report& report) {
  std::vector<int32_t> ranks;
  for (const Culprit& culprit : lead(report).culprits) ranks.push_back(culprit.rank);
  return ranks;
}

void check_all_stuck(const Report& report) {
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_in_call);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(culprits_of(report) == std::vector<int32_t>{0, 1, 2, 3});
  CHECK(report.findings.size() == 1);
}

TEST_CASE("ranks that do not come back from ncclCommDestroy are stuck in it") {
  trace::Run run = make_standing();
  for (const size_t rank : {3, 2, 1, 0}) {
    enter(run, rank, EventKind::CommDestroy, kWorld, static_cast<int64_t>(4 - rank) * kMillisecond);
  }
  const Report report = analyse(run);
  check_all_stuck(report);
  CHECK(report.status == 1);
  CHECK(lead(report).culprits[2].op == "CommDestroy");
  CHECK(lead(report).victims.empty());
  CHECK(lead(report).summary ==
        "ranks 0-3 have been inside CommDestroy of world for 60.0 s; all 4 processes made the same "
        "operations");
}

TEST_CASE("one rank that does not come back from an end that the others have left is stuck") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) end_comm(run, rank);
  run.processes[3].events.clear();  // no longer on file; the communicator is
  enter(run, 2, EventKind::CommDestroy);
  const Report report = analyse(run);
  check_blames(report, Verdict::stuck_in_call, 2);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3});
}

TEST_CASE("who has not ended a communicator that others of its machine end is named") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommDestroy);
  CHECK(check_blames(analyse(run), Verdict::missing_call, 2).op == "CommDestroy");
  CHECK(lead(analyse(run)).confidence == Confidence::likely);
}

TEST_CASE("ranks that end a communicator wait for nobody who is gone, far, or in another end") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommDestroy);
  const int64_t entered_ns = run.processes[0].events.back().called_ns;
  std::vector<trace::Run> runs(3, run);
  runs[0].processes[2].host = "node1";
  runs[1].processes[2].exited_ns = entered_ns + kMillisecond;
  runs[1].processes[2].liveness = trace::Liveness::exited;
  enter(runs[2], 2, EventKind::CommDestroy, kOther, 2 * kMillisecond);
  for (const trace::Run& other : runs) {
    const Report report = analyse(other);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::stuck_in_call);
    CHECK(culprits_of(report) == std::vector<int32_t>{0, 1, 3});
  }
}

TEST_CASE("NCCL ends no communicator before the graphs that hold its kernels") {
  trace::Run run = make_standing(7, true);
  for (const size_t rank : {0, 1, 2, 3}) enter(run, rank, EventKind::CommAbort);
  const Report report = analyse(run);
  check_all_stuck(report);
  CHECK(lead(report).summary ==
        "ranks 0-3 have been inside CommAbort of world for 60.0 s; an operation of it was captured "
        "into CUDA graphs, and NCCL ends no communicator before the graphs that hold its kernels "
        "are destroyed");
  CHECK(lead(report).next.find("before destroy_process_group") != std::string::npos);
  // Whoever has not called it may simply not be there yet.
  run.processes[3].events.clear();
  CHECK(culprits_of(analyse(run)) == std::vector<int32_t>{0, 1, 2});
}

TEST_CASE("graphs are no reason to stand in a call that does not wait for them") {
  for (const bool is_end : {true, false}) {
    trace::Run run = make_standing(7, true);
    for (const size_t rank : {0, 1, 2, 3}) {
      enter(run, rank, is_end ? EventKind::CommDestroy : EventKind::CommRegister,
            is_end ? kOther : kWorld);
    }
    const Report report = analyse(run);
    check_all_stuck(report);
    CHECK(lead(report).summary.find("captured") == std::string::npos);
  }
}

TEST_CASE("of ranks that stand in different calls the first to enter its call leads") {
  trace::Run run = make_standing();
  enter(run, 0, EventKind::CommRegister, kWorld, 5 * kMillisecond);
  enter(run, 1, EventKind::MemAlloc, kNoComm, kMillisecond);
  enter(run, 2, EventKind::MemAlloc, kNoComm, 3 * kMillisecond);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(culprits_of(report) == std::vector<int32_t>{1, 2});
  CHECK(lead(report).summary.find("ranks 1-2 have been inside MemAlloc") == 0);
}

TEST_CASE("who does not register a window that all ranks register is named, on any machine") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 2}) enter(run, rank, EventKind::CommWindowRegister);
  run.processes[3].host = "node1";
  CHECK(check_blames(analyse(run), Verdict::missing_call, 3).op == "CommWindowRegister");
}

TEST_CASE("where a rank left no file it may be the one that a call of all waits for") {
  for (const EventKind kind : {EventKind::CommSplit, EventKind::CommDestroy,
                               EventKind::CommWindowRegister, EventKind::CommRegister}) {
    trace::Run run = make_standing();
    run.processes.erase(run.processes.begin() + 2);
    for (const size_t rank : {0, 1, 2}) enter(run, rank, kind);
    const Report report = analyse(run);
    INFO(text_of(report));
    if (kind == EventKind::CommRegister) {
      CHECK(lead(report).verdict == Verdict::stuck_in_call);
      continue;
    }
    CHECK(lead(report).verdict == Verdict::insufficient);
    CHECK(lead(report).summary.find("rank 2 of it left no file") != std::string::npos);
    CHECK(lead(report).culprits.empty());
    CHECK(report.status == 3);
  }
}

TEST_CASE("a call of one rank's own has no one to wait for") {
  trace::Run run = make_standing();
  enter(run, 1, EventKind::MemAlloc, kNoComm);
  check_blames(analyse(run), Verdict::stuck_in_call, 1);
  CHECK(lead(analyse(run)).summary.find("inside MemAlloc for 60.0 s") != std::string::npos);
}

TEST_CASE("an abort long after the last call is how a hang was ended, not what hangs") {
  for (const int64_t delay_ns : {kMillisecond, 20'000 * kMillisecond}) {
    trace::Run run = make_standing();
    for (const size_t rank : {0, 1, 2, 3}) enter(run, rank, EventKind::CommAbort, kWorld, delay_ns);
    const Report report = analyse(run);
    INFO(text_of(report));
    const bool is_late = delay_ns > kMillisecond;
    CHECK(lead(report).verdict == (is_late ? Verdict::insufficient : Verdict::stuck_in_call));
  }
}

TEST_CASE("a creation that all ranks are in is no reason to end a running job") {
  for (const bool live : {true, false}) {
    trace::Run run = make_standing(0, live);
    for (const size_t rank : {0, 1, 2, 3}) enter(run, rank, EventKind::CommSplit);
    const Report report = analyse(run);
    check_all_stuck(report);
    CHECK(lead(report).severity == (live ? Severity::risk : Severity::hang));
    CHECK(report.status == (live ? 4 : 1));
  }
}

TEST_CASE("a call that was entered a moment ago is nobody's fault") {
  for (const bool was_aborted : {false, true}) {
    trace::Run run = make_standing();
    if (was_aborted)
      add_abort(run.processes[0], kWorld,
                run.processes[0].ops.back().called_ns + 30'000 * kMillisecond);
    for (const size_t rank : {1, 2, 3}) {
      enter(run, rank, EventKind::CommDestroy, kWorld, 59'500 * kMillisecond);
    }
    const Report report = analyse(run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == (was_aborted ? Verdict::insufficient : Verdict::in_lockstep));
  }
}

TEST_CASE("whose recorder does not tell when a call returned is not taken to be inside") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 2, 3}) {
    enter(run, rank, EventKind::CommDestroy);
    run.processes[rank].knowledge.returns = false;
  }
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
}

}  // namespace
}  // namespace rollcall::analysis
