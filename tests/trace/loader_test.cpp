// Whole directories: merging, mixing, and everything that is not a recording.
#include "trace/loader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "tests/catch.h"
#include "tests/trace/files.h"

namespace rollcall::trace {
namespace {

using test::Directory;
using test::make_op;
using test::make_segment;
using test::RingBytes;

LoadOptions quiet() { return {.probe_processes = false}; }

bool says(const Run& run, const std::string& words) {
  return std::any_of(run.issues.begin(), run.issues.end(), [&](const Issue& issue) {
    return issue.text.find(words) != std::string::npos;
  });
}

TEST_CASE("segments and ring are merged by ticket, and the ring's word counts") {
  Directory directory;
  RingBytes ring;
  for (uint64_t t = 1; t <= 100; ++t) ring.add(make_op(t));
  OpRecord changed = make_op(60);
  changed.count = 4096;
  ring.add(changed);
  directory.write("node0.4711.4d.ring", ring.bytes);
  directory.write("node0.4711.4d.000000.segment", make_segment(ring.header, 4, 20));
  const Run run = load_run(directory.path(), quiet());
  CHECK(run.issues.empty());
  REQUIRE(run.processes.size() == 1);
  const Process& process = run.processes[0];
  REQUIRE(process.ops.size() == 100);
  CHECK(process.ops[0].from_segment == 1);
  CHECK(process.ops[59].count == 4096);
  CHECK(process.ops[59].from_segment == 0);
  CHECK(process.lost == 0);
  CHECK(process.first_complete_ticket == 1);
  CHECK(process.meta.at("exe") == "/bin/t\nest");
}

TEST_CASE("records that are nowhere are counted, and the complete part begins behind them") {
  Directory directory;
  RingBytes ring;
  for (uint64_t t = 1; t <= 100; ++t) ring.add(make_op(t));
  directory.write("node0.4711.4d.ring", ring.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].lost == 36);
  CHECK(run.processes[0].first_complete_ticket == 37);
}

TEST_CASE("a window keeps the newest operations, and those in flight") {
  Directory directory;
  RingBytes ring;
  ring.add(make_op(1, Phase::called));
  for (uint64_t t = 2; t <= 60; ++t) ring.add(make_op(t));
  directory.write("node0.4711.4d.ring", ring.bytes);
  LoadOptions options = quiet();
  options.window = 10;
  const Run run = load_run(directory.path(), options);
  REQUIRE(run.processes.size() == 1);
  REQUIRE(run.processes[0].ops.size() == 11);
  CHECK(run.processes[0].ops[0].ticket == 1);
  CHECK(run.processes[0].ops[1].ticket == 51);
}

TEST_CASE("unusable directories are named with what to do") {
  CHECK(says(load_run("/nonexistent/rollcall"), "no such directory"));
  const Directory directory;
  CHECK(says(load_run(directory.path()), "no recording"));
}

TEST_CASE("what can be read is read beside what cannot") {
  Directory directory;
  directory.write("node0.1.1.ring", RingBytes(1, 0).bytes);
  directory.write("attempt_0/node0.2.1.ring", RingBytes(2, 1).bytes);
  directory.write("node0.3.1.ring", std::vector<std::byte>(9000, std::byte{'x'}));
  directory.write("node0.5.1.ring", {});
  directory.write("node0.6.1.000000.segment", std::vector<std::byte>(100));
  directory.write("notes.txt", std::vector<std::byte>(10));
  const Run run = load_run(directory.path(), quiet());
  CHECK(run.processes.size() == 2);
  CHECK(run.issues.size() == 3);
  CHECK(says(run, "ring file"));
}

TEST_CASE("whoever waits is told of each process that was read, up to all of them") {
  Directory directory;
  for (uint32_t pid = 1; pid <= 5; ++pid) {
    directory.write(fmt::format("node0.{}.1.ring", pid), RingBytes(pid, pid).bytes);
  }
  std::multiset<uint64_t> told;
  std::mutex mutex;
  LoadOptions options = quiet();
  options.on_progress = [&](uint64_t done, uint64_t all) {
    const std::lock_guard lock(mutex);
    CHECK(all == 5);
    told.insert(done);
  };
  load_run(directory.path(), options);
  CHECK(told == std::multiset<uint64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("files of two runs are told apart, and the newer run is kept") {
  Directory directory;
  RingBytes older(1, 0, 0xaaaa);
  RingBytes newer(2, 0, 0xbbbb);
  newer.header.first_anchor.realtime_ns += 5'000'000'000;
  newer.store_header();
  directory.write("node0.1.1.ring", older.bytes);
  directory.write("node0.2.1.ring", newer.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 2);
  CHECK(says(run, "two runs"));
  for (const Process& process : run.processes) {
    CHECK(process.superseded == (process.run_id == 0xaaaa));
  }
}

TEST_CASE("a second process with the same job rank is a newer attempt") {
  Directory directory;
  RingBytes older(1, 0);
  RingBytes newer(2, 0);
  newer.header.first_anchor.realtime_ns += 5'000'000'000;
  newer.store_header();
  directory.write("a/node0.1.1.ring", older.bytes);
  directory.write("b/node0.2.1.ring", newer.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 2);
  CHECK(says(run, "job rank"));
  for (const Process& process : run.processes) CHECK(process.superseded == (process.pid == 1));
}

TEST_CASE("a segment of another process is left out and named") {
  Directory directory;
  RingBytes ring(1, 0);
  ring.add(make_op(1));
  directory.write("node0.1.1.ring", ring.bytes);
  directory.write("node0.1.1.000000.segment", make_segment(RingBytes(2, 1).header, 1, 10));
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].ops.size() == 1);
  CHECK(says(run, "another process"));
}

TEST_CASE("ten thousand files are read, with few descriptors open") {
  Directory directory;
  RingBytes ring(1, 0);
  ring.bytes.resize(sizeof(FileHeader) + 4096);
  for (int i = 0; i < 10'000; ++i) {
    directory.write("node0." + std::to_string(i + 1) + ".1.ring", ring.bytes);
  }
  const Run run = load_run(directory.path(), quiet());
  CHECK(run.processes.size() == 10'000);
}

}  // namespace
}  // namespace rollcall::trace
