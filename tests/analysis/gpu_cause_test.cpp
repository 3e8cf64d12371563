// Ranks that are silent because their GPUs are not through.
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace {

// Rows 0,1 and 2,3, columns 0,2 and 1,3.
enum : size_t { kWorld, kRow, kOtherRow, kColumn, kOtherColumn };

GpuRecording mesh() { return GpuRecording(mesh_of_four(), 4); }

// Ranks 1 and 3 are in a call of their column, which their hosts wait for: the first ranks of the
// rows have called once more. `of_three`: what rank 3's GPU has done.
GpuRecording wait_in_column(Gpu of_three) {
  GpuRecording recording = mesh();
  recording.call(1, kOtherColumn, OpKind::AllReduce, 8, Gpu::begun);
  recording.call(3, kOtherColumn, OpKind::AllReduce, 8, of_three);
  recording.call(0, kRow, OpKind::AllReduce, 16, Gpu::begun);
  recording.call(2, kOtherRow, OpKind::AllReduce, 16, Gpu::begun);
  return recording;
}

TEST_CASE("whose GPU waits for a rank with a blocked stream is not taken for silent") {
  GpuRecording recording = wait_in_column(Gpu::waiting);
  const Report report = recording.report();
  check_blames(report, Verdict::stream_blocked, 3);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 2});
  REQUIRE(lead(report).consequences.size() == 2);
  for (const Finding& finding : lead(report).consequences) {
    CHECK(finding.verdict == Verdict::missing_call);
  }
  CHECK(report.findings.size() == 1);
}

TEST_CASE("a stream that does not come to a rank's oldest call is blocked, whatever else runs") {
  GpuRecording recording = wait_in_column(Gpu::waiting);
  // Its host did not wait for the column.
  recording.call(3, kOtherRow, OpKind::AllReduce, 16, Gpu::begun, 1);
  recording.rank(2).ops.back().awaits_gpu = false;
  recording.rank(2).ops.back().finished_ns = recording.rank(2).ops.back().called_ns + 500;
  check_blames(recording.report(), Verdict::stream_blocked, 3);
}

TEST_CASE("who waits in a call that all have begun is not silent: it is stuck") {
  GpuRecording recording = wait_in_column(Gpu::begun);
  const Report report = recording.report();
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  REQUIRE(lead(report).culprits.size() == 2);
  CHECK(lead(report).culprits[0].rank == 1);
  CHECK(lead(report).culprits[1].rank == 3);
  CHECK(lead(report).consequences.size() == 2);
}

TEST_CASE("whose GPU is through is silent itself, and the finding says so") {
  GpuRecording recording = mesh();
  recording.call(0, kRow, OpKind::AllReduce, 16, Gpu::begun);
  const Report report = recording.report();
  check_blames(report, Verdict::missing_call, 1);
  CHECK(lead(report).next.find("is through on its GPU") != std::string::npos);
}

TEST_CASE("each missing call follows from what its own rank waits for") {
  // Rank 1 waits for rank 0's stream in their row, ranks 2 and 3 are stuck in theirs.
  GpuRecording recording = mesh();
  recording.call(0, kRow, OpKind::AllReduce, 8, Gpu::waiting);
  recording.call(1, kRow, OpKind::AllReduce, 8, Gpu::begun);
  for (const int r : {2, 3}) recording.call(r, kOtherRow, OpKind::AllReduce, 8, Gpu::begun);
  recording.call(0, kColumn, OpKind::AllReduce, 16, Gpu::waiting);
  recording.call(1, kOtherColumn, OpKind::AllReduce, 16, Gpu::waiting);
  const Report report = recording.report();
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  CHECK(lead(report).consequences.size() == 2);
}

TEST_CASE("a call that NCCL has not launched blocks no stream") {
  GpuRecording recording = wait_in_column(Gpu::waiting);
  trace::Op& call = recording.rank(3).ops.back();
  call.state = trace::OpState::called;
  call.returned_ns = 0;
  check_blames(recording.report(), Verdict::stuck_in_call, 3);
}

TEST_CASE("of a rank whose GPU was not watched nothing is concluded") {
  GpuRecording recording = wait_in_column(Gpu::waiting);
  for (const int r : {1, 3}) {
    recording.rank(r).ops.back().awaits_gpu = false;
    recording.rank(r).ops.back().started_ns = 0;
  }
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(report.findings.size() == 2);  // of each row
  for (const Finding& finding : report.findings) {
    CHECK(finding.verdict == Verdict::missing_call);
    CHECK(finding.next.find("is through on its GPU") == std::string::npos);
  }
}

}  // namespace
}  // namespace rollcall::analysis
