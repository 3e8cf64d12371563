// Clocks of hosts that disagree, and those that only seem to.
#include "trace/clocks.h"

#include "tests/catch.h"

namespace rollcall::trace {
namespace clocks_test {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kEpochNs = 1'700'000'000 * kSecondNs;

Process make_process(const char* host, int rank) {
  Process process;
  process.host = host;
  process.job_rank = rank;
  process.liveness = Liveness::unknown;
  process.started_ns = kEpochNs;
  process.ops.resize(1);
  process.ops[0].called_ns = kEpochNs + 20 * kSecondNs;
  return process;
}

// A member of communicator `number` that came to its creation at `begun_ns`.
void join(Process& process, uint64_t number, int64_t begun_ns, int64_t ready_ns) {
  Comm comm;
  comm.key = {number, 1};
  comm.created_ns = kEpochNs + begun_ns;
  comm.ready_ns = kEpochNs + ready_ns;
  process.comms.push_back(comm);
}

// Three hosts; node0 has two processes and so is the reference. All come to their communicator
// within two seconds.
Run make_run() {
  Run run;
  run.processes = {make_process("node0", 0), make_process("node0", 1), make_process("node1", 2),
                   make_process("node2", 3)};
  join(run.processes[0], 1, 1 * kSecondNs, 4 * kSecondNs);
  join(run.processes[1], 1, 3 * kSecondNs, 4 * kSecondNs);
  join(run.processes[2], 1, 2 * kSecondNs, 4 * kSecondNs);
  return run;
}

TEST_CASE("a time as far away as a number can be is not moved beyond it") {
  Process process = make_process("node0", 0);
  process.ops[0].called_ns = INT64_MAX;
  process.ops[0].returned_ns = INT64_MAX - kSecondNs;
  shift_times(process, kSecondNs);
  CHECK(process.ops[0].called_ns == INT64_MAX);
  CHECK(process.ops[0].returned_ns == INT64_MAX);
  shift_times(process, -kSecondNs);
  CHECK(process.ops[0].returned_ns == INT64_MAX - kSecondNs);
  CHECK(process.started_ns == kEpochNs);
}

TEST_CASE("a time to come is unknown, and the file that holds it is named") {
  Run run;
  run.read_at_ns = kEpochNs + 3600 * kSecondNs;
  run.processes = {make_process("node0", 0), make_process("node1", 1), make_process("node2", 2)};
  Process& scribbled = run.processes[0];
  scribbled.file = "a.ring";
  scribbled.ops[0].returned_ns = INT64_MAX;
  // An hour ahead of the reader's clock, and a week ahead with everything.
  run.processes[1].ops[0].called_ns = run.read_at_ns + 3600 * kSecondNs;
  run.processes[2].started_ns = run.read_at_ns + 7 * 24 * 3600 * kSecondNs;
  run.processes[2].ops[0].called_ns = run.processes[2].started_ns + kSecondNs;
  forget_times_to_come(run);
  CHECK(scribbled.ops[0].returned_ns == 0);
  CHECK(scribbled.ops[0].called_ns == kEpochNs + 20 * kSecondNs);
  CHECK(run.processes[1].ops[0].called_ns == run.read_at_ns + 3600 * kSecondNs);
  CHECK(run.processes[2].ops[0].called_ns == run.processes[2].started_ns + kSecondNs);
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].file == "a.ring");
  CHECK(run.issues[0].text.starts_with("1 time lies in the future"));
}

TEST_CASE("times of a damaged file are kept where two spans between them can be added") {
  Process process = make_process("node0", 0);
  process.started_ns = INT64_MAX;
  process.ops[0].called_ns = INT64_MIN;
  process.comms.emplace_back().ready_ns = kTimeMaxNs + 1;
  process.ops[0].finished_ns = kEpochNs;
  bound_times(process);
  CHECK(process.started_ns == kTimeMaxNs);
  CHECK(process.ops[0].called_ns == 0);
  CHECK(process.comms.back().ready_ns == kTimeMaxNs);
  CHECK(process.ops[0].finished_ns == kEpochNs);
  int64_t sum_ns = 0;
  CHECK_FALSE(__builtin_add_overflow(process.started_ns, process.started_ns, &sum_ns));
}

TEST_CASE("hosts that only a scribbled time sets apart are moved no farther than times can be") {
  Run run = make_run();
  join(run.processes[2], 2, kTimeMaxNs - kEpochNs, 1 * kSecondNs);
  join(run.processes[3], 2, 1 * kSecondNs, kTimeMaxNs - kEpochNs);
  align_clocks(run);
  for (const Process& process : run.processes) {
    CHECK(process.started_ns >= 0);
    CHECK(process.started_ns <= kTimeMaxNs);
    CHECK(process.clock_doubt_ns <= kTimeMaxNs);
  }
}

TEST_CASE("clocks that agree are left alone, however late a rank comes") {
  Run run = make_run();
  join(run.processes[2], 2, 5 * kSecondNs, 60 * kSecondNs);
  join(run.processes[3], 2, 59 * kSecondNs, 60 * kSecondNs);
  align_clocks(run);
  CHECK(run.issues.empty());
  for (const Process& process : run.processes) {
    CHECK(process.started_ns == kEpochNs);
    CHECK(process.clock_doubt_ns == 0);
  }
}

TEST_CASE("a host whose clock is disproved has its times moved, and it is said how exactly") {
  for (const int64_t ahead_ns : {-3600 * kSecondNs, 5 * kSecondNs}) {
    Run run = make_run();
    run.processes[2].channels.resize(2);
    run.processes[2].channels[1].waiting_since_ns = kEpochNs + 30 * kSecondNs;
    run.processes[2].graphs.resize(1);
    run.processes[2].graphs[0].first_ns = kEpochNs + 40 * kSecondNs;
    shift_times(run.processes[2], ahead_ns);
    align_clocks(run);
    const Process& moved = run.processes[2];
    CHECK(moved.clock_doubt_ns == 3 * kSecondNs / 2);
    CHECK(std::abs(moved.started_ns - kEpochNs) <= moved.clock_doubt_ns);
    CHECK(moved.ops[0].called_ns - moved.started_ns == 20 * kSecondNs);
    CHECK(moved.channels[0].waiting_since_ns == 0);
    CHECK(moved.channels[1].waiting_since_ns - moved.started_ns == 30 * kSecondNs);
    CHECK(moved.graphs[0].first_ns - moved.started_ns == 40 * kSecondNs);
    CHECK(run.processes[0].started_ns == kEpochNs);
    REQUIRE(run.issues.size() == 1);
    CHECK(run.issues[0].text.find("the clock of node1 is") == 0);
    CHECK(run.issues[0].lost == 0);
  }
}

TEST_CASE("clocks are compared through a host in between") {
  Run run = make_run();
  join(run.processes[2], 2, 5 * kSecondNs, 6 * kSecondNs);
  join(run.processes[3], 2, 5 * kSecondNs, 6 * kSecondNs);
  shift_times(run.processes[3], 600 * kSecondNs);
  align_clocks(run);
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].text.find("the clock of node2 is 10.0 min ahead of that of node0") == 0);
  CHECK(std::abs(run.processes[3].started_ns - kEpochNs) <= run.processes[3].clock_doubt_ns);
  CHECK(run.processes[2].clock_doubt_ns == 0);
}

TEST_CASE("the clock of a host whose processes still run is the reference") {
  Run run = make_run();
  run.processes[2].liveness = Liveness::running;
  shift_times(run.processes[2], 3600 * kSecondNs);
  align_clocks(run);
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].text.find("the clock of node0 is 60.0 min behind that of node1") == 0);
  CHECK(run.processes[2].started_ns == kEpochNs + 3600 * kSecondNs);
}

TEST_CASE("hosts that share no communicator, or never finished one, are not compared") {
  Run run = make_run();
  shift_times(run.processes[3], 3600 * kSecondNs);
  join(run.processes[3], 1, 3602 * kSecondNs, 0);
  run.processes[3].comms[0].ready_ns = 0;
  align_clocks(run);
  CHECK(run.issues.empty());
  CHECK(run.processes[3].started_ns == kEpochNs + 3600 * kSecondNs);
}

}  // namespace clocks_test
}  // namespace rollcall::trace
