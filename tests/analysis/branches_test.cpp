// Replays of graphs whose calls are on several streams, of which one may wait for another.
#include "analysis/executed.h"
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace {

enum : size_t { kWorld, kRow, kOtherRow, kColumn, kOtherColumn };
constexpr int kOdd = 2;

size_t row_of(int r) { return r < 2 ? kRow : kOtherRow; }
size_t column_of(int r) { return r % 2 == 0 ? kColumn : kOtherColumn; }

// Into graph 1 a call on the rank's column on one stream, and behind it one of all on another.
void capture_branches(GpuRecording& recording, int r) {
  recording.capture(r, 1, column_of(r), OpKind::AllReduce, 8, -1, 1);
  recording.capture(r, 1, kWorld, OpKind::AllGather, 8, -1, 0);
}

// Rank 2 leaves out the replay of graph 2, in which its row waits; of the other row rank 1 waits
// for a column, and rank 0 for all.
GpuRecording leave_out_a_replay() {
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    capture_branches(recording, r);
    recording.capture(r, 2, row_of(r), OpKind::AllReduce, 16);
    for (const uint32_t graph : {2u, 1u}) recording.launch(r, graph, Gpu::through);
  }
  for (const int r : {0, 1, 3}) {
    recording.launch(r, 2, r == 3 ? Gpu::begun : Gpu::through);
    recording.stand_at(r, 2, r == 3 ? 1 : 2);
  }
  for (int r = 0; r < 4; ++r) {
    recording.launch(r, 1, r == 3 ? Gpu::waiting : Gpu::begun);
    if (r != 3)
      recording.stand_on(r, 1, r == 1 ? std::vector<uint64_t>{0, 1} : std::vector<uint64_t>{1, 2});
    recording.call(r, kWorld, OpKind::AllReduce, 4, Gpu::waiting);
  }
  return recording;
}

TEST_CASE("who left out a replay is named, not who waits for it inside graphs of several streams") {
  check_blames(leave_out_a_replay().report(), Verdict::graph_diverged, kOdd);
}

TEST_CASE("as executed, what may wait in a replay is on the stream of what it may wait for") {
  GpuRecording recording = leave_out_a_replay();
  const std::optional<Executed> executed = as_executed(recording.run());
  REQUIRE(executed);
  const auto newest = [&](int r) {
    const std::vector<trace::Op>& ops = executed->run.processes[static_cast<size_t>(r)].ops;
    REQUIRE(ops.size() >= 3);
    return std::vector<trace::Op>(ops.end() - 3, ops.end());
  };
  // The column runs, then come all, then what is behind the replay.
  const std::vector<trace::Op> waiting = newest(1);
  CHECK(waiting[0].state == trace::OpState::started);
  CHECK(waiting[1].stream == waiting[0].stream);
  CHECK(waiting[2].stream == waiting[0].stream);
  // The column is through.
  const std::vector<trace::Op> inside = newest(0);
  CHECK(inside[0].state == trace::OpState::finished);
  CHECK(inside[1].state == trace::OpState::started);
  CHECK(inside[1].stream != inside[0].stream);
  CHECK(inside[2].stream == inside[1].stream);
  // The stream that it is launched on has not come to the replay.
  const std::vector<trace::Op> queued = newest(3);
  for (const trace::Op& op : queued) CHECK(op.stream == queued[2].stream);
}

TEST_CASE("of a replay that stands on no stream inside a call, what comes first is told") {
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    capture_branches(recording, r);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_on(r, 1,
                       r == kOdd ? std::vector<uint64_t>{0, 0}
                       : r == 0  ? std::vector<uint64_t>{0, 1}
                                 : std::vector<uint64_t>{1, 2});
  }
  const Report report = recording.report();
  const Culprit culprit = check_blames(report, Verdict::stream_blocked, kOdd);
  CHECK(culprit.op == "AllReduce");
}

TEST_CASE("what comes before all that a replay is inside of waits for none of that") {
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    capture_branches(recording, r);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_on(r, 1, {1, r == kOdd ? 0u : r == 0 ? 1u : 2u});
  }
  const std::optional<Executed> executed = as_executed(recording.run());
  REQUIRE(executed);
  const std::vector<trace::Op>& ops = executed->run.processes[kOdd].ops;
  REQUIRE(ops.size() >= 2);
  CHECK(ops[ops.size() - 2].stream != ops.back().stream);
}

}  // namespace
}  // namespace rollcall::analysis
