// The promise of the recorder: whatever kills the process, whenever, the call it was in is on file.
#include <signal.h>
#include <time.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace crash_test {

using test::all_reduce;

constexpr int kThreads = 2;

// In memory that outlives the recording process: how many calls each thread has entered, and was
// about to leave.
struct Progress {
  std::atomic<uint64_t> entered[kThreads];
  std::atomic<uint64_t> leaving[kThreads];
  std::atomic<uint32_t> running;
};

[[noreturn]] void record_until_killed(Progress& progress) {
  static char comms[kThreads];
  for (int i = 0; i < kThreads; ++i) test::open_test_comm(&comms[i], static_cast<uint64_t>(i) + 1);
  const auto work = [&](int thread) {
    progress.running.fetch_add(1);
    for (uint64_t n = 0;; ++n) {
      const capture::OpToken token = capture::begin_op(all_reduce(&comms[thread], n));
      progress.entered[thread].store(n + 1, std::memory_order_release);
      // The real call would be here.
      progress.leaving[thread].store(n + 1, std::memory_order_release);
      capture::end_op(token, 0);
    }
  };
  std::thread second(work, 1);
  work(0);
  _exit(1);
}

void require_everything_on_file(const std::string& directory, const Progress& progress) {
  std::string ring_path;
  std::vector<std::string> segments;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string path = entry.path().string();
    if (path.ends_with(kRingEnding)) ring_path = path;
    if (path.ends_with(kSegmentEnding)) segments.push_back(path);
  }
  REQUIRE_FALSE(ring_path.empty());
  const test::RingContents ring = test::read_ring(ring_path);
  REQUIRE(ring.verdict == HeaderVerdict::fine);
  REQUIRE(ring.hostile == 0);
  REQUIRE(ring.torn <= kThreads);
  uint64_t newest[kThreads] = {};
  bool any[kThreads] = {};
  for (const auto& [ticket, op] : ring.ops) {
    REQUIRE(op.comm_index < kThreads);
    REQUIRE(op.count == op.seq);  // the body belongs to its ticket
    newest[op.comm_index] = std::max(newest[op.comm_index], op.seq);
    any[op.comm_index] = true;
  }
  for (int thread = 0; thread < kThreads; ++thread) {
    const uint64_t entered = progress.entered[thread].load();
    const uint64_t leaving = progress.leaving[thread].load();
    if (entered == 0) continue;
    INFO("thread " << thread << " entered " << entered << " leaving " << leaving);
    if (entered > leaving) {
      // In flight when the process died: pinned, so on file whatever the other thread did since.
      REQUIRE(any[thread]);
      REQUIRE(newest[thread] + 1 >= entered);
    } else if (!any[thread] || newest[thread] + 1 < entered) {
      // It may have returned, and be gone from the ring only if the other thread lapped it since.
      REQUIRE(ring.comms[static_cast<size_t>(thread)].last_ticket + ring.header.ring_slots <
              ring.header.next_ticket);
    }
    // No call is on file that was not at least being entered.
    if (any[thread]) REQUIRE(newest[thread] <= entered);
  }
  for (const std::string& path : segments) {
    const test::SegmentContents segment = test::read_segment(path);
    const bool readable =
        segment.verdict == HeaderVerdict::fine || segment.verdict == HeaderVerdict::truncated;
    REQUIRE(readable);
    REQUIRE(segment.duplicates == 0);
    for (const auto& [ticket, op] : segment.ops) REQUIRE(op.count == op.seq);
  }
}

TEST_CASE("a process killed at any moment leaves every call it had entered") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kKills = 200;  // a process takes ten times as long to start
#else
  constexpr int kKills = 1000;
#endif
  std::mt19937_64 random(20);
  void* memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const timespec no_wait{};
  sigset_t child_ended;
  sigset_t mask_before;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  REQUIRE(sigprocmask(SIG_BLOCK, &child_ended, &mask_before) == 0);
  int killed_while_recording = 0;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    auto* progress = new (memory) Progress{};
    const test::TemporaryDirectory directory;
    const pid_t child = fork();
    if (child == 0) {
      setenv("ROLLCALL_DIR", directory.path().c_str(), 1);
      setenv("ROLLCALL_RING_SLOTS", "4096", 1);
      setenv("ROLLCALL_VERBOSE", "0", 1);
      record_until_killed(*progress);
    }
    // From "before its first call" to "in the middle of writing history". Every other one is let
    // get that far first, however slow the machine is.
    if (kill_number % 2 == 0) {
      REQUIRE(test::wait_for([&] { return progress->entered[0].load() != 0; }));
    }
    const auto wait_us = static_cast<long>(random() % 8000);
    const timespec wait{.tv_sec = 0, .tv_nsec = wait_us * 1000};
    // A child that ends by itself is a failure, and would cut the wait short.
    REQUIRE(sigtimedwait(&child_ended, nullptr, &wait) == -1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    sigtimedwait(&child_ended, nullptr, &no_wait);
    if (progress->running.load() == 0) continue;
    if (progress->entered[0].load() == 0 && progress->entered[1].load() == 0) continue;
    ++killed_while_recording;
    require_everything_on_file(directory.path(), *progress);
  }
  munmap(memory, sizeof(Progress));
  sigprocmask(SIG_SETMASK, &mask_before, nullptr);
  REQUIRE(killed_while_recording > kKills / 4);
}

}  // namespace crash_test
}  // namespace rollcall
