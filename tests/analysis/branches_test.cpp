// Replays of graphs whose calls are on several streams, of which one may wait for another.
#include "analysis/views/as_executed.h"
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace branches_test {

enum : size_t { kWorld, kRow, kOtherRow, kColumn, kOtherColumn };
constexpr int kOdd = 2;
constexpr uint64_t kLaunchStream = 0x100;

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
    const std::vector<uint64_t> positions[] = {{1, 2}, {0, 1}, {1, 2}, {2, 2}};
    recording.stand_on(r, 1, positions[r]);
    recording.call(r, kWorld, OpKind::AllReduce, 4, Gpu::waiting);
  }
  return recording;
}

TEST_CASE("who left out a replay is named, not who waits for it inside graphs of several streams") {
  check_blames(leave_out_a_replay().report(), Verdict::graph_diverged, kOdd);
}

// As executed: the newest three calls of a rank.
std::vector<trace::Op> newest_of(const Executed& executed, int r) {
  const std::vector<trace::Op>& ops = executed.run.processes[static_cast<size_t>(r)].ops;
  REQUIRE(ops.size() >= 3);
  return {ops.end() - 3, ops.end()};
}

TEST_CASE("as executed, what a replay waits in is in front of what was launched behind it") {
  GpuRecording recording = leave_out_a_replay();
  const std::optional<Executed> executed = as_executed(recording.run());
  REQUIRE(executed);
  // The column runs, then come all, then what is behind the replay.
  const std::vector<trace::Op> waiting = newest_of(*executed, 1);
  CHECK(waiting[0].state == trace::OpState::started);
  CHECK(waiting[0].stream == kLaunchStream);
  CHECK(waiting[1].stream != kLaunchStream);
  CHECK(waiting[1].may_wait);
  CHECK(waiting[2].stream == kLaunchStream);
  CHECK_FALSE(waiting[2].may_wait);
  // The column is through.
  const std::vector<trace::Op> inside = newest_of(*executed, 0);
  CHECK(inside[0].state == trace::OpState::finished);
  CHECK(inside[1].state == trace::OpState::started);
  CHECK(inside[1].stream == kLaunchStream);
  CHECK(inside[0].stream != kLaunchStream);
  CHECK(inside[2].stream == kLaunchStream);
  // The stream that it is launched on has not come to the replay.
  const std::vector<trace::Op> queued = newest_of(*executed, 3);
  CHECK(queued[0].stream == kLaunchStream);
  CHECK(queued[1].stream == kLaunchStream);
  CHECK(queued[2].stream == kLaunchStream);
}

TEST_CASE("streams of a graph stay apart where it is launched on one of them") {
  GpuRecording recording = leave_out_a_replay();
  for (trace::Op& op : recording.rank(1).ops) {
    if (op.stream == kLaunchStream) op.stream = 0x900;
  }
  const std::optional<Executed> executed = as_executed(recording.run());
  REQUIRE(executed);
  const std::vector<trace::Op> waiting = newest_of(*executed, 1);
  CHECK(waiting[0].stream == 0x900);
  CHECK(waiting[1].stream == 0x901);
  CHECK(waiting[2].stream == 0x900);
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
  const std::vector<trace::Op> calls = newest_of(*executed, kOdd);
  CHECK(calls[1].state == trace::OpState::returned);
  CHECK_FALSE(calls[1].may_wait);
  CHECK(calls[2].state == trace::OpState::started);
  CHECK(calls[1].stream != calls[2].stream);
}

TEST_CASE("who has not come to what others are inside of is told, whatever comes in front of it") {
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    if (r == 0) recording.capture(r, 1, kWorld, OpKind::Send, 8, kOdd, 1);
    if (r == kOdd) recording.capture(r, 1, kWorld, OpKind::Recv, 8, 0, 1);
    recording.capture(r, 1, column_of(r), OpKind::AllReduce, 8, -1, 0);
    recording.launch(r, 1, Gpu::begun);
  }
  recording.stand_on(0, 1, {1, 1});
  recording.stand_on(kOdd, 1, {0, 0});
  // Through with its calls; something behind them does not end.
  for (const int r : {1, 3}) recording.stand_on(r, 1, {2});
  const Report report = recording.report();
  CHECK(check_blames(report, Verdict::stream_blocked, kOdd).op == "AllReduce");
  CHECK(lead(report).summary.find("in which other ranks are") != std::string::npos);
}

}  // namespace branches_test
}  // namespace rollcall::analysis
