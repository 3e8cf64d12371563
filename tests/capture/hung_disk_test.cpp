// A disk that does not answer: who asks how full it is, as the flusher does in front of each block,
// hangs until the test lets it go.
#include "tests/capture/hung_disk.h"

#include <signal.h>

#include <atomic>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/capture/flusher.h"
#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace hung_disk_test {

using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

constexpr uint64_t kSecondNs = 1'000'000'000;
char comm;

void record(int calls) { test::record_all_reduces(&comm, calls); }

std::atomic<bool> disk_hangs{false};
std::atomic<int> hanging{0};  // that wait for it

// From here on the disk of this process hangs; who hangs for good is ended by the alarm.
void hang_disk() {
  disk_hangs.store(true);
  alarm(60);
}

// The flusher is at the disk, and its heart does not beat.
void wait_until_flusher_hangs() {
  CHILD_REQUIRE(test::wait_for([] { return hanging.load() == 1; }));
}

uint64_t exit_takes_ns() {
  const uint64_t before_ns = monotonic_now_ns();
  capture::flush_at_exit();
  return monotonic_now_ns() - before_ns;
}

test::RingContents ring_in(const TemporaryDirectory& directory) {
  return test::read_ring(directory.files(".ring").at(0));
}

TEST_CASE("on a disk that hangs the job runs on, without heartbeat, and exits after two seconds") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    record(1);
    hang_disk();
    record(400);  // one block of 256 and its slack
    wait_until_flusher_hangs();
    const uint64_t heartbeat = load_acquire(capture::live.header->heartbeat_ticks);
    record(5000);
    CHILD_REQUIRE(load_acquire(capture::live.header->next_ticket) == 5402);
    CHILD_REQUIRE(hanging.load() == 1);
    const uint64_t taken_ns = exit_takes_ns();
    CHILD_REQUIRE(taken_ns >= 2 * kSecondNs);
    CHILD_REQUIRE(taken_ns < 20 * kSecondNs);
    CHILD_REQUIRE(load_acquire(capture::live.header->heartbeat_ticks) == heartbeat);
  })));
  const test::RingContents ring = ring_in(directory);
  CHECK(ring.ops.size() == 1024);
  CHECK(ring.ops.rbegin()->first == 5401);
  CHECK(ring.torn == 0);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::exited));
  CHECK(ring.stats.history_records == 0);
  CHECK(ring.stats.history_errors == 0);
}

TEST_CASE("a disk that hangs at the exit, when the history is finished, delays it as little") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    record(10);
    hang_disk();
    const uint64_t taken_ns = exit_takes_ns();
    CHILD_REQUIRE(taken_ns >= 2 * kSecondNs);
    CHILD_REQUIRE(taken_ns < 20 * kSecondNs);
  })));
  const test::RingContents ring = ring_in(directory);
  CHECK(ring.ops.size() == 10);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::exited));
  CHECK(ring.header.exited_ticks != 0);
}

TEST_CASE("a disk that answers again gets what waited for it, and the heart beats again") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    record(1);
    hang_disk();
    record(400);
    wait_until_flusher_hangs();
    const uint64_t heartbeat = load_acquire(capture::live.header->heartbeat_ticks);
    disk_hangs.store(false);
    CHILD_REQUIRE(test::wait_for(
        [&] { return load_acquire(capture::live.header->heartbeat_ticks) != heartbeat; }));
    CHILD_REQUIRE(
        test::wait_for([] { return load_acquire(capture::live.header->flushed_ticket) == 257; }));
    capture::flush_at_exit();
  })));
  CHECK(test::read_segment(directory.files(".segment").at(0)).ops.size() == 401);
  const test::RingContents ring = ring_in(directory);
  CHECK(ring.stats.history_records == 401);
  CHECK(ring.stats.history_errors == 0);
  CHECK(ring.stats.history_lost == 0);
}

}  // namespace hung_disk_test
}  // namespace rollcall

void rollcall::test::ask_disk() noexcept {
  using namespace hung_disk_test;
  ++hanging;
  while (disk_hangs.load()) poll(nullptr, 0, 1);
  --hanging;
}
