// Jobs that share a directory without a run id.
#include "trace/jobs.h"

#include "tests/catch.h"
#include "trace/attempts.h"

namespace jobs_test {

using namespace rollcall;
using namespace rollcall::trace;

constexpr int64_t kSecond = 1'000'000'000;

Process process_of(int32_t rank, uint64_t key, int64_t started_s, int64_t ended_s) {
  Process process;
  process.file = "run/node0." + std::to_string(100 * key + static_cast<uint64_t>(rank)) + ".ring";
  process.host = "node0";
  process.pid = static_cast<uint32_t>(100 * key) + static_cast<uint32_t>(rank);
  process.job_rank = rank;
  process.started_ns = started_s * kSecond;
  process.heartbeat_ns = process.exited_ns = ended_s * kSecond;
  if (key != 0) {
    Comm comm;
    comm.key = {key, key};
    process.comms.push_back(comm);
  }
  return process;
}

// Of two jobs of two ranks each, A with key 1, B with key 2.
Run two_jobs(int64_t b_begins_s) {
  Run run;
  run.processes = {process_of(0, 1, 10, 20), process_of(0, 2, b_begins_s + 1, 40),
                   process_of(1, 1, 11, 20), process_of(1, 2, b_begins_s, 40)};
  return run;
}

TEST_CASE("jobs that share a directory without a run id are kept apart, one after the other") {
  Run run = two_jobs(30);
  const Jobs jobs = jobs_of(run);
  CHECK(jobs.count == 2);
  CHECK(jobs.of == std::vector<uint32_t>{1, 0, 1, 0});
  mark_superseded(run);
  CHECK(run.processes[0].superseded);
  CHECK(run.processes[2].superseded);
  CHECK_FALSE(run.processes[1].superseded);
  CHECK_FALSE(run.processes[3].superseded);
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].text.find("2 jobs") != std::string::npos);
}

TEST_CASE("jobs that began together are kept apart by their communicators, rank for rank") {
  // By the times alone rank 0 of one is newer, rank 1 of the other.
  Run run = two_jobs(10);
  mark_superseded(run);
  CHECK(run.processes[0].superseded == run.processes[2].superseded);
  CHECK(run.processes[1].superseded == run.processes[3].superseded);
  CHECK(run.processes[0].superseded != run.processes[1].superseded);
}

TEST_CASE("a rank that never came to a communicator is of the job that lacks it") {
  Run run = two_jobs(30);
  run.processes.push_back(process_of(2, 0, 12, 20));
  run.processes.push_back(process_of(2, 0, 31, 40));
  CHECK(jobs_of(run).of == std::vector<uint32_t>{1, 0, 1, 0, 1, 0});
}

TEST_CASE("ranks that no communicator joins are of one job while none is there twice") {
  Run run;
  run.processes = {process_of(0, 1, 10, 20), process_of(1, 2, 10, 20), process_of(2, 0, 10, 20)};
  const Jobs jobs = jobs_of(run);
  CHECK(jobs.count == 1);
  mark_superseded(run);
  CHECK(run.issues.empty());
}

TEST_CASE("a job that its launcher numbers alike and starts again is one, in two attempts") {
  Run run = two_jobs(30);
  for (Process& process : run.processes) process.meta["env.SLURM_JOB_ID"] = "4711";
  const Jobs jobs = jobs_of(run);
  CHECK(jobs.count == 1);
  CHECK(jobs.of == std::vector<uint32_t>{kNoJob, 0, kNoJob, 0});
  mark_superseded(run);
  CHECK(run.processes[0].superseded);
  CHECK_FALSE(run.processes[1].superseded);
}

TEST_CASE("launchers that name other masters start other jobs, whatever ranks they have") {
  Run run;
  run.processes = {process_of(0, 1, 10, 20), process_of(1, 2, 10, 20)};
  run.processes[0].meta["env.MASTER_PORT"] = "29500";
  run.processes[1].meta["env.MASTER_PORT"] = "29501";
  CHECK(jobs_of(run).count == 2);
}

TEST_CASE("a job is chosen by itself, and whether it lives is asked of it alone") {
  Run run = two_jobs(30);
  run.read_at_ns = 100 * kSecond;
  run.processes[0].liveness = Liveness::running;
  run.processes[1].liveness = run.processes[3].liveness = Liveness::exited;
  const Jobs jobs = jobs_of(run);
  choose_job(jobs, 1, run);
  CHECK(run.live);
  CHECK_FALSE(run.processes[0].superseded);
  CHECK(run.processes[1].superseded);
  choose_job(jobs, 0, run);
  CHECK_FALSE(run.live);
  CHECK_FALSE(run.processes[3].superseded);
}

}  // namespace jobs_test
