// Replays of graphs of which nothing on file tells any more what they hold.
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace unread_replays_test {

constexpr int kRanks = 4;
constexpr int kOdd = 3;

// All replay a graph three times, and wait in the third; rank 3 leaves one out. What was captured
// is gone.
GpuRecording waiting_in_replays() {
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}}, kRanks);
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.capture(r, 1, 0, OpKind::AllGather, 8);
    recording.launch(r, 1, Gpu::through);
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
    if (r != kOdd) {
      recording.launch(r, 1, Gpu::begun);
      recording.stand_at(r, 1, 1);
    } else {
      // Once less, and one call further, in which nobody else is.
      recording.call(r, 0, OpKind::AllReduce, 4, Gpu::begun);
    }
    recording.forget_all_but(r, 3);
  }
  return recording;
}

TEST_CASE("who is silent because a replay of unknown calls does not end is not to blame") {
  const Report report = waiting_in_replays().report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).culprits.empty());
  CHECK(lead(report).summary.find("ranks 0-2 have been in a replay of a CUDA graph for") == 0);
  CHECK(lead(report).summary.find("no longer on file") != std::string::npos);
  CHECK(lead(report).next.find("ROLLCALL_HISTORY") != std::string::npos);
  // What follows from it: the call in which rank 3 is alone.
  REQUIRE(lead(report).consequences.size() == 1);
  CHECK(lead(report).consequences[0].verdict == Verdict::missing_call);
  CHECK(report.status == 3);
}

TEST_CASE("who launched what seems the same graph less often stands in the evidence") {
  const Report report = waiting_in_replays().report();
  REQUIRE_FALSE(lead(report).evidence.empty());
  CHECK(lead(report).evidence[0].text ==
        "rank 3 launched a graph that was captured at the same place, with as many operations, 1 "
        "time");
  CHECK(lead(report).evidence[1].text ==
        "rank 0: GraphLaunch, replay 2 of a graph of 2 operations");
}

TEST_CASE("with what was captured on file the rank is named") {
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}}, kRanks);
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::through);
    recording.call(r, 0, OpKind::AllReduce, 4, Gpu::through);
    if (r == kOdd) {
      recording.call(r, 0, OpKind::AllReduce, 4, Gpu::begun);
    } else {
      recording.launch(r, 1, Gpu::begun);
      recording.stand_at(r, 1, 1);
    }
    recording.forget_middle(r, 2);
  }
  check_blames(recording.report(), Verdict::graph_diverged, kOdd);
}

TEST_CASE("a silent rank whose GPU is through is to blame whatever others replay") {
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}}, kRanks);
  for (int r = 0; r < kRanks; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    recording.launch(r, 1, Gpu::through);
    if (r == kOdd) continue;
    if (r == 0) {
      recording.launch(r, 1, Gpu::begun);
      recording.stand_at(r, 1, 1);
    }
    recording.call(r, 0, OpKind::AllReduce, 4, r == 0 ? Gpu::waiting : Gpu::begun);
  }
  for (int r = 0; r < kRanks; ++r) recording.forget_all_but(r, r == 0 ? 3 : r == kOdd ? 1 : 2);
  check_blames(recording.report(), Verdict::missing_call, kOdd);
}

}  // namespace unread_replays_test
}  // namespace rollcall::analysis
