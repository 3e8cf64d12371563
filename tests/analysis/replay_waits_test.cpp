// Replays that wait inside a captured call for somebody who owes it, or between two.
#include <algorithm>

#include "tests/analysis/cost.h"
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace replay_waits_test {

enum : size_t { kWorld, kRow, kOtherRow, kColumn, kOtherColumn };

size_t row_of(int r) { return r < 2 ? kRow : kOtherRow; }
size_t column_of(int r) { return r % 2 == 0 ? kColumn : kOtherColumn; }

TEST_CASE("who captured nothing for a communicator is named, not those whose graphs are alike") {
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    recording.capture(r, 1, row_of(r), OpKind::AllReduce, 8);
    if (r != 3) recording.capture(r, 1, column_of(r), OpKind::AllReduce, 8);
  }
  // Rank 1 waits for rank 3 in its column, rank 0 for rank 1 in the row, and so on.
  recording.launch(1, 1, Gpu::begun);
  recording.stand_at(1, 1, 3);
  recording.launch(3, 1, Gpu::through);
  for (const int r : {0, 2, 3}) {
    recording.launch(r, 1, Gpu::through);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, r == 2 ? 3 : 1);
  }
  const Report report = recording.report();
  CHECK(check_blames(report, Verdict::graph_diverged, 3).seq == 1u);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(lead(report).summary.find("never made that call") != std::string::npos);
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).consequences.empty());
  CHECK(report.findings.size() == 1);
}

TEST_CASE("who replays a graph of sends and receives once less is named") {
  for (const int odd : {0, 1}) {
    GpuRecording recording({{.ranks = {0, 1}}}, 2);
    recording.capture(0, 1, 0, OpKind::Send, 8, 1);
    recording.capture(1, 1, 0, OpKind::Recv, 8, 0);
    for (const int r : {0, 1}) {
      recording.launch(r, 1, Gpu::through);
      if (r == odd) {
        recording.call(r, 0, OpKind::AllReduce, 4, Gpu::begun);
      } else {
        recording.launch(r, 1, Gpu::begun);
        recording.stand_at(r, 1, 1);
        recording.call(r, 0, OpKind::AllReduce, 4, Gpu::waiting);
      }
    }
    const Report report = recording.report();
    check_blames(report, Verdict::graph_diverged, odd);
    CHECK(lead(report).summary.find("launched the graph that holds it 1 time") !=
          std::string::npos);
  }
}

TEST_CASE("a replay that does not come to the call in which the others are is blocked") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 1, 0, OpKind::AllReduce, 16);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, r == 1 ? 2 : 3);
  }
  const Report report = recording.report();
  CHECK(check_blames(report, Verdict::stream_blocked, 1).seq == 2u);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 2});
  CHECK(lead(report).summary.find("in which other ranks are") != std::string::npos);
  CHECK(lead(report).consequences.empty());
}

TEST_CASE("replays that are all inside the same call are stuck on their GPUs") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, 1);
  }
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  CHECK(lead(report).culprits.size() == 3);
}

// Three ranks replay twice; rank 2 makes `calls` and no second replay.
GpuRecording replay_once(int calls) {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::through);
    if (r != 2) {
      recording.launch(r, 1, Gpu::begun);
      recording.stand_at(r, 1, 1);
    }
    for (int i = 0; i < (r == 2 ? calls : 0); ++i) {
      recording.call(r, 0, OpKind::AllReduce, 4, Gpu::begun);
    }
  }
  return recording;
}

TEST_CASE("a rank that is behind in replays is looked for where it is") {
  GpuRecording silent = replay_once(0);
  const Report report = silent.report();
  check_blames(report, Verdict::graph_diverged, 2);
  CHECK(lead(report).summary.find("has called nothing behind its last replay") !=
        std::string::npos);
  CHECK(lead(report).next.find("look at the stack of rank 2") == 0);

  GpuRecording went_on = replay_once(1);
  const Report other = went_on.report();
  check_blames(other, Verdict::graph_diverged, 2);
  CHECK(lead(other).next.find("how often the graph is launched") != std::string::npos);
}

TEST_CASE("a rank that ended between two replays is dead, and left none out") {
  GpuRecording recording = replay_once(0);
  recording.rank(2).liveness = trace::Liveness::exited;
  recording.rank(2).exited_ns = recording.rank(2).heartbeat_ns =
      recording.rank(2).ops.back().called_ns + 5'000;
  const Report report = recording.report();
  check_blames(report, Verdict::rank_dead, 2);
  CHECK(lead(report).next.find("look at the log and exit status of rank 2") == 0);
  recording.forget_captured();
  check_blames(recording.report(), Verdict::rank_dead, 2);
}

TEST_CASE("a rank that was stopped between two replays is stopped, and left none out") {
  GpuRecording recording = replay_once(0);
  recording.run().live = true;
  for (trace::Process& process : recording.run().processes) {
    process.liveness = trace::Liveness::running;
    recording.run().read_at_ns = std::max(recording.run().read_at_ns, process.heartbeat_ns);
  }
  recording.rank(2).liveness = trace::Liveness::stopped;
  recording.forget_captured();
  const Report report = recording.report();
  check_blames(report, Verdict::rank_stopped, 2);
  CHECK(lead(report).next.find("find out who stopped rank 2") == 0);
}

TEST_CASE("a graph of which one rank replays more when all others have ended is its own") {
  GpuRecording recording = replay_once(0);
  // Ranks 1 and 2 have replayed once, and ended.
  for (const int r : {1, 2}) {
    trace::Process& process = recording.rank(r);
    if (r == 1) {
      process.ops.pop_back();
      process.graphs.front().launches = 1;
    }
    process.liveness = trace::Liveness::exited;
    process.exited_ns = process.heartbeat_ns = process.ops.back().called_ns + 5'000;
  }
  check_blames(recording.report(), Verdict::graph_diverged, 0);
}

TEST_CASE("of calls on a communicator that nobody saw made nobody knows who else is in them") {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  for (int r = 0; r < 2; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, r == 0 ? 1 : 0);
    for (trace::Op& op : recording.rank(r).ops) {
      if (op.graph != 0) op.comm = kCommUnknown;
    }
  }
  const Report report = recording.report();
  INFO(text_of(report));
  check_blames(report, Verdict::stream_blocked, 1);
  CHECK(lead(report).summary.find("in which other ranks are") == std::string::npos);
}

TEST_CASE("positions name no call where the first of the captured ones is not on file") {
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    recording.capture(r, 1, row_of(r), OpKind::AllReduce, 8);
    recording.capture(r, 1, column_of(r), OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::through);
  }
  // Inside the call of the row, which rank 1 owes.
  recording.launch(0, 1, Gpu::begun);
  recording.stand_at(0, 1, 1);
  check_blames(recording.report(), Verdict::graph_diverged, 1);
  for (int r = 0; r < 4; ++r) {
    std::vector<trace::Op>& ops = recording.rank(r).ops;
    const auto first =
        std::find_if(ops.begin(), ops.end(), [](const trace::Op& op) { return op.graph != 0; });
    ops.erase(ops.begin(), first + 1);
    recording.rank(r).first_complete_ticket = ops.front().ticket;
  }
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
}

TEST_CASE("who waits in another graph's replay has not left out the next one") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 2, 0, OpKind::AllReduce, 8);
    recording.capture(r, 2, 0, OpKind::AllReduce, 16);
    recording.launch(r, 1, Gpu::through);
    recording.launch(r, 2, Gpu::begun);
    recording.stand_at(r, 2, r == 2 ? 2 : 3);
    // Rank 1 waits for its GPU, and the others do not.
    if (r != 1) recording.launch(r, 1, Gpu::waiting);
  }
  const Report report = recording.report();
  CHECK(check_blames(report, Verdict::stream_blocked, 2).seq == 3u);
  REQUIRE(lead(report).consequences.size() == 1);
  CHECK(lead(report).consequences.front().verdict == Verdict::graph_diverged);
}

TEST_CASE("who waits for its GPU in front of another graph has not left out the next replay") {
  GpuRecording recording({{.ranks = {0, 1}}, {.ranks = {0, 1}, .parent = 0}}, 2);
  for (int r = 0; r < 2; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 2, 1, OpKind::AllReduce, 8);
    recording.launch(r, 2, Gpu::through);
  }
  recording.launch(0, 1, Gpu::begun);
  recording.launch(1, 1, Gpu::waiting);
  recording.launch(0, 2, Gpu::waiting);
  recording.forget_captured();
  const Report report = recording.report();
  check_blames(report, Verdict::stream_blocked, 1);
  REQUIRE(lead(report).consequences.size() == 1);
  CHECK(lead(report).consequences.front().verdict == Verdict::graph_diverged);
}

TEST_CASE("a replay more that is queued on a GPU that moves is waited for by nobody") {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  for (int r = 0; r < 2; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::through);
    recording.launch(r, 1, Gpu::begun);
  }
  recording.launch(0, 1, Gpu::waiting);
  recording.forget_captured();
  CHECK(lead(recording.report()).severity == Severity::hang);
  recording.move_until(1'000'000);
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::info);
}

TEST_CASE("a wrong size in a replay that does not end is a hang, and in one that moves none") {
  for (const bool moves : {false, true}) {
    GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
    for (int r = 0; r < 3; ++r) {
      recording.capture(r, 1, 0, OpKind::AllReduce, r == 1 ? 9 : 8);
      recording.launch(r, 1, Gpu::begun);
      recording.stand_at(r, 1, 1);
    }
    if (moves) recording.move_until(1'000'000);
    const Report report = recording.report();
    check_blames(report, Verdict::count_mismatch, 1);
    CHECK(lead(report).severity == (moves ? Severity::corruption : Severity::hang));
  }
}

TEST_CASE("a receive that is no longer on file is not one that was never made") {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  recording.capture(0, 1, 0, OpKind::Send, 8, 1);
  recording.capture(1, 1, 0, OpKind::Recv, 8, 0);
  for (const int r : {0, 1}) {
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, 1);
  }
  std::vector<trace::Op>& ops = recording.rank(1).ops;
  std::erase_if(ops, [](const trace::Op& op) { return op.kind == OpKind::Recv; });
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict != Verdict::graph_diverged);
}

TEST_CASE("what a GPU began a moment ago does not stand, however long ago it was launched") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 1, 0, OpKind::AllReduce, 16);
    recording.launch(r, 1, Gpu::through);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, r == 1 ? 2 : 3);
    trace::Process& process = recording.rank(r);
    trace::Op& running = process.ops.back();
    running.started_ns = process.heartbeat_ns - 1'000'000;
    process.ops.end()[-2].finished_ns = running.started_ns - 1'000;
  }
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).severity == Severity::info);
}

TEST_CASE("replays of eight thousand ranks are judged in a moment", "[scale]") {
  GpuRecording recording({{.ranks = {0}}}, 1);
  for (int i = 0; i < 20; ++i) recording.capture(0, 1, 0, OpKind::AllReduce, 8);
  for (int replay = 0; replay < 20; ++replay) {
    recording.launch(0, 1, replay < 19 ? Gpu::through : Gpu::begun);
  }
  recording.stand_at(0, 1, 21);
  multiply(recording.run(), 8192);
  Report report;
  CHECK(yards_to_judge("replays of 8,192 ranks", recording.run(), report) < 60);
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  recording.rank(77).graphs.front().lanes.front().position = 20;
  CHECK(yards_to_judge("replays of 8,192 ranks, one behind", recording.run(), report) < 60);
  check_blames(report, Verdict::stream_blocked, 77);
}

TEST_CASE("eight thousand ranks that wait for one GPU are judged in a moment", "[scale]") {
  GpuRecording recording({{.ranks = {0}}}, 1);
  recording.call(0, 0, OpKind::AllReduce, 8, Gpu::begun);
  multiply(recording.run(), 8192);
  trace::Op& blocked = recording.rank(77).ops.back();
  blocked.started_ns = 0;
  blocked.state = trace::OpState::returned;
  // One has called on, whom all others keep waiting.
  recording.call(0, 0, OpKind::AllReduce, 16, Gpu::waiting);
  Report report;
  CHECK(yards_to_judge("8,192 ranks that wait for one GPU", recording.run(), report) < 15);
  check_blames(report, Verdict::stream_blocked, 77);
}

TEST_CASE("who of eight thousand ranks holds up a replay is found in a moment", "[scale]") {
  GpuRecording recording({{.ranks = {0}}}, 1);
  recording.capture(0, 1, 0, OpKind::AllReduce, 8);
  recording.launch(0, 1, Gpu::begun);
  recording.stand_at(0, 1, 1);
  multiply(recording.run(), 8192);
  recording.rank(77).graphs.front().lanes.front().position = 0;
  // One has called on, whom all others keep waiting.
  recording.call(0, 0, OpKind::AllReduce, 16, Gpu::waiting);
  Report report;
  CHECK(yards_to_judge("8,192 ranks at one replay", recording.run(), report) < 30);
  check_blames(report, Verdict::stream_blocked, 77);
}

}  // namespace replay_waits_test
}  // namespace rollcall::analysis
