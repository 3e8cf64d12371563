// Jobs that stand inside a call that is no operation.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace life_cycle_test {

constexpr int64_t kMillisecond = 1'000'000;

constexpr uint32_t kWorld = 0;
constexpr uint32_t kOther = 1;
constexpr uint32_t kPair = 2;  // of ranks 0 and 1
constexpr uint32_t kNoComm = kCommUnknown;

// Four ranks that made the same three AllReduce, the last of which can be captured, and then stand
// outside NCCL.
trace::Run make_standing(uint32_t graph, bool live) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}},
                   {.ranks = {0, 1, 2, 3}, .parent = 0},
                   {.ranks = {0, 1}, .parent = 0}};
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

// The rank made this call and left it.
void leave(trace::Run& run, size_t rank, EventKind kind) {
  enter(run, rank, kind, kWorld, kMillisecond / 4);
  trace::Event& event = run.processes[rank].events.back();
  event.returned_ns = event.called_ns + kMillisecond / 4;
}

void end_comm(trace::Run& run, size_t rank) {
  leave(run, rank, EventKind::CommDestroy);
  run.processes[rank].comms[0].state = CommState::destroyed;
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

TEST_CASE("ranks whose ncclCommFinalize came back and goes on are stuck in it") {
  trace::Run run = make_standing();
  for (size_t rank = 0; rank < 4; ++rank) {
    leave(run, rank, EventKind::CommFinalize);
    run.processes[rank].events.back().is_in_progress = true;
  }
  const Report report = analyse(run);
  check_all_stuck(report);
  CHECK(lead(report).evidence[0].text.ends_with("CommFinalize of world, in progress"));
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
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).victims.empty());  // nobody is inside NCCL but this one
}

TEST_CASE("who has not ended a communicator that others of its machine end is named") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommDestroy);
  CHECK(check_blames(analyse(run), Verdict::missing_call, 2).op == "CommDestroy");
  CHECK(lead(analyse(run)).confidence == Confidence::likely);
  CHECK(lead(analyse(run)).victims == std::vector<int32_t>{0, 1, 3});
  CHECK(lead(analyse(run)).next.find("look at the stack of rank 2 (NCCL may wait there") == 0);
}

TEST_CASE("who exited without ending a communicator that others of its machine end is named") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommDestroy);
  run.processes[2].exited_ns = run.processes[0].events.back().called_ns + kMillisecond;
  run.processes[2].liveness = trace::Liveness::exited;
  const Report report = analyse(run);
  check_blames(report, Verdict::missing_call, 2);
  CHECK(lead(report).summary.find("and rank 2 has exited without it") != std::string::npos);
}

TEST_CASE(
    "one that ends a communicator alone may wait for kernels, as those who do not end it may") {
  trace::Run run = make_standing();
  enter(run, 2, EventKind::CommDestroy);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).culprits.empty());
  CHECK(lead(report).summary ==
        "rank 2 has been inside CommDestroy of world for 60.0 s, and ranks 0-1,3 have not called "
        "it: NCCL waits there for kernels of the communicator, and may wait for its ranks on the "
        "same machine");
}

TEST_CASE("ranks that end a communicator wait for nobody who is far or no member") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommDestroy);
  run.processes[2].host = "node1";
  const Report far = analyse(run);
  INFO(text_of(far));
  CHECK(lead(far).verdict == Verdict::stuck_in_call);
  CHECK(culprits_of(far) == std::vector<int32_t>{0, 1, 3});

  trace::Run pair = make_standing();
  for (const size_t rank : {0, 1}) enter(pair, rank, EventKind::CommDestroy, kPair);
  const Report outside = analyse(pair);
  INFO(text_of(outside));
  CHECK(lead(outside).verdict == Verdict::stuck_in_call);
  CHECK(culprits_of(outside) == std::vector<int32_t>{0, 1});
}

TEST_CASE("ranks wait for nobody who aborts, finalizes or destroys the same communicator") {
  for (const EventKind kind : {EventKind::CommAbort, EventKind::CommFinalize}) {
    for (const int64_t delay_ns : {2 * kMillisecond, 20'000 * kMillisecond}) {
      trace::Run run = make_standing();
      for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommDestroy);
      enter(run, 2, kind, kWorld, delay_ns);
      const Report report = analyse(run);
      INFO(text_of(report));
      CHECK(lead(report).verdict == Verdict::stuck_in_call);
      CHECK(culprits_of(report) == std::vector<int32_t>{0, 1, 3});
      CHECK(lead(report).victims == std::vector<int32_t>{2});
    }
  }
}

TEST_CASE("an abort waits for no other rank") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommAbort);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_in_call);
  CHECK(culprits_of(report) == std::vector<int32_t>{0, 1, 3});
}

TEST_CASE("communicators that are ended in different orders are a circle") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1}) enter(run, rank, EventKind::CommDestroy, kWorld);
  for (const size_t rank : {2, 3}) enter(run, rank, EventKind::CommDestroy, kOther);
  const Report report = analyse(run);
  check_all_stuck(report);
  for (const char* part : {"ranks 0-1 have been inside CommDestroy of world for",
                           "ranks 2-3 have been inside CommDestroy of split 0 of world"}) {
    CHECK(lead(report).summary.find(part) != std::string::npos);
  }
  CHECK(lead(report).summary.find("each may wait for ranks that are inside another") !=
        std::string::npos);
}

TEST_CASE("who aborts late is in no circle of ends") {
  trace::Run run = make_standing();
  enter(run, 0, EventKind::CommDestroy, kWorld);
  for (const size_t rank : {1, 2}) enter(run, rank, EventKind::CommDestroy, kOther);
  enter(run, 3, EventKind::CommAbort, kWorld, 20'000 * kMillisecond);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_in_call);
  CHECK(culprits_of(report) == std::vector<int32_t>{0, 1, 2});
  CHECK(lead(report).victims == std::vector<int32_t>{3});
}

TEST_CASE("of ends that wait for one another the one that waits for a rank outside NCCL is told") {
  trace::Run run = make_standing();
  enter(run, 3, EventKind::CommDestroy, kOther);
  enter(run, 0, EventKind::CommDestroy, kPair, 2 * kMillisecond);
  for (const size_t rank : {1, 2}) {
    enter(run, rank, EventKind::CommDestroy, kOther, 3 * kMillisecond);
  }
  // Rank 0 is in another end, which waits for rank 1, and rank 1 waits for it: a circle.
  INFO(text_of(analyse(run)));
  CHECK(lead(analyse(run)).verdict == Verdict::stuck_in_call);
  CHECK(lead(analyse(run)).culprits.size() == 4);
  // Rank 0 is in none: it is the one.
  run.processes[0].events.clear();
  CHECK(check_blames(analyse(run), Verdict::missing_call, 0).op == "CommDestroy");
}

TEST_CASE("in a row of calls that wait for one another the last is told") {
  trace::Run run = make_standing();
  enter(run, 0, EventKind::CommDestroy, kPair);
  enter(run, 1, EventKind::MemAlloc, kNoComm, 2 * kMillisecond);
  const Report report = analyse(run);
  CHECK(check_blames(report, Verdict::stuck_in_call, 1).op == "MemAlloc");
  CHECK(lead(report).victims == std::vector<int32_t>{0});
}

TEST_CASE("who exited inside a call stands in it no longer") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 2}) {
    enter(run, rank, EventKind::CommDestroy);
    run.processes[rank].exited_ns = run.processes[rank].events.back().called_ns + kMillisecond;
    run.processes[rank].liveness = trace::Liveness::exited;
  }
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.find("and rank 3 has not: ") != std::string::npos);
}

TEST_CASE("a recorder that missed calls does not show that its rank made none") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 3}) enter(run, rank, EventKind::CommDestroy);
  check_blames(analyse(run), Verdict::missing_call, 2);
  SECTION("it was switched off") { run.processes[2].capture_off = true; }
  SECTION("it was paused") { run.processes[2].statistics["dropped_paused"] = 1; }
  SECTION("it does not tell when calls return") { run.processes[2].knowledge.returns = false; }
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.find("whether rank 2 has made that call is not on file") !=
        std::string::npos);
}

TEST_CASE("the GPUs of one process are to end their communicator in one group") {
  trace::Run run = make_standing();
  for (trace::Process& process : run.processes) process.pid = 4711;
  for (const size_t rank : {0, 1}) enter(run, rank, EventKind::CommDestroy);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(culprits_of(report) == std::vector<int32_t>{2, 3});
  CHECK(lead(report).next.find("for all GPUs of a process in one group") != std::string::npos);
}

TEST_CASE("NCCL ends no communicator before the graphs that hold its kernels") {
  trace::Run run = make_standing(7, true);
  for (const size_t rank : {0, 1, 2, 3}) enter(run, rank, EventKind::CommDestroy);
  const Report report = analyse(run);
  check_all_stuck(report);
  CHECK(lead(report).summary ==
        "ranks 0-3 have been inside CommDestroy of world for 60.0 s; an operation of it was "
        "captured into CUDA graphs, and NCCL ends no communicator before the graphs that hold its "
        "kernels are destroyed");
  CHECK(lead(report).next.find("before destroy_process_group") != std::string::npos);
  // Whoever has not called it may simply not be there yet.
  run.processes[3].events.clear();
  CHECK(culprits_of(analyse(run)) == std::vector<int32_t>{0, 1, 2});
  CHECK(lead(analyse(run)).summary.find("and rank 3 has not called it; an operation") !=
        std::string::npos);
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
  CHECK(lead(report).evidence.size() == 3);  // of all that stand
}

TEST_CASE("who does not register a window that all ranks register is named, on any machine") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 2, 3}) leave(run, rank, EventKind::CommWindowRegister);
  for (const size_t rank : {0, 1, 2}) enter(run, rank, EventKind::CommWindowRegister);
  run.processes[3].host = "node1";
  CHECK(check_blames(analyse(run), Verdict::missing_call, 3).op == "CommWindowRegister");
  CHECK(lead(analyse(run)).confidence == Confidence::likely);
  // Of one alone, the others left out what it made.
  for (const size_t rank : {1, 2}) run.processes[rank].events.pop_back();
  CHECK(culprits_of(analyse(run)) == std::vector<int32_t>{1, 2, 3});
  CHECK(lead(analyse(run)).confidence == Confidence::open);
}

TEST_CASE("where events were lost nobody knows who has registered how many windows") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 2, 3}) leave(run, rank, EventKind::CommWindowRegister);
  for (const size_t rank : {0, 1, 2}) enter(run, rank, EventKind::CommWindowRegister);
  check_blames(analyse(run), Verdict::missing_call, 3);
  const auto age = [&](size_t rank) {
    for (trace::Event& event : run.processes[rank].events) event.ticket += 5000;
  };
  SECTION("by the rank that is missing") { age(3); }
  SECTION("by those that wait") {
    for (const size_t rank : {0, 1, 2}) age(rank);
  }
  SECTION("where there was no room") { run.processes[3].statistics["dropped_event"] = 1; }
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.find("whether rank 3 has made that call") != std::string::npos);
}

TEST_CASE("who has made as many calls of a window as the others is not waited for") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 2}) enter(run, rank, EventKind::CommWindowRegister);
  leave(run, 3, EventKind::CommWindowRegister);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_in_call);
  CHECK(culprits_of(report) == std::vector<int32_t>{0, 1, 2});
}

TEST_CASE("a window is given back by each rank alone") {
  trace::Run run = make_standing();
  enter(run, 0, EventKind::CommWindowDeregister);
  check_blames(analyse(run), Verdict::stuck_in_call, 0);
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
    CHECK(lead(report).summary.find("rank 2 of world left no file") != std::string::npos);
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
    CHECK((lead(report).summary.find("been inside") == std::string::npos) == is_late);
  }
}

TEST_CASE("a communicator may be destroyed long after the last call, and hang there") {
  trace::Run run = make_standing();
  for (const size_t rank : {0, 1, 2, 3}) {
    enter(run, rank, EventKind::CommDestroy, kWorld, 20'000 * kMillisecond);
  }
  check_all_stuck(analyse(run));
}

TEST_CASE("a late abort of what graphs hold may hang for them, or have ended a hang") {
  trace::Run run = make_standing(7, true);
  for (const size_t rank : {0, 1, 2, 3}) {
    enter(run, rank, EventKind::CommAbort, kWorld, 20'000 * kMillisecond);
  }
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.find("long after the last call on file; an operation of it was "
                                  "captured into CUDA graphs") != std::string::npos);
  CHECK(lead(report).culprits.empty());
}

TEST_CASE("operations in another order are the reason, not the end that waits for them") {
  Program program;
  program.comms = {{.ranks = {0, 1}}, {.ranks = {0, 1}, .parent = 0}};
  const auto on = [](int comm, int stream) {
    Step step = call(OpKind::AllReduce, 8, -1, comm);
    step.stream = stream;
    return step;
  };
  program.ranks = {{on(0, 1), on(1, 2), {.act = Act::stick}},
                   {on(1, 2), on(0, 1), {.act = Act::stick}}};
  trace::Run run = execute(program, kLive).run;
  for (const size_t rank : {0, 1}) enter(run, rank, EventKind::CommDestroy);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
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

}  // namespace life_cycle_test
}  // namespace rollcall::analysis
