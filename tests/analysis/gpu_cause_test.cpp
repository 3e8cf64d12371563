// Ranks that are silent because their GPUs are not through.
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace gpu_cause_test {

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
  CHECK(lead(report).next.find("its GPU has finished all that it called before") !=
        std::string::npos);
}

TEST_CASE("each missing call follows from what its own rank waits for") {
  // Pairs 0,1 and 2,3 and 1,4. Rank 1 waits for the stream of rank 4, rank 3 is stuck with rank 2.
  GpuRecording recording({{.ranks = {0, 1, 2, 3, 4}},
                          {.ranks = {0, 1}, .parent = 0},
                          {.ranks = {2, 3}, .parent = 0, .child_number = 1},
                          {.ranks = {1, 4}, .parent = 0, .child_number = 2}},
                         5);
  recording.call(1, 3, OpKind::AllReduce, 8, Gpu::begun);
  recording.call(4, 3, OpKind::AllReduce, 8, Gpu::waiting);
  recording.call(0, 1, OpKind::AllReduce, 16, Gpu::begun);
  for (const int r : {2, 3}) recording.call(r, 2, OpKind::AllReduce, 8, Gpu::begun);
  recording.call(2, 2, OpKind::AllReduce, 16, Gpu::waiting);
  const Report report = recording.report();
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 2);
  for (const Finding& finding : report.findings) {
    const bool is_blocked = finding.verdict == Verdict::stream_blocked;
    CHECK(finding.verdict == (is_blocked ? Verdict::stream_blocked : Verdict::stuck_on_gpu));
    CHECK(finding.culprits.front().rank == (is_blocked ? 4 : 2));
    REQUIRE(finding.consequences.size() == 1);
    CHECK(finding.consequences.front().culprits.front().rank == (is_blocked ? 1 : 3));
  }
  CHECK(report.findings[0].verdict != report.findings[1].verdict);
}

TEST_CASE("a call that NCCL has not launched blocks no stream") {
  GpuRecording recording = wait_in_column(Gpu::waiting);
  trace::Op& call = recording.rank(3).ops.back();
  call.state = trace::OpState::called;
  call.returned_ns = 0;
  check_blames(recording.report(), Verdict::stuck_in_call, 3);
}

TEST_CASE("what GPUs began or finished a moment ago is no hang, however long ago it was called") {
  constexpr int64_t kMomentNs = 1'000'000;
  for (const Gpu of_last : {Gpu::begun, Gpu::waiting}) {
    GpuRecording recording({{.ranks = {0, 1}}}, 2);
    for (const int r : {0, 1}) {
      recording.call(r, 0, OpKind::AllReduce, 8, Gpu::through);
      recording.call(r, 0, OpKind::AllReduce, 16, r == 1 ? of_last : Gpu::begun);
    }
    CHECK(lead(recording.report()).severity == Severity::hang);
    recording.move_until(kMomentNs);
    const Report report = recording.report();
    INFO(text_of(report));
    CHECK(lead(report).severity == Severity::info);
  }
}

TEST_CASE("GPUs that wait in a circle do so whatever their hosts have called since") {
  for (const int r_ahead : {0, 1}) {
    GpuRecording recording({{.ranks = {0, 1}}, {.ranks = {0, 1}, .parent = 0}}, 2);
    for (const int r : {0, 1}) {
      recording.call(r, 0, OpKind::AllReduce, 8, r == 0 ? Gpu::begun : Gpu::waiting, 0);
      recording.call(r, 1, OpKind::AllReduce, 16, r == 0 ? Gpu::waiting : Gpu::begun, 1);
    }
    recording.call(r_ahead, 1, OpKind::AllReduce, 16, Gpu::waiting, 1);
    check_blames(recording.report(), Verdict::deadlock_comms, 1);
  }
}

TEST_CASE("calls that GPUs came to in other orders are told of whatever a host has called since") {
  GpuRecording recording({{.ranks = {0, 1}}, {.ranks = {0, 1}, .parent = 0}}, 2);
  for (const int r : {0, 1}) {
    recording.call(r, 0, OpKind::AllReduce, 8, Gpu::begun, 0);
    recording.call(r, 1, OpKind::AllReduce, 16, Gpu::begun, 1);
  }
  std::vector<trace::Op>& ops = recording.rank(1).ops;
  std::swap(ops.end()[-1].started_ns, ops.end()[-2].started_ns);
  recording.call(0, 0, OpKind::AllReduce, 32, Gpu::waiting, 0);
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).summary.find("in different orders") != std::string::npos);
}

TEST_CASE("a stream on which a call was not watched may stand in that") {
  GpuRecording recording = mesh();
  recording.call(1, kOtherColumn, OpKind::AllReduce, 8, Gpu::begun);
  recording.call(3, kOtherColumn, OpKind::AllReduce, 8, Gpu::waiting).awaits_gpu = false;
  for (const int r : {3, 2}) {
    recording.call(r, kOtherRow, OpKind::AllReduce, 16, r == 3 ? Gpu::waiting : Gpu::begun);
  }
  const Report equal = recording.report();
  CHECK(check_blames(equal, Verdict::stream_blocked, 3).seq == 1u);
  CHECK(lead(equal).confidence == Confidence::likely);
  recording.call(2, kOtherRow, OpKind::AllReduce, 16, Gpu::waiting);
  check_blames(recording.report(), Verdict::missing_call, 3);
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
    CHECK(finding.next.find("its GPU has finished all that it called before") == std::string::npos);
  }
}

}  // namespace gpu_cause_test
}  // namespace rollcall::analysis
