// Where replays stand: between their operations, behind them, inside a group of them.
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace replay_places_test {

bool says(const Report& report, const char* text) {
  return lead(report).summary.find(text) != std::string::npos;
}

// Three ranks that captured two calls and launched the graph; those that stand nowhere are through.
GpuRecording replay_two_calls(std::map<int, uint64_t> standing) {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 1, 0, OpKind::AllReduce, 16);
    const bool stands = standing.count(r) != 0;
    recording.launch(r, 1, stands ? Gpu::begun : Gpu::through);
    recording.stand_at(r, 1, stands ? standing[r] : 4);
  }
  return recording;
}

TEST_CASE("a replay that is through with its operations and does not end is blocked behind them") {
  GpuRecording recording = replay_two_calls({{1, 4}});
  const Report report = recording.report();
  check_blames(report, Verdict::stream_blocked, 1);
  CHECK(says(report, "is through with all its NCCL operations"));
  CHECK(lead(report).next.find("behind its last NCCL operation") != std::string::npos);
}

TEST_CASE("who waits in the next replay waits for what stands behind the operations of this one") {
  GpuRecording recording = replay_two_calls({{1, 4}});
  for (const int r : {0, 2}) {
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, 1);
  }
  check_blames(recording.report(), Verdict::stream_blocked, 1);
}

TEST_CASE("a replay between two transfers is blocked, though small sends wait for nobody") {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  for (int r = 0; r < 2; ++r) {
    const OpKind kind = r == 0 ? OpKind::Send : OpKind::Recv;
    for (int i = 0; i < 2; ++i) recording.capture(r, 1, 0, kind, 8, 1 - r);
    recording.launch(r, 1, r == 0 ? Gpu::through : Gpu::begun);
    recording.stand_at(r, 1, r == 0 ? 4 : 2);
  }
  const Report report = recording.report();
  check_blames(report, Verdict::stream_blocked, 1);
  CHECK(says(report, "has not come to Recv"));
  CHECK_FALSE(says(report, "in which other ranks are"));
}

// All send to all in one group, behind a call of all. `at`: where each rank's replay stands.
GpuRecording exchange(const std::vector<uint64_t>& at) {
  const int ranks = static_cast<int>(at.size());
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  GpuRecording recording({{.ranks = all}}, ranks);
  for (const int r : all) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    for (const int peer : all) {
      if (peer == r) continue;
      for (const OpKind kind : {OpKind::Send, OpKind::Recv}) {
        recording.capture(r, 1, 0, kind, 8, peer);
        recording.rank(r).ops.back().group = 3;
      }
    }
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, at[static_cast<size_t>(r)]);
  }
  return recording;
}

TEST_CASE("transfers of a group are not stuck where another one's other side has not come to it") {
  GpuRecording recording = exchange({3, 3, 3, 2});
  check_blames(recording.report(), Verdict::stream_blocked, 3);
}

TEST_CASE("positions are those of the replay that has begun, whatever was launched behind it") {
  GpuRecording recording = exchange({3, 3, 3, 2});
  recording.launch(3, 1, Gpu::waiting);
  check_blames(recording.report(), Verdict::stream_blocked, 3);
}

TEST_CASE("of a group that all are in all are named: nobody knows which transfer does not end") {
  GpuRecording recording = exchange({3, 3, 3, 3});
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  CHECK(lead(report).culprits.size() == 4);
}

TEST_CASE("of a group those are named whose transfers do not end, not who is through") {
  // A pipeline: each passes on to the next, in one group with what it gets.
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}}, 4);
  for (int r = 0; r < 4; ++r) {
    if (r > 0) recording.capture(r, 1, 0, OpKind::Recv, 8, r - 1);
    recording.rank(r).ops.back().group = 3;
    if (r < 3) recording.capture(r, 1, 0, OpKind::Send, 8, r + 1);
    recording.rank(r).ops.back().group = 3;
    recording.launch(r, 1, r < 2 ? Gpu::through : Gpu::begun);
    recording.stand_at(r, 1, r < 2 ? 2 : 1);
  }
  check_names(recording.report(), Verdict::stuck_on_gpu, {2, 3});
}

// Rows 0,1 and 2,3, columns 0,2 and 1,3: a call of the row, and one of the column behind it.
GpuRecording replay_mesh(std::map<int, uint64_t> standing) {
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    recording.capture(r, 1, r < 2 ? 1 : 2, OpKind::AllReduce, 8);
    recording.capture(r, 1, r % 2 == 0 ? 3 : 4, OpKind::AllReduce, 16);
    const bool stands = standing.count(r) != 0;
    recording.launch(r, 1, stands ? Gpu::begun : Gpu::through);
    recording.stand_at(r, 1, stands ? standing[r] : 4);
  }
  return recording;
}

TEST_CASE("named are the ranks of the operation that a replay is stuck in") {
  GpuRecording recording = replay_mesh({{1, 3}, {3, 3}});
  const Report report = recording.report();
  check_names(report, Verdict::stuck_on_gpu, {1, 3});
  CHECK(says(report, "ranks 1,3 are inside AllReduce of 16"));
}

TEST_CASE("where some ranks of a replay wait for others that are stuck in it, those are named") {
  // A call of the row, one of the column, one of all: the first column has come to that.
  GpuRecording recording(mesh_of_four(), 4);
  for (int r = 0; r < 4; ++r) {
    recording.capture(r, 1, r < 2 ? 1 : 2, OpKind::AllReduce, 8);
    recording.capture(r, 1, r % 2 == 0 ? 3 : 4, OpKind::AllReduce, 16);
    recording.capture(r, 1, 0, OpKind::AllReduce, 32);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, r % 2 == 0 ? 5 : 3);
  }
  check_names(recording.report(), Verdict::stuck_on_gpu, {1, 3});
}

TEST_CASE("whose replay is blocked has not left out what its host calls behind it") {
  GpuRecording recording = replay_mesh({{2, 1}, {3, 0}});
  for (const int r : {0, 1}) recording.call(r, 0, OpKind::AllReduce, 32, Gpu::begun);
  const Report report = recording.report();
  check_blames(report, Verdict::stream_blocked, 3);
  REQUIRE(lead(report).consequences.size() == 1);
  CHECK(lead(report).consequences[0].verdict == Verdict::missing_call);
}

TEST_CASE("who left out a replay and launches it later is named, not who stands in it") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllGather, 8);
    recording.launch(r, 1, Gpu::through);
    recording.stand_at(r, 1, r == 0 ? 2 : 1);
    if (r == 0) recording.call(r, 0, OpKind::AllReduce, 16, Gpu::begun);
    recording.launch(r, 1, r == 0 ? Gpu::waiting : Gpu::begun);
  }
  const Report report = recording.report();
  INFO(text_of(report));
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 0);
  CHECK(says(report, "each replay of a CUDA graph counted"));
}

TEST_CASE("who has finished the call that a replay is stuck in is told") {
  GpuRecording recording = replay_two_calls({{2, 3}});
  const Report report = recording.report();
  check_names(report, Verdict::stuck_on_gpu, {2});
  CHECK(says(report, "rank 2 is inside AllReduce of 16"));
  CHECK(says(report, "ranks 0-1 finished it"));
}

TEST_CASE("a replay is not stuck in a call of which a rank left no file") {
  GpuRecording recording({{.ranks = {0, 1, 2}}, {.ranks = {0, 1}, .parent = 0}}, 3);
  for (int r = 0; r < 3; ++r) {
    if (r < 2) recording.capture(r, 1, 1, OpKind::AllReduce, 8);
    recording.capture(r, 1, 0, OpKind::AllReduce, 16);
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, r < 2 ? 3 : 1);
  }
  check_names(recording.report(), Verdict::stuck_on_gpu, {0, 1, 2});
  recording.run().processes.pop_back();
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
}

TEST_CASE("of a graph whose captured calls are not on file nobody knows who else is in it") {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  for (int r = 0; r < 2; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::through);
    if (r == 0) recording.launch(r, 1, Gpu::begun);
    std::erase_if(recording.rank(r).ops, [](const trace::Op& op) {
      return op.graph != 0 && op.kind != OpKind::GraphLaunch;
    });
  }
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
}

TEST_CASE("positions tell nothing of a graph with more streams than have one") {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  for (int r = 0; r < 2; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 1, 0, OpKind::AllReduce, 16);
    recording.rank(r).ops.back().stream = 0x901;
    recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, 2);
  }
  check_names(recording.report(), Verdict::stuck_on_gpu, {0, 1});
}

}  // namespace replay_places_test
}  // namespace rollcall::analysis
