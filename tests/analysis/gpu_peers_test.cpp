// Is a call on all GPUs? As far as records tell, and where only a whole group's share ends.
#include <numeric>
#include <optional>

#include "tests/analysis/cost.h"
#include "tests/analysis/gpu_recording.h"

namespace rollcall::analysis {
namespace gpu_peers_test {

// All ranks of the world are in one more call.
GpuRecording stuck(int ranks) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  GpuRecording recording({{.ranks = all}}, ranks);
  for (const int r : all) recording.call(r, 0, OpKind::AllReduce, 8, Gpu::begun);
  return recording;
}

bool says(const Report& report, const char* text) {
  return lead(report).summary.find(text) != std::string::npos;
}

TEST_CASE("a call is not stuck on all GPUs where a rank of it left no file") {
  GpuRecording recording = stuck(3);
  CHECK(lead(recording.report()).verdict == Verdict::stuck_on_gpu);
  recording.run().processes.pop_back();
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(says(report, "rank 2 of world left no file"));
}

TEST_CASE("a call is not stuck on all GPUs where a rank's newest record is torn") {
  GpuRecording recording = stuck(3);
  recording.rank(2).ops.pop_back();
  recording.rank(2).torn = 1;
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(says(report, "the newest record of rank 2"));
}

TEST_CASE("a call is not stuck where the last GPU came to it a moment ago") {
  GpuRecording recording = stuck(3);
  CHECK(lead(recording.report()).verdict == Verdict::stuck_on_gpu);
  // A kernel in front of it took its time.
  recording.run_on();
  trace::Process& late = recording.rank(2);
  late.ops.back().started_ns = late.heartbeat_ns - 1'000'000;
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).severity != Severity::hang);
  CHECK(says(report, "rank 2 came to AllReduce of 8 float32 (sum), seq 1 of world only"));
}

TEST_CASE("who waits for a call that the last GPU came to a moment ago is not missing elsewhere") {
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2, 3}}}, 4);
  for (int r = 0; r < 4; ++r) recording.call(r, 0, OpKind::AllReduce, 8, Gpu::begun);
  trace::Process& late = recording.rank(3);
  late.ops.back().started_ns = late.heartbeat_ns - 1'000'000;
  for (int r = 0; r < 2; ++r) recording.call(r, 1, OpKind::AllReduce, 8, Gpu::waiting);
  recording.run_on();
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(says(report, "rank 3 came to"));
  REQUIRE(lead(report).consequences.size() == 1);
  CHECK(lead(report).consequences[0].verdict == Verdict::missing_call);
}

TEST_CASE("who comes to a call because the job is ended is not awaited in it") {
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2, 3}}}, 4);
  for (int r = 0; r < 4; ++r) {
    if (r != 3) recording.call(r, 1, OpKind::AllReduce, 8, Gpu::begun);
    recording.call(r, 0, OpKind::AllReduce, 8, Gpu::begun);
    if (r == 3) continue;
    // A watchdog aborted the other communicator.
    trace::Op& last = recording.rank(r).ops.back();
    last.started_ns = recording.rank(r).heartbeat_ns - 1'000'000;
  }
  check_blames(recording.report(), Verdict::missing_call, 3);
}

TEST_CASE("of replays the rank is late whose replay began last") {
  GpuRecording recording({{.ranks = {0, 1, 2}}, {.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    recording.capture(r, 1, 0, OpKind::AllReduce, 8);
    trace::Op& replay = recording.launch(r, 1, Gpu::begun);
    recording.stand_at(r, 1, 1);
    if (r == 1) replay.started_ns = recording.rank(r).heartbeat_ns - 1'000'000;
    if (r == 0) recording.call(r, 1, OpKind::AllReduce, 4, Gpu::waiting);
  }
  recording.run_on();
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(says(report, "rank 1 came to"));
}

TEST_CASE("a replay that waits for a rank that makes the call without a graph is judged") {
  GpuRecording recording({{.ranks = {0, 1, 2}}, {.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    if (r == 1) {
      recording.call(r, 0, OpKind::AllReduce, 8, Gpu::begun);
    } else {
      recording.capture(r, 1, 0, OpKind::AllReduce, 8);
      recording.launch(r, 1, Gpu::begun);
      recording.stand_at(r, 1, 1);
    }
    if (r != 2) recording.call(r, 1, OpKind::AllReduce, 4, Gpu::waiting);
  }
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
}

TEST_CASE("a transfer is not stuck where the record of its other side is torn") {
  GpuRecording recording({{.ranks = {0, 1}}}, 2);
  recording.transfer(0, OpKind::Recv, 1, Gpu::begun);
  recording.transfer(1, OpKind::Send, 0, Gpu::begun);
  CHECK(lead(recording.report()).verdict == Verdict::stuck_on_gpu);
  recording.rank(1).ops.pop_back();
  recording.rank(1).torn = 1;
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
}

TEST_CASE("nobody waits elsewhere for sure where a rank left no file") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  CHECK(lead(recording.report()).verdict == Verdict::stuck_outside);
  CHECK(lead(recording.report()).culprits.empty());
  recording.run().processes.pop_back();
  CHECK(says(recording.report(), "rank 2 of world left no file"));
}

// The newest call of one rank, and of no other, was left out by the budget.
Report judge_untimed(OpKind kind) {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) recording.call(r, 0, kind, 8, Gpu::through);
  trace::Op& untimed = recording.rank(1).ops.back();
  untimed.started_ns = untimed.finished_ns = 0;
  untimed.awaits_gpu = false;
  return recording.report();
}

TEST_CASE("of a call that was not timed on one rank the others tell, where each needs all") {
  const Report report = judge_untimed(OpKind::AllReduce);
  CHECK(lead(report).verdict == Verdict::stuck_outside);
  CHECK(says(report, "it follows from another rank's"));
  CHECK(lead(judge_untimed(OpKind::Broadcast)).verdict == Verdict::insufficient);
}

TEST_CASE("of a call that was timed on no rank nobody tells") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (int r = 0; r < 3; ++r) {
    trace::Op& op = recording.call(r, 0, OpKind::AllReduce, 8, Gpu::through);
    op.started_ns = op.finished_ns = 0;
    op.awaits_gpu = false;
  }
  CHECK(lead(recording.report()).verdict == Verdict::insufficient);
}

TEST_CASE("who has not ended when others have is who waits elsewhere") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  trace::Process& early = recording.rank(0);
  early.liveness = trace::Liveness::exited;
  early.exited_ns = early.heartbeat_ns = early.ops.back().called_ns + 1'000'000;
  const Report report = recording.report();
  check_names(report, Verdict::stuck_outside, {1, 2});
  CHECK(says(report, "rank 0 ended by itself, ranks 1-2 did not"));
}

TEST_CASE("of a group's share the transfers are named that have ended on no side") {
  // A pipeline: each passes on to the next, in one group with what it gets.
  GpuRecording recording({{.ranks = {0, 1, 2, 3}}}, 4);
  for (const int r : {0, 1, 2, 3}) {
    const Gpu share = r < 2 ? Gpu::through : Gpu::begun;
    if (r > 0) recording.transfer(r, OpKind::Recv, r - 1, share).group = 7;
    if (r < 3) recording.transfer(r, OpKind::Send, r + 1, share).group = 7;
  }
  check_names(recording.report(), Verdict::stuck_on_gpu, {2, 3});
}

// Pairs 0,1 and 2,3. Everybody calls the world and its pair in one group, on one stream; rank 2 has
// left out its pair, or called it on another stream. Ranks 0 and 1 have gone on, to where rank 2
// waits, too.
GpuRecording leave_out_of_group(std::optional<Gpu> of_two = std::nullopt) {
  GpuRecording recording({{.ranks = {0, 1, 2, 3}},
                          {.ranks = {0, 1}, .parent = 0},
                          {.ranks = {2, 3}, .parent = 0, .colour = 1}},
                         4);
  for (const int r : {0, 1, 2, 3}) {
    const Gpu share = r == 3 ? Gpu::begun : Gpu::through;
    recording.call(r, 0, OpKind::AllReduce, 8, share).group = 7;
    if (r != 2) recording.call(r, r < 2 ? 1 : 2, OpKind::AllReduce, 8, share).group = 7;
  }
  if (of_two) recording.call(2, 2, OpKind::AllReduce, 8, *of_two, 1);
  for (const int r : {0, 1, 2, 3}) {
    recording.call(r, 0, OpKind::AllReduce, 16, r == 3 ? Gpu::waiting : Gpu::begun);
  }
  return recording;
}

TEST_CASE("a group's share does not end before the call in it that a rank left out") {
  GpuRecording recording = leave_out_of_group();
  check_blames(recording.report(), Verdict::missing_call, 2);
}

TEST_CASE("who waits in a call that is another one on some rank is not stuck on its GPU") {
  // Rank 2 waits for rank 1 in a call that rank 1's peer made as another one.
  GpuRecording recording({{.ranks = {0, 1, 2}},
                          {.ranks = {0, 1}, .parent = 0},
                          {.ranks = {1, 2}, .parent = 0, .child_number = 1}},
                         3);
  recording.call(0, 1, OpKind::AllGather, 24, Gpu::begun);
  recording.call(1, 1, OpKind::AllReduce, 8, Gpu::begun);
  recording.call(2, 2, OpKind::AllReduce, 16, Gpu::begun);
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::op_mismatch);
  for (const Finding& finding : report.findings) {
    CHECK(finding.verdict != Verdict::stuck_on_gpu);
  }
}

TEST_CASE("a group's share in which all calls are on all GPUs is stuck") {
  GpuRecording recording = leave_out_of_group(Gpu::begun);
  const Report report = recording.report();
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
}

TEST_CASE("a GPU is waited for where it has not come to one call of another's group's share") {
  GpuRecording recording = leave_out_of_group(Gpu::waiting);
  check_blames(recording.report(), Verdict::deadlock_comms, 2);
}

TEST_CASE("what a rank's blocked stream holds up is not for another rank without a file") {
  // Rank 1 waits for ranks 2 and 3 of its row; rank 0 has gone on, and has to wait for it.
  GpuRecording recording({{.ranks = {0, 1, 2, 3}},
                          {.ranks = {1, 2, 3}, .parent = 0},
                          {.ranks = {0, 1}, .parent = 0, .child_number = 1}},
                         4);
  for (const int r : {1, 2, 3}) {
    recording.call(r, 1, OpKind::AllReduce, 8, r == 2 ? Gpu::waiting : Gpu::begun);
  }
  recording.call(0, 2, OpKind::AllReduce, 16, Gpu::begun);
  recording.run().processes.pop_back();
  const Report report = recording.report();
  check_blames(report, Verdict::stream_blocked, 2);
  REQUIRE(lead(report).consequences.size() == 1);
  CHECK(lead(report).consequences[0].verdict == Verdict::insufficient);
}

// Ranks 1 and 2 are a pair, and the stream of rank 2 is blocked in front of it. Rank 0 has sent
// rank 1 more than that has come to receive; small sends are buffered.
GpuRecording send_ahead(Gpu of_send) {
  GpuRecording recording({{.ranks = {0, 1, 2}}, {.ranks = {1, 2}, .parent = 0}}, 3);
  recording.transfer(0, OpKind::Send, 1, Gpu::through);
  recording.transfer(1, OpKind::Recv, 0, Gpu::through);
  // In a group it waits for its receive.
  recording.transfer(0, OpKind::Send, 1, of_send).group = of_send == Gpu::begun ? 5 : 0;
  for (const int r : {1, 2}) {
    recording.call(r, 1, OpKind::AllReduce, 8, r == 1 ? Gpu::begun : Gpu::waiting);
  }
  return recording;
}

TEST_CASE("what is buffered for a rank whose GPU waits is not said to be left out") {
  GpuRecording recording = send_ahead(Gpu::through);
  check_blames(recording.report(), Verdict::stream_blocked, 2);
}

TEST_CASE("a receive that comes behind what a GPU waits in is not left out") {
  GpuRecording recording = send_ahead(Gpu::begun);
  const Report report = recording.report();
  check_blames(report, Verdict::stream_blocked, 2);
  REQUIRE(lead(report).consequences.size() == 1);
  CHECK(lead(report).consequences[0].verdict == Verdict::p2p_unmatched);
}

TEST_CASE("what is sent to a rank that waits for nothing, and never received, is left out") {
  GpuRecording recording = send_ahead(Gpu::through);
  for (const int r : {1, 2}) recording.finish(r);
  check_blames(recording.report(), Verdict::p2p_unmatched, 0);
}

TEST_CASE("ranks that begin different calls at one position are not stuck there") {
  GpuRecording recording({{.ranks = {0, 1, 2}}}, 3);
  for (const int r : {0, 1, 2}) {
    recording.call(r, 0, r == 1 ? OpKind::AllGather : OpKind::AllReduce, 8, Gpu::begun);
  }
  check_blames(recording.report(), Verdict::op_mismatch, 1);
}

TEST_CASE("two exchanges that GPUs come to in two orders are judged in a moment", "[scale]") {
  constexpr int kRanks = 256;
  std::vector<int> all(kRanks);
  std::iota(all.begin(), all.end(), 0);
  GpuRecording recording({{.ranks = all}}, kRanks);
  for (const int r : all) {
    for (const uint32_t exchange : {1u, 2u}) {
      const bool runs = (r % 2 == 0) == (exchange == 1);
      for (const int peer : all) {
        if (peer == r) continue;
        for (const OpKind kind : {OpKind::Send, OpKind::Recv}) {
          trace::Op& op = recording.transfer(r, kind, peer, runs ? Gpu::begun : Gpu::waiting);
          op.group = exchange;
          op.stream += exchange;
        }
      }
    }
  }
  Report report;
  CHECK(yards_to_judge("two exchanges of 256 ranks", recording.run(), report) < 50);
  CHECK(lead(report).verdict == Verdict::deadlock_p2p);
}

}  // namespace gpu_peers_test
}  // namespace rollcall::analysis
