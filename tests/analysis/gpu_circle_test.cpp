// GPUs that come to the calls of two communicators in different orders, whatever the hosts did.

#include "tests/analysis/cost.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace gpu_circle_test {

// The GPUs are through with the first two steps; of the third they have begun what `has_begun`
// says.
Outcome stand_still(const Program& program, bool (*has_begun)(int rank, const trace::Op& op)) {
  Outcome outcome = execute(program);
  for (trace::Process& process : outcome.run.processes) {
    hang_watched(process);
    for (trace::Op& op : process.ops) {
      const bool is_last = op.seq == 2;
      const bool is_begun = !is_last || has_begun(process.job_rank, op);
      op.started_ns = is_begun ? op.called_ns + 1'000 : 0;
      op.finished_ns = is_last ? 0 : op.called_ns + 2'000;
      op.awaits_gpu = is_last;
      op.state = !is_last   ? trace::OpState::finished
                 : is_begun ? trace::OpState::started
                            : trace::OpState::returned;
    }
  }
  return outcome;
}

// Every rank calls on two communicators of all ranks, each with a stream of its own, in one order.
Program two_comms(int ranks) {
  Program program;
  program.comms.resize(2);
  program.comms[1].parent = 0;
  for (int r = 0; r < ranks; ++r) {
    for (sim::CommSpec& comm : program.comms) comm.ranks.push_back(r);
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 3; ++step) {
      for (const int comm : {0, 1}) {
        own.push_back(call(OpKind::AllReduce, 64, -1, comm));
        own.back().stream = comm;
      }
    }
  }
  return program;
}

TEST_CASE("GPUs that began with one call each, and not with the same one, wait in a circle") {
  // Rank 1's has come to the call of the second communicator, which its host made behind the other.
  Outcome outcome = stand_still(two_comms(2), [](int rank, const trace::Op& op) {
    return static_cast<int>(op.comm) == rank;
  });
  const Report report = analyse(outcome.run);
  const Culprit& culprit = check_blames(report, Verdict::deadlock_comms, 1);
  CHECK(culprit.seq == 2u);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(lead(report).severity == Severity::hang);
  CHECK(lead(report).victims == std::vector<int32_t>{0});
  CHECK(lead(report).summary.starts_with("the GPUs of ranks 0-1 wait for each other: rank "));
  CHECK(lead(report).summary.ends_with("; on rank 1 that is not the order of the host's calls"));
  CHECK(lead(report).next.find("one queue") == std::string::npos);
  CHECK(lead(report).evidence.size() == 2);

  outcome.run.processes[1].meta["env.CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  CHECK(lead(analyse(outcome.run)).next.find("share one queue") != std::string::npos);
}

TEST_CASE("of many GPUs those are named that came to the calls against their order") {
  const Report report = analyse(stand_still(two_comms(8), [](int rank, const trace::Op& op) {
                                  return op.comm == (rank == 3 || rank == 6 ? 1 : 0);
                                }).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  REQUIRE(lead(report).culprits.size() == 2);
  CHECK(lead(report).culprits[0].rank == 3);
  CHECK(lead(report).culprits[1].rank == 6);
}

TEST_CASE(
    "GPUs that both run the send, each behind the other's receive, wait in a circle of these") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  for (int r = 0; r < 2; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 3; ++step) {
      // From rank 0 to rank 1 on the first stream, back on the second.
      for (const int stream : {0, 1}) {
        own.push_back(call(stream == r ? OpKind::Send : OpKind::Recv, kLarge, 1 - r));
        own.back().stream = stream;
      }
    }
  }
  const Report report = analyse(
      stand_still(program, [](int, const trace::Op& op) { return op.kind == OpKind::Send; }).run);
  const Culprit& culprit = check_blames(report, Verdict::deadlock_p2p, 1);
  CHECK(culprit.op == "Send");
}

// All have begun both calls of the last step: rank 1 with the second one first where `is_swapped`.
Outcome stand_in_both(bool is_swapped) {
  Outcome outcome = stand_still(two_comms(4), [](int, const trace::Op&) { return true; });
  for (trace::Process& process : outcome.run.processes) {
    for (trace::Op& op : process.ops) {
      const bool is_late = is_swapped && process.job_rank == 1 && op.comm == 0;
      if (op.seq == 2 && is_late) op.started_ns += 10'000'000;
    }
  }
  return outcome;
}

TEST_CASE("calls that GPUs came to in different orders may wait for each other's room") {
  const Report report = analyse(stand_in_both(true).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).summary.find("in different orders: on rank ") != std::string::npos);
  CHECK(lead(report).summary.find("on rank 1 AllReduce") != std::string::npos);
  CHECK(lead(report).next.find("no room for both") != std::string::npos);
}

TEST_CASE("calls that all GPUs came to in one order are the transport's affair") {
  const Report report = analyse(stand_in_both(false).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(lead(report).summary.find("different orders") == std::string::npos);
  CHECK(lead(report).next.find("room") == std::string::npos);
}

TEST_CASE("GPUs that wait in a circle are found beside a rank that was not watched") {
  // Rank 0 waits for rank 1, which waits for rank 4, whose GPU is not known.
  Program program;
  program.comms = {{.ranks = {0, 1}}, {.ranks = {1, 4}}, {.ranks = {2, 3}}, {.ranks = {2, 3}}};
  program.ranks.resize(5);
  for (int step = 0; step < 3; ++step) {
    for (int comm = 0; comm < 4; ++comm) {
      for (const int r : program.comms[static_cast<size_t>(comm)].ranks) {
        Steps& own = program.ranks[static_cast<size_t>(r)];
        own.push_back(call(OpKind::AllReduce, 64, -1, comm));
        own.back().stream = comm;
      }
    }
  }
  Outcome outcome = stand_still(program, [](int rank, const trace::Op& op) {
    return op.comm == (rank == 1 || rank == 3 ? 1u : 0u);
  });
  for (trace::Op& op : outcome.run.processes[4].ops) {
    if (op.seq != 2) continue;
    op.awaits_gpu = false;
    op.started_ns = 0;
    op.state = trace::OpState::returned;
  }
  const Report report = analyse(outcome.run);
  const Culprit& culprit = check_blames(report, Verdict::deadlock_comms, 3);
  CHECK(culprit.op == "AllReduce");
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("a call that all of many GPUs run is judged in a moment", "[scale]") {
  constexpr int kRanks = 16'384;
  const Outcome outcome =
      stand_still(two_comms(kRanks), [](int, const trace::Op& op) { return op.comm == 0; });
  Report report;
  CHECK(yards_to_judge("16,384 GPUs that run one call", outcome.run, report) < 15);
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
}

TEST_CASE("a call that all GPUs run is stuck, whatever else they have not come to") {
  const Report report =
      analyse(stand_still(two_comms(2), [](int, const trace::Op& op) { return op.comm == 0; }).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
}

TEST_CASE("a GPU that runs nothing is blocked, and those that wait for it are in no circle") {
  const Report report = analyse(stand_still(two_comms(2), [](int rank, const trace::Op& op) {
                                  return rank == 0 && op.comm == 0;
                                }).run);
  check_blames(report, Verdict::stream_blocked, 1);
}

}  // namespace gpu_circle_test
}  // namespace rollcall::analysis
