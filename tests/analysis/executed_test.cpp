// Replays counted as the calls that they hold.
#include "analysis/record/index.h"
#include "analysis/views/as_executed.h"
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace executed_test {

constexpr int kRanks = 4;
constexpr int kOdd = 2;

GpuRecording world() { return GpuRecording({{.ranks = {0, 1, 2, 3}}}, kRanks); }

void capture_two(GpuRecording& recording, int r, uint32_t graph, uint64_t count = 8) {
  recording.capture(r, graph, 0, OpKind::AllReduce, count);
  recording.capture(r, graph, 0, OpKind::AllGather, 8);
}

// All replay a graph twice, with a call behind each; rank 2 captures it anew in between.
GpuRecording capture_anew(uint64_t count_of_second) {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    capture_two(recording, r, 1);
    recording.launch(r, 1, Gpu::through);
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
    if (r == kOdd) capture_two(recording, r, 2, count_of_second);
    recording.launch(r, r == kOdd ? 2 : 1, Gpu::through);
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
  }
  recording.end();
  return recording;
}

TEST_CASE("who captures anew what the others replay is in lockstep with them") {
  GpuRecording recording = capture_anew(8);
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(lead(report).summary.find("each replay of a CUDA graph counted") != std::string::npos);
  CHECK(report.status == 0);
}

TEST_CASE("who replays another size than the others is named") {
  const Report report = capture_anew(9).report();
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::corruption);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == kOdd);
}

TEST_CASE("who makes the calls of a graph without one is in lockstep with those who replay it") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    if (r == kOdd) {
      recording.call(r, 0, OpKind::AllReduce, 8, Gpu::through);
      recording.call(r, 0, OpKind::AllGather, 8, Gpu::through);
    } else {
      capture_two(recording, r, 1);
      recording.launch(r, 1, Gpu::through);
    }
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
  }
  recording.end();
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

TEST_CASE("a run of which a launch is not on file is judged as it was recorded") {
  GpuRecording recording = capture_anew(8);
  REQUIRE(as_executed(recording.run()));
  std::vector<trace::Op>& ops = recording.rank(kOdd).ops;
  SECTION("a launch was overwritten") {
    std::erase_if(ops, [](const trace::Op& op) {
      return op.graph == 2 && op.seq == 0 && op.kind == OpKind::GraphLaunch;
    });
    CHECK_FALSE(as_executed(recording.run()));
  }
  SECTION("one of two launches of a graph was") {
    std::vector<trace::Op>& others = recording.rank(0).ops;
    std::erase_if(
        others, [](const trace::Op& op) { return op.kind == OpKind::GraphLaunch && op.seq == 0; });
    CHECK_FALSE(as_executed(recording.run()));
  }
  SECTION("a captured call was") {
    ops.erase(ops.begin() + 1);
    CHECK_FALSE(as_executed(recording.run()));
  }
  SECTION("launches were not watched") {
    trace::Process& process = recording.rank(kOdd);
    process.meta.erase("graph_launches");
    for (trace::Graph& graph : process.graphs) graph.launches = 0;
    CHECK_FALSE(as_executed(recording.run()));
  }
}

TEST_CASE("a wrong size in a graph that no launch is on file of is told, for it may have run") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, r == kOdd ? 9 : 8);
    capture_two(recording, r, 2);
    recording.launch(r, 2, Gpu::through);
  }
  recording.end();
  check_blames(recording.report(), Verdict::count_mismatch, kOdd);
}

TEST_CASE("a rank that died behind a call between two replays is dead, not behind in replays") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    capture_two(recording, r, 1);
    recording.launch(r, 1, Gpu::through);
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
    if (r == kOdd) continue;
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, 1);
  }
  trace::Process& dead = recording.rank(kOdd);
  dead.heartbeat_ns = dead.ops.back().called_ns + 1'000;
  check_blames(recording.report(), Verdict::rank_dead, kOdd);
}

TEST_CASE("a run without graphs has no other order than the one on file") {
  GpuRecording recording = world();
  CHECK_FALSE(as_executed(recording.run()));
}

TEST_CASE("who replays two graphs in another order than the others is named") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 2, 0, OpKind::AllGather, 8);
    for (const uint32_t graph : {1u, 2u}) recording.launch(r, graph, Gpu::through);
    recording.launch(r, r == kOdd ? 2 : 1, Gpu::begun);
    recording.launch(r, r == kOdd ? 1 : 2, Gpu::waiting);
    recording.stand_at(r, r == kOdd ? 2 : 1, 1);
  }
  const Report report = recording.report();
  check_blames(report, Verdict::order_mismatch, kOdd);
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).summary.find("each replay of a CUDA graph counted") != std::string::npos);
}

// A job that has replayed two graphs for long, with a call behind each; its newest replays are in
// another order on rank 2.
GpuRecording long_running() {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 1, 0, OpKind::AllReduce, 16);
    recording.capture(r, 2, 0, OpKind::AllGather, 8);
    for (int step = 0; step < 10; ++step) {
      for (const uint32_t graph : {1u, 2u}) {
        recording.launch(r, graph, Gpu::through);
        recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
      }
    }
    recording.launch(r, r == kOdd ? 2 : 1, Gpu::begun);
    recording.launch(r, r == kOdd ? 1 : 2, Gpu::waiting);
    recording.stand_at(r, r == kOdd ? 2 : 1, 1);
  }
  return recording;
}

std::vector<uint64_t> newest_numbers(const trace::Run& run, int r, size_t count) {
  std::vector<uint64_t> numbers;
  for (const trace::Op& op : run.processes[static_cast<size_t>(r)].ops) numbers.push_back(op.seq);
  numbers.erase(numbers.begin(), numbers.end() - static_cast<ptrdiff_t>(count));
  return numbers;
}

// The second has less, and that alike.
void check_newest(const std::optional<Executed>& all, const std::optional<Executed>& newest) {
  REQUIRE(all);
  REQUIRE(newest);
  for (int r = 0; r < kRanks; ++r) {
    const trace::Process& whole = all->run.processes[static_cast<size_t>(r)];
    const trace::Process& part = newest->run.processes[static_cast<size_t>(r)];
    const size_t held = part.ops.size();
    CHECK(held > 8);
    CHECK(held < whole.ops.size());
    CHECK(newest_numbers(newest->run, r, held) == newest_numbers(all->run, r, held));
    CHECK(part.comms[0].collectives == whole.comms[0].collectives);
  }
}

TEST_CASE("of a long run the newest replays have the numbers that they would have with all of it") {
  GpuRecording whole = long_running();
  GpuRecording part = long_running();
  for (int r = 0; r < kRanks; ++r) part.forget_middle(r, 8 + static_cast<size_t>(r));
  check_newest(as_executed(whole.run()), as_executed(part.run()));
  const Report report = part.report();
  check_blames(report, Verdict::order_mismatch, kOdd);
  CHECK(lead(report).severity == Severity::hang);
}

TEST_CASE("of more calls than can be held the newest are counted, and no group in part") {
  GpuRecording recording = long_running();
  for (int r = 0; r < kRanks; ++r) {
    for (int i = 0; i < 2; ++i) recording.call(r, 0, OpKind::AllReduce, 4, Gpu::waiting).group = 7;
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::waiting);
  }
  const std::optional<Executed> all = as_executed(recording.run());
  check_newest(all, as_executed(recording.run(), kRanks * 15));
  CHECK(all->is_whole);
  CHECK_FALSE(as_executed(recording.run(), kRanks * 15)->is_whole);
  // A call of the group, and what waits for its GPU besides, is left out: its number is not known.
  CHECK_FALSE(as_executed(recording.run(), kRanks * 2));
}

TEST_CASE("that the newest replays are alike says nothing of a difference before them") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    recording.call(r, 0, OpKind::AllReduce, r == kOdd ? 5 : 4, Gpu::through);
    capture_two(recording, r, 1);
    for (int i = 0; i < 20; ++i) recording.launch(r, 1, Gpu::through);
  }
  recording.end();
  const Report recorded = recording.report();
  check_blames(recorded, Verdict::count_mismatch, kOdd);
  const std::optional<Executed> newest = as_executed(recording.run(), kRanks * 10);
  REQUIRE(newest);
  const Report executed = analyse(newest->run);
  CHECK(lead(executed).verdict == Verdict::in_lockstep);
  CHECK_FALSE(is_better(recording.run(), recorded, *newest, executed));
}

TEST_CASE("that the newest replays are alike says nothing of those that are no longer on file") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, r == kOdd ? 9 : 8);
    recording.capture(r, 2, 0, OpKind::AllReduce, 16);
    recording.launch(r, 1, Gpu::through);
    for (int i = 0; i < 30; ++i) recording.launch(r, 2, Gpu::through);
    recording.forget_middle(r, 12);
  }
  recording.end();
  const std::optional<Executed> newest = as_executed(recording.run());
  REQUIRE(newest);
  CHECK_FALSE(newest->is_whole);
  check_blames(recording.report(), Verdict::count_mismatch, kOdd);
}

TEST_CASE("what was executed of a long run is not guessed where a part of it is unknown") {
  GpuRecording recording = long_running();
  for (int r = 0; r < kRanks; ++r) recording.forget_middle(r, 8);
  REQUIRE(as_executed(recording.run()));
  trace::Process& process = recording.rank(kOdd);
  SECTION("a captured call is gone") { process.ops.erase(process.ops.begin()); }
  SECTION("an older call goes on") {
    trace::Op old = process.ops.back();
    old.kind = OpKind::AllReduce;
    old.graph = 0;
    old.comm = process.ops.front().comm;
    old.ticket = process.first_complete_ticket - 1;
    process.ops.insert(process.ops.begin(), old);
  }
  SECTION("a call between the newest ones was not recorded") {
    const uint64_t ticket = process.ops.back().ticket - (GENERATE(true, false) ? 2 : 4);
    REQUIRE(std::erase_if(process.ops, [&](const trace::Op& op) {
              return op.kind == OpKind::AllReduce && op.ticket == ticket;
            }) == 1);
  }
  SECTION("recording was paused") { process.statistics["dropped_paused"] = 1; }
  SECTION("a graph stands there twice") { process.graphs[1].graph = process.graphs[0].graph; }
  SECTION("a launch behind the newest one is counted") { ++process.graphs[0].launches; }
  SECTION("fewer calls are counted than are on file") { process.comms[0].collectives = 2; }
  SECTION("sends were made to a rank of which none is on file") { process.comms[0].sends = 1; }
  SECTION("its newest record is torn") { process.torn = 1; }
  CHECK_FALSE(as_executed(recording.run()));
}

TEST_CASE("a graph that nobody launched keeps no replays from being counted where all have it") {
  GpuRecording recording = long_running();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 3, 0, OpKind::AllReduce, 8);
    recording.forget_middle(r, 9);
  }
  REQUIRE(as_executed(recording.run()));
  recording.rank(kOdd).ops.back().count = 9;
  CHECK_FALSE(as_executed(recording.run()));
}

TEST_CASE("what is captured stays at its place however much of a job's middle is gone") {
  constexpr uint64_t kGone = 3'000'000'000'000;  // a year
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    for (int i = 0; i < 200; ++i) capture_two(recording, r, 1);
    recording.launch(r, 1, Gpu::through);
    trace::Process& process = recording.rank(r);
    process.comms[0].collectives += kGone;
    process.graphs[0].launches += kGone;
    process.lost = kGone;
    process.first_complete_ticket = process.next_ticket += kGone;
    if (r == kOdd) continue;
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, 5);
  }
  check_blames(recording.report(), Verdict::graph_diverged, kOdd);
  for (int r = 0; r < kRanks; ++r) recording.call(r, 0, OpKind::AllReduce, 4, Gpu::waiting);
  const Index index(recording.run());
  for (const Member& member : index.groups()[0].members) {
    CHECK(member.lane.has(1));
    CHECK(member.lane.has(401 + kGone));
    CHECK_FALSE(member.lane.has(401));
    CHECK(member.lane.end() == 402 + kGone);
    CHECK(member.lane.next(0) == 0);
    CHECK(member.lane.next(401) == 401 + kGone);
    CHECK(member.lane.next(402 + kGone) == 402 + kGone);
    CHECK(index.misplaced(member.process) == 0);
  }
}

TEST_CASE("ranks that queue further replays behind one that is stuck leave nothing out") {
  GpuRecording recording = world();
  const bool knows_places = GENERATE(true, false);
  for (int r = 0; r < kRanks; ++r) {
    capture_two(recording, r, 1);
    for (int i = 0; i < 5; ++i) recording.launch(r, 1, Gpu::through);
    recording.launch(r, 1, Gpu::begun);
    if (knows_places) recording.stand_at(r, 1, 1);
    if (r != kOdd) recording.launch(r, 1, Gpu::waiting);
  }
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
}

TEST_CASE(
    "who launched a graph once less is told of, whatever lies before and behind its capture") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
    capture_two(recording, r, 1);
    for (int i = 0; i < 20; ++i) recording.launch(r, 1, Gpu::through);
    if (r != kOdd) recording.launch(r, 1, Gpu::begun);
    recording.forget_middle(r, 5);
    // Given up: nothing is known of the newest one.
    for (trace::Op& op : recording.rank(r).ops) op.awaits_gpu = false;
  }
  const Report report = recording.report();
  check_blames(report, Verdict::graph_diverged, kOdd);
  CHECK(lead(report).summary.find("20 times") != std::string::npos);
}

TEST_CASE("calls are compared behind any gap") {
  constexpr uint64_t kGone = 3'000'000'000'000;
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2, 3}}}, kRanks);
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 1, 1, OpKind::AllReduce, 8);
    trace::Process& process = recording.rank(r);
    for (trace::Comm& comm : process.comms) comm.collectives += kGone;
    process.lost = 2 * kGone;
    process.first_complete_ticket = process.next_ticket += 2 * kGone;
    for (int step = 0; step < 6; ++step) {
      recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
      if (r == kOdd && step == 5) {
        recording.call(r, 0, OpKind::AllReduce, 4, Gpu::begun);
      } else {
        recording.call(r, 1, OpKind::AllGather, 4, step < 5 ? Gpu::through : Gpu::begun);
      }
    }
    for (trace::Op& op : process.ops) op.awaits_gpu = false;
    process.meta.clear();
  }
  check_blames(recording.report(), Verdict::missing_call, kOdd);
}

Report report_of(Verdict verdict, const std::vector<uint32_t>& culprits) {
  Report report;
  Finding& finding = report.findings.emplace_back();
  finding.verdict = verdict;
  finding.severity = severity_of(verdict);
  for (const uint32_t process : culprits) {
    Culprit& culprit = finding.culprits.emplace_back();
    culprit.rank = static_cast<int32_t>(process);
    culprit.process = process;
  }
  return report;
}

TEST_CASE(
    "one rank that called otherwise leads over what stands because of it, where that is known") {
  const trace::Run run = long_running().run();
  const Executed known;
  const auto leads = [&](const Report& recorded, Verdict verdict, const Executed& view) {
    return is_better(run, recorded, view, report_of(verdict, {1}));
  };
  const Report stuck = report_of(Verdict::stuck_on_gpu, {0, 1, 2, 3});
  const Report behind = report_of(Verdict::graph_diverged, {2});
  CHECK(leads(stuck, Verdict::missing_call, known));
  CHECK(leads(stuck, Verdict::op_mismatch, known));
  CHECK_FALSE(leads(stuck, Verdict::stream_blocked, known));
  CHECK(leads(behind, Verdict::missing_call, known));
  CHECK(leads(behind, Verdict::p2p_unmatched, known));
  // Its calls may differ because it replayed another graph.
  CHECK_FALSE(leads(behind, Verdict::op_mismatch, known));
  CHECK_FALSE(leads(report_of(Verdict::graph_diverged, {1}), Verdict::missing_call, known));
  Executed unknown;
  unknown.knows_places = false;
  CHECK_FALSE(leads(stuck, Verdict::missing_call, unknown));
  CHECK_FALSE(leads(behind, Verdict::missing_call, unknown));
}

TEST_CASE("of several silent ranks those that wait for a replay are not blamed") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    capture_two(recording, r, 1);
    if (r != kOdd) recording.launch(r, 1, r == 3 ? Gpu::waiting : Gpu::begun);
    if (r != kOdd) recording.stand_at(r, 1, r == 3 ? 0 : 1);
  }
  Executed view;
  Verdict verdict = Verdict::missing_call;
  const auto leads = [&](const std::vector<uint32_t>& recorded, const std::vector<uint32_t>& all) {
    return is_better(recording.run(), report_of(Verdict::missing_call, recorded), view,
                     report_of(verdict, all));
  };
  CHECK(leads({0, 1, kOdd}, {kOdd}));
  CHECK_FALSE(leads({0, 1, kOdd}, {}));
  // The GPU of rank 3 has not come to the replay, and may be held up by something else.
  CHECK_FALSE(leads({0, 3, kOdd}, {0, kOdd}));
  CHECK_FALSE(leads({0, 1, kOdd}, {3}));
  // Neither says who is silent.
  for (const Verdict other : {Verdict::stuck_on_gpu, Verdict::version_mismatch}) {
    verdict = other;
    CHECK_FALSE(leads({0, 1, kOdd}, {kOdd}));
  }
  verdict = Verdict::missing_call;
  view.knows_places = false;
  CHECK_FALSE(leads({0, 1, kOdd}, {kOdd}));
}

TEST_CASE("ranks that wait for their GPUs are not silent where these wait for one that has died") {
  GpuRecording recording = world();
  for (int r = 0; r < 2; ++r) recording.call(r, 0, OpKind::AllReduce, 8, Gpu::waiting);
  const auto leads = [&](Verdict verdict, const std::vector<uint32_t>& silent) {
    return is_better(recording.run(), report_of(Verdict::missing_call, silent), {},
                     report_of(verdict, {3}));
  };
  for (const Verdict verdict : {Verdict::rank_dead, Verdict::rank_stopped}) {
    CHECK(leads(verdict, {0, 1}));
    CHECK_FALSE(leads(verdict, {1, kOdd}));
  }
  CHECK_FALSE(leads(Verdict::abort_cascade, {0, 1}));
}

TEST_CASE("who captured anew with a call less is named, not the others") {
  GpuRecording recording = world();
  for (int r = 0; r < kRanks; ++r) {
    capture_two(recording, r, 1);
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    for (int replay = 0; replay < 2; ++replay) {
      recording.launch(r, 1, Gpu::through);
      recording.call(r, 0, OpKind::AllReduce, 8, Gpu::through);
    }
    if (r == kOdd) {
      for (int i = 0; i < 2; ++i) recording.capture(r, 2, 0, OpKind::AllReduce, 8);
    }
    recording.launch(r, r == kOdd ? 2 : 1, Gpu::begun);
    recording.stand_at(r, r == kOdd ? 2 : 1, 3);
    recording.call(r, 0, OpKind::AllReduce, 8, Gpu::waiting);
  }
  const Report report = recording.report();
  check_blames(report, Verdict::missing_call, kOdd);
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).summary.find("each replay of a CUDA graph counted") != std::string::npos);
}

}  // namespace executed_test
}  // namespace rollcall::analysis
