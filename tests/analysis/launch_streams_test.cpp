// Graphs that are launched beside calls on other streams, or each on a stream of its own. Which
// stream waits for which is on no file.
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace launch_streams_test {

constexpr int kRanks = 4;
constexpr int kOdd = 2;
constexpr uint64_t kOfFirst = 1;
constexpr uint64_t kOfSecond = 2;
enum : size_t { kWorld, kRow, kOtherRow, kColumn, kOtherColumn, kTwin };

// The mesh of four ranks, and another communicator of all of them.
GpuRecording mesh_and_twin() {
  std::vector<sim::CommSpec> comms = mesh_of_four();
  comms.push_back({.ranks = {0, 1, 2, 3}});
  return GpuRecording(std::move(comms), kRanks);
}

size_t row_of(int r) { return r < 2 ? kRow : kOtherRow; }
size_t column_of(int r) { return r % 2 == 0 ? kColumn : kOtherColumn; }

// Each rank has launched both graphs in turn. Then rank 2 launches the second in front of the
// first, as if it had left out one of the first.
void swap_launches(GpuRecording& recording, const std::vector<uint64_t>& in_first,
                   const std::vector<uint64_t>& in_second) {
  for (int r = 0; r < kRanks; ++r) {
    for (int step = 0; step < 3; ++step) {
      recording.launch(r, 1, Gpu::through, kOfFirst);
      recording.launch(r, 2, Gpu::through, kOfSecond);
    }
  }
  for (int r = 0; r < kRanks; ++r) {
    if (r == kOdd) recording.launch(r, 2, Gpu::begun, kOfSecond);
    recording.launch(r, 1, r == kOdd ? Gpu::waiting : Gpu::begun, kOfFirst);
    if (r != kOdd) recording.launch(r, 2, Gpu::waiting, kOfSecond);
    recording.stand_on(r, r == kOdd ? 2 : 1, r == kOdd ? in_second : in_first);
  }
}

TEST_CASE("calls of a graph that run beside each other do not say that no stream waits") {
  GpuRecording recording = mesh_and_twin();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, kWorld, OpKind::AllReduce, 8);
    recording.capture(r, 2, row_of(r), OpKind::AllReduce, 16, -1, 0);
    recording.capture(r, 2, column_of(r), OpKind::AllGather, 16, -1, 1);
  }
  swap_launches(recording, {1}, {1, 1});
  const Report report = recording.report();
  check_blames(report, Verdict::missing_call, kOdd);
  CHECK(lead(report).summary.find("wait for each other") != std::string::npos);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("what runs behind a call that has not begun says that no stream waits") {
  GpuRecording recording = mesh_and_twin();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, kWorld, OpKind::AllReduce, 8);
    recording.capture(r, 2, row_of(r), OpKind::AllReduce, 16);
  }
  swap_launches(recording, {1}, {1});
  for (int r = 0; r < kRanks; ++r) {
    recording.call(r, kTwin, OpKind::AllReduce, 4, r == 3 ? Gpu::waiting : Gpu::begun, 3);
  }
  CHECK(lead(recording.report()).verdict == Verdict::insufficient);
}

TEST_CASE("whoever swaps two graphs of several calls is named: a replay is taken as a whole") {
  GpuRecording recording = mesh_and_twin();
  for (int r = 0; r < kRanks; ++r) {
    for (const OpKind kind : {OpKind::AllReduce, OpKind::AllGather}) {
      recording.capture(r, 1, kWorld, kind, 8);
      recording.capture(r, 2, kTwin, kind, 8);
    }
  }
  swap_launches(recording, {1}, {1});
  check_blames(recording.report(), Verdict::missing_call, kOdd);
}

// Rank 0 has never launched the graph in which rank 1 stands, and stands in the other one.
GpuRecording leave_out_the_first_replay() {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  for (int r = 0; r < 2; ++r) {
    for (const uint32_t graph : {1u, 2u}) {
      recording.capture(r, graph, kWorld, r == 0 ? OpKind::Send : OpKind::Recv, kLarge * graph,
                        1 - r);
    }
  }
  recording.launch(0, 2, Gpu::begun, kOfSecond);
  recording.stand_at(0, 2, 1);
  recording.launch(1, 1, Gpu::begun, kOfFirst);
  recording.stand_at(1, 1, 1);
  recording.launch(1, 2, Gpu::waiting, kOfSecond);
  return recording;
}

TEST_CASE("who never launched a graph that others wait in is named though it waits itself") {
  GpuRecording recording = leave_out_the_first_replay();
  const Report report = recording.report();
  check_blames(report, Verdict::graph_diverged, 0);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("who launched both graphs has left none out") {
  GpuRecording recording = leave_out_the_first_replay();
  recording.launch(0, 1, Gpu::waiting, kOfFirst);
  CHECK(lead(recording.report()).verdict != Verdict::graph_diverged);
}

TEST_CASE("who made the next call in place of a captured one has captured less") {
  GpuRecording recording = mesh_and_twin();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, kWorld, OpKind::Broadcast, 8, 0);
    if (r != kOdd) recording.capture(r, 1, kWorld, OpKind::AllReduce, 16);
    recording.call(r, kWorld, OpKind::AllGather, 8, Gpu::through);
    recording.launch(r, 1, r == kOdd ? Gpu::through : Gpu::begun, kOfFirst);
    recording.stand_at(r, 1, r == kOdd ? 2 : 3);
    if (r == kOdd) recording.call(r, kWorld, OpKind::AllGather, 8, Gpu::begun);
  }
  const Report report = recording.report();
  check_blames(report, Verdict::graph_diverged, kOdd);
  CHECK(lead(report).summary.find("captured 1 operation") != std::string::npos);
}

TEST_CASE("who captured another call than the others has captured no less") {
  GpuRecording recording = mesh_and_twin();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, kWorld, OpKind::AllReduce, r == kOdd ? 9 : 8);
    recording.launch(r, 1, Gpu::begun, kOfFirst);
    recording.stand_at(r, 1, 1);
  }
  check_blames(recording.report(), Verdict::count_mismatch, kOdd);
}

TEST_CASE("who left a call out between two replays is not said to have replayed too often") {
  GpuRecording recording = mesh_and_twin();
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, kWorld, OpKind::AlltoAll, 8);
    for (int step = 0; step < 3; ++step) {
      const bool is_last = step == 2;
      recording.launch(r, 1, Gpu::through, kOfFirst);
      recording.call(r, kWorld, OpKind::Scatter, 8, Gpu::through);
      if (is_last && r == kOdd) continue;
      recording.call(r, kWorld, OpKind::ReduceScatter, 8, is_last ? Gpu::begun : Gpu::through);
    }
  }
  recording.launch(kOdd, 1, Gpu::begun, kOfFirst);
  recording.stand_at(kOdd, 1, 1);
  recording.call(kOdd, kWorld, OpKind::Scatter, 8, Gpu::waiting);
  const Report report = recording.report();
  const Culprit& culprit = check_blames(report, Verdict::missing_call, kOdd);
  CHECK(culprit.op == "ReduceScatter");
}

}  // namespace launch_streams_test
}  // namespace rollcall::analysis
