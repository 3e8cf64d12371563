// The commands that change recordings: packing finished ones, pausing live ones.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/base/clock.h"
#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_recordings {

using namespace rollcall;
using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<nlohmann::json> dumped(const Folder& folder, const std::string& type) {
  const Outcome outcome = run_command(folder, {"dump", "run"});
  REQUIRE(outcome.status == 0);
  std::vector<nlohmann::json> found;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json object = nlohmann::json::parse(line);
    if (object["type"] == type) found.push_back(std::move(object));
  }
  return found;
}

uint64_t bytes_below(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".segment") bytes += entry.file_size();
  }
  return bytes;
}

char comm;

void record(int calls) {
  for (int i = 0; i < calls; ++i) {
    capture::end_op(capture::begin_op(all_reduce(&comm, 100 + i % 7)), 0);
  }
}

// A process that records one call for each byte it is told, and answers each.
class LiveRank {
 public:
  explicit LiveRank(const std::string& directory) {
    REQUIRE(pipe(to_) == 0);
    REQUIRE(pipe(from_) == 0);
    pid_ = fork();
    if (pid_ != 0) return;
    setenv("ROLLCALL_DIR", directory.c_str(), 1);
    setenv("ROLLCALL_VERBOSE", "0", 1);
    setenv("RANK", "3", 1);
    open_test_comm(&comm);
    char byte = 0;
    while (read(to_[0], &byte, 1) == 1) {
      record(1);
      if (write(from_[1], &byte, 1) != 1) break;
    }
    _exit(0);
  }
  ~LiveRank() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int end : {to_[0], to_[1], from_[0], from_[1]}) close(end);
  }
  void call() {
    char byte = 'c';
    REQUIRE(write(to_[1], &byte, 1) == 1);
    REQUIRE(read(from_[0], &byte, 1) == 1);
  }

 private:
  int to_[2], from_[2];
  pid_t pid_;
};

TEST_CASE("a packed run is smaller and says the same, call for call") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  REQUIRE(ended_well(in_own_process(folder / "run", [] {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    open_test_comm(&comm);
    for (int round = 0; round < 20; ++round) {
      record(500);
      CHILD_REQUIRE(wait_for([] {
        const FileHeader& header = *capture::live.header;
        return load_acquire(header.next_ticket) - load_acquire(header.flushed_ticket) < 500;
      }));
    }
    capture::flush_at_exit();
  })));
  const auto before = dumped(folder, "op");
  const uint64_t bytes_before = bytes_below(folder / "run");
  REQUIRE(before.size() == 10'000);

  const Outcome packed = run_command(folder, {"pack", "run"});
  CHECK(packed.status == 0);
  CHECK_FALSE(contains(packed.out, "left alone"));
  CHECK(bytes_below(folder / "run") < bytes_before);
  CHECK(dumped(folder, "op") == before);

  const Outcome again = run_command(folder, {"pack", "run"});
  CHECK(again.status == 0);
  CHECK(contains(again.out, "0 segments packed"));
}

TEST_CASE("what is missing of a run is said beside its statistics, its trace and its records") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  REQUIRE(ended_well(in_own_process(folder / "run", [] {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    setenv("ROLLCALL_HISTORY", "0", 1);
    open_test_comm(&comm);
    record(3'000);
  })));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"stats", "run"}, {"trace", "run"}, {"dump", "run"}}) {
    const Outcome outcome = run_command(folder, words);
    INFO(words[0] << ": " << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(contains(outcome.err, " calls are on no file any more"));
    CHECK_FALSE(contains(outcome.out, "on no file"));
  }
}

TEST_CASE("calls of threads in a rush stand in the order in which they were made, none missing") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  // By the clock the calls are ten ticks apart, whatever the machine does.
  REQUIRE(ended_well(in_own_process(folder / "run", [] {
    static char comms[2];
    set_fake_clock(1'000'000, 10);
    open_test_comm(&comms[0], 1);
    open_test_comm(&comms[1], 2);
    std::atomic<int> turn{0};
    const auto body = [&](int own) {
      for (int n = 0; n < 500; ++n) {
        while (turn.load() % 2 != own) std::this_thread::yield();
        capture::end_op(capture::begin_op(all_reduce(&comms[own], 1)), 0);
        turn.fetch_add(1);
      }
    };
    std::thread first(body, 0), second(body, 1);
    first.join();
    second.join();
  })));
  const auto ops = dumped(folder, "op");
  REQUIRE(ops.size() == 1000);
  bool tickets_ascend = true;
  for (size_t i = 1; i < ops.size(); ++i) {
    CHECK(ops[i]["thread"] != ops[i - 1]["thread"]);
    tickets_ascend = tickets_ascend && ops[i - 1]["ticket"] < ops[i]["ticket"];
  }
  CHECK_FALSE(tickets_ascend);  // or there was nothing to put in order
  const auto stats = dumped(folder, "stats").at(0);
  CHECK(stats["recorded"] == 1000);
  CHECK(stats["lost"] == 0);
}

TEST_CASE("the history of a process that still runs is left alone by pack") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  LiveRank rank(folder / "run");
  rank.call();
  const Outcome packed = run_command(folder, {"pack", "run"});
  CHECK(packed.status == 0);
  CHECK(contains(packed.out, "1 processes were left alone"));
  CHECK(contains(packed.out, "0 segments packed"));
}

TEST_CASE("a paused rank counts its calls without recording them, and resumes with the next") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  LiveRank rank(folder / "run");
  rank.call();
  CHECK(contains(run_command(folder, {"ctl", "status", "run"}).out, "rank 3"));
  CHECK(contains(run_command(folder, {"ctl", "pause", "run"}).out, "pauses at its next call"));
  rank.call();
  rank.call();
  CHECK(contains(run_command(folder, {"ctl", "status", "run"}).out, ": paused\n"));
  CHECK(dumped(folder, "op").size() == 1);

  CHECK(contains(run_command(folder, {"ctl", "resume", "run", "--rank", "3"}).out,
                 "resumes at its next call"));
  rank.call();
  CHECK(contains(run_command(folder, {"ctl", "status", "run"}).out, ": recording\n"));
  CHECK(dumped(folder, "op").size() == 2);
  CHECK(dumped(folder, "stats").at(0)["dropped"]["dropped_paused"] == 2);
}

TEST_CASE("the doctor finds a live rank recording, and names the switch that stops it") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  LiveRank rank(folder / "run");
  rank.call();
  const Outcome well = run_command(folder, {"doctor", "run"});
  CHECK(well.status == 0);
  CHECK(contains(well.out, ": recording\n"));
  run_command(folder, {"ctl", "pause", "run"});
  rank.call();
  const Outcome paused = run_command(folder, {"doctor", "run"});
  CHECK(paused.status == 1);
  CHECK(contains(paused.out, "recording is paused"));
  CHECK(contains(paused.out, "rollcall ctl resume"));
}

TEST_CASE("a rank that is not in the run is said to be absent, and no switch is touched") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  LiveRank rank(folder / "run");
  rank.call();
  const Outcome outcome = run_command(folder, {"ctl", "pause", "run", "--rank", "4"});
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "holds no recording of rank 4"));
  CHECK(contains(run_command(folder, {"ctl", "status", "run"}).out, ": recording\n"));
}

TEST_CASE("a process that has ended is said to have ended, whatever it is told") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  REQUIRE(ended_well(in_own_process(folder / "run", [] {
    open_test_comm(&comm);
    record(1);
    capture::flush_at_exit();
  })));
  CHECK(contains(run_command(folder, {"ctl", "pause", "run"}).out, "process has ended"));
}

}  // namespace test_recordings
