// Ranks that join one communicator and contradict each other about it.
#include <algorithm>
#include <functional>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace joins_test {

using trace::Comm;
using trace::Process;

// All ranks are in ncclCommInitRank, with what `bend` made of what they passed. Job ranks are 0 to
// ranks - 1.
Outcome joining(int ranks, const std::function<void(Process&, Comm&)>& bend) {
  Program program;
  program.comms.emplace_back();
  for (int r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(r);
  program.ranks.resize(static_cast<size_t>(ranks));
  Outcome outcome = execute(program, kLive);
  for (Process& process : outcome.run.processes) {
    Comm& comm = process.comms[0];
    comm.state = CommState::initialising;
    comm.ready_ns = 0;
    process.exited_ns = 0;
    process.liveness = trace::Liveness::running;
    process.heartbeat_ns = comm.created_ns + 60'000'000'000;
    outcome.run.read_at_ns = process.heartbeat_ns;
    outcome.run.live = true;
    bend(process, comm);
  }
  return outcome;
}

std::vector<int32_t> blamed(const Report& report) {
  std::vector<int32_t> ranks;
  for (const Culprit& culprit : lead(report).culprits) ranks.push_back(culprit.rank);
  return ranks;
}

void check_says(const Report& report, std::string_view words) {
  INFO(text_of(report));
  CHECK(lead(report).summary.find(words) != std::string::npos);
}

TEST_CASE("a rank that joins with another number of ranks is named, be it more or fewer") {
  for (const int32_t other : {3, 5}) {
    const Outcome outcome = joining(4, [&](const Process& process, Comm& comm) {
      if (process.job_rank == 2) comm.nranks = other;
    });
    const Report report = analyse(outcome.run);
    check_blames(report, Verdict::init_incomplete, 2);
    CHECK(lead(report).confidence == Confidence::certain);
    CHECK(lead(report).victims.size() == 3);
    check_says(
        report,
        fmt::format("rank 2 joined world as one of {} ranks, and ranks 0-1,3 as of 4", other));
    CHECK(report.findings.size() == 1);
  }
}

TEST_CASE("of two ranks that join with different numbers of ranks both are named") {
  const Outcome outcome = joining(2, [](const Process& process, Comm& comm) {
    if (process.job_rank == 1) comm.nranks = 3;
  });
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::init_incomplete);
  CHECK(blamed(report) == std::vector<int32_t>{0, 1});
}

TEST_CASE("a rank that was through as one of fewer ranks is seen by those that wait for it") {
  const Outcome outcome = joining(3, [](const Process& process, Comm& comm) {
    if (process.job_rank != 0) return;
    comm.nranks = 1;
    comm.state = CommState::ready;
    comm.ready_ns = comm.created_ns + 1000;
  });
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::init_incomplete, 0);
  check_says(report, "2 processes have been waiting there");
}

TEST_CASE("of two claims to one rank that is the wrong one which is not the launcher's") {
  const Outcome outcome = joining(4, [](const Process& process, Comm& comm) {
    if (process.job_rank == 3) comm.rank = 1;
  });
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::init_incomplete, 3);
  check_says(report, "ranks 1,3 both joined world as its rank 1, and nobody as its rank 3");
}

TEST_CASE("of all that claim rank 0 the one is right whom the launcher made it") {
  const Outcome outcome = joining(3, [](const Process&, Comm& comm) { comm.rank = 0; });
  const Report report = analyse(outcome.run);
  CHECK(blamed(report) == std::vector<int32_t>{1, 2});
  check_says(report, "as its rank 0, and nobody as its ranks 1-2");
}

TEST_CASE("where the launcher's numbers are not the communicator's both claims are named") {
  // Ranks in reverse, but for one.
  const Outcome reverse = joining(4, [](const Process& process, Comm& comm) {
    comm.rank = process.job_rank == 1 ? 3 : 3 - process.job_rank;
  });
  CHECK(blamed(analyse(reverse.run)) == std::vector<int32_t>{0, 1});
}

TEST_CASE("a process that was gone before another claimed its rank contradicts nobody") {
  Outcome outcome = joining(3, [](const Process& process, Comm& comm) {
    if (process.job_rank == 2) comm.rank = 1;
  });
  Process& gone = outcome.run.processes[1];
  gone.liveness = trace::Liveness::exited;
  gone.exited_ns = gone.heartbeat_ns = gone.comms[0].created_ns + 1000;
  outcome.run.processes[2].comms[0].created_ns = gone.exited_ns + 1000;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).summary.find("joined world as its rank") == std::string::npos);
}

TEST_CASE("a rank that was refused with another number of ranks, and tries again, agrees") {
  for (const bool is_refused : {false, true}) {
    const Outcome outcome = joining(3, [&](Process& process, Comm& comm) {
      if (process.job_rank == 2) comm.rank = 1;  // so that all of them wait
      if (process.job_rank != 0) return;
      Comm first = comm;
      first.nranks = 2;
      if (is_refused) {
        first.state = CommState::failed;
        first.ended_ns = first.created_ns + 500;
      }
      process.comms.push_back(comm);
      process.comms.back().created_ns += 1000;
      process.comms[0] = first;
    });
    const Report report = analyse(outcome.run);
    INFO(text_of(report));
    const bool tells_of_numbers = lead(report).summary.find("as one of") != std::string::npos;
    CHECK(tells_of_numbers == !is_refused);
  }
}

void give_other_id(Comm& comm, uint64_t number) { comm.key = {0xabcd, number}; }

TEST_CASE("a rank with a unique id of its own is named, likely") {
  const Outcome outcome = joining(4, [](const Process& process, Comm& comm) {
    if (process.job_rank == 1) give_other_id(comm, 1);
  });
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::init_incomplete, 1);
  CHECK(lead(report).confidence == Confidence::likely);
  check_says(report,
             "rank 1 joined a communicator of 4 ranks with another unique id than ranks 0,2-3");
  CHECK(report.findings.size() == 1);
}

TEST_CASE("where each rank has a unique id of its own nobody is odd") {
  const Outcome outcome = joining(4, [](const Process& process, Comm& comm) {
    give_other_id(comm, static_cast<uint64_t>(process.job_rank) + 1);
  });
  const Report report = analyse(outcome.run);
  CHECK(blamed(report) == std::vector<int32_t>{0, 1, 2, 3});
  check_says(report, "each joined a communicator of 4 ranks with a unique id of their own");
}

// Two communicators of two ranks, of which each lacks the rank that the other has.
TEST_CASE("pairs that each lack a rank are not taken for one communicator") {
  const Outcome outcome = joining(4, [](const Process& process, Comm& comm) {
    comm.nranks = 2;
    give_other_id(comm, static_cast<uint64_t>(process.job_rank / 2) + 1);
    comm.rank = process.job_rank % 2;
    if (process.job_rank == 1 || process.job_rank == 2) comm = Comm{};
  });
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).summary.find("unique id") == std::string::npos);
}

TEST_CASE("ranks that join two communicators of one size with two unique ids agree") {
  const Outcome outcome = joining(8, [](const Process& process, Comm& comm) {
    comm.nranks = 4;
    give_other_id(comm, static_cast<uint64_t>(process.job_rank / 4) + 1);
    comm.rank = process.job_rank % 4;
    if (process.job_rank == 7) comm = Comm{};
  });
  const Report report = analyse(outcome.run);
  CHECK(lead(report).verdict == Verdict::init_incomplete);
  CHECK(lead(report).summary.find("unique id") == std::string::npos);
}

}  // namespace joins_test
}  // namespace rollcall::analysis
