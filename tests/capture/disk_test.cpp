// Disks that are full, then not.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/capture/back_off.h"
#include "core/capture/flusher.h"
#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/capture/small_disk.h"
#include "tests/catch.h"
#include "tests/file_bytes.h"

namespace rollcall {
namespace disk_test {

using test::all_reduce;
using test::ended_well;
using test::fill;
using test::in_own_process;
using test::on_small_disk;
using test::TemporaryDirectory;

char comm;

void record(int calls) {
  static uint64_t random = 1;
  for (int n = 0; n < calls; ++n) {
    random = random * 6364136223846793005 + 1442695040888963407;
    capture::end_op(capture::begin_op(all_reduce(&comm, random >> 20)), 0);
  }
}

TEST_CASE("a disk that is full at the start is found then, and leaves no file and no harm") {
  const TemporaryDirectory directory;
  on_small_disk(directory, "size=2m", [](const std::string&) {
    record(10);
    CHILD_REQUIRE(!capture::enabled());
    capture::flush_at_exit();
  });
  CHECK(directory.files(".ring").empty());
  CHECK(directory.files(".segment").empty());
}

TEST_CASE("a disk of which the ring would take more than half is the job's") {
  const TemporaryDirectory directory;
  on_small_disk(directory, "size=4m", [](const std::string&) {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);  // 3 MiB
    record(10);
    CHILD_REQUIRE(!capture::enabled());
  });
  CHECK(directory.files(".ring").empty());
}

TEST_CASE("a larger disk that is nearly full takes the ring file, and no history") {
  const TemporaryDirectory directory;
  const bool ran = on_small_disk(directory, "size=300m", [](const std::string& disk) {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    const int filler = open((disk + "/filler").c_str(), O_WRONLY | O_CREAT, 0600);
    CHILD_REQUIRE(posix_fallocate(filler, 0, 200 << 20) == 0);
    close(filler);
    record(1000);
    CHILD_REQUIRE(capture::enabled());
    capture::flush_now();
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_errors) > 0);
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_bytes) == 0);
    std::filesystem::remove(disk + "/filler");
  });
  if (ran) CHECK(directory.files(".ring").size() == 1);
}

TEST_CASE("history leaves half of a small disk to the job, and is missed, counted") {
  const TemporaryDirectory directory;
  const bool ran = on_small_disk(directory, "size=8m", [](const std::string& disk) {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    for (int n = 0; n == 0 || load_relaxed(capture::live.stats->history_errors) == 0; ++n) {
      CHILD_REQUIRE(n < 2000);
      record(100);
      capture::flush_now();
    }
    const std::filesystem::space_info space = std::filesystem::space(disk);
    CHILD_REQUIRE(space.available >= space.capacity / 2);
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_bytes) > 0);
  });
  if (!ran) return;
  CHECK(test::read_segment(directory.files(".segment").at(0)).whole);
}

TEST_CASE(
    "a disk that fills up costs history, counted; with room again it goes on, nothing twice") {
  const TemporaryDirectory directory;
  const bool ran = on_small_disk(directory, "size=8m", [](const std::string& disk) {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    record(500);
    capture::flush_now();
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_errors) == 0);
    fill(disk);
    for (int n = 0; load_relaxed(capture::live.stats->history_errors) == 0; ++n) {
      CHILD_REQUIRE(n < 1000);
      record(100);
      capture::flush_now();
    }
    record(5000);
    capture::flush_now();
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_errors) > 1);
    std::filesystem::remove(disk + "/filler");
    capture::flush_now();
    record(300);
    capture::flush_at_exit();
  });
  if (!ran) return;
  const test::RingContents ring = test::read_ring(directory.files(".ring").at(0));
  REQUIRE(ring.verdict == HeaderVerdict::fine);
  CHECK(ring.ops.size() == ring.header.ring_slots);
  uint64_t in_segments = 0;
  for (const std::string& path : directory.files(".segment")) {
    const test::SegmentContents segment = test::read_segment(path);
    CHECK(segment.whole);
    CHECK(segment.duplicates == 0);
    in_segments += segment.ops.size();
  }
  CHECK(ring.stats.history_lost > 0);
  CHECK(in_segments == ring.stats.history_records);
  // A ticket looked at between its being handed out and its slot being claimed counts as stepped
  // over, and may be overwritten before the next look.
  const uint64_t told = in_segments + ring.stats.history_lost;
  CHECK(told <= ring.header.next_ticket - 1);
  CHECK(told + 2 >= ring.header.next_ticket - 1);
}

TEST_CASE("a Chrome trace on a full disk ends with a whole line, and what is missing is counted") {
  const TemporaryDirectory directory;
  const bool ran = on_small_disk(directory, "size=8m", [](const std::string& disk) {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    setenv("ROLLCALL_HISTORY", "0", 1);
    setenv("ROLLCALL_CHROME_TRACE", "1", 1);
    record(50);
    capture::flush_now();
    fill(disk);
    record(900);
    capture::flush_now();
  });
  if (!ran) return;
  CHECK(test::read_ring(directory.files(".ring").at(0)).stats.history_errors > 0);
  const std::string text = test::file_bytes(directory.files(".trace.json").at(0));
  CHECK(std::count(text.begin(), text.end(), '\n') >= 52);
  CHECK(text.ends_with("}},\n"));
}

// Files, not descriptors: the flusher keeps none open, so it needs one for every block.
void allow_descriptors(bool allow) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = allow ? limit.rlim_max : 3;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Waits until the flusher looked at its work a few more times.
void wait_for_passes() {
  const uint64_t passes = load_acquire(capture::live.stats->flush_passes);
  CHILD_REQUIRE(test::wait_for(
      [&] { return load_acquire(capture::live.stats->flush_passes) >= passes + 5; }));
}

bool errors_become(uint64_t number) {
  return test::wait_for(
      [&] { return load_acquire(capture::live.stats->history_errors) == number; });
}

TEST_CASE("a block that was refused is offered again at growing intervals, until it is taken") {
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [] {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    set_fake_clock(1'000'000, 0);
    record(1);
    allow_descriptors(false);
    record(400);  // one block of 256 and its slack
    CHILD_REQUIRE(errors_become(1));
    uint64_t wait_ns = capture::BackOff::kFirstNs;
    for (uint64_t errors = 1; errors < 5; ++errors, wait_ns *= 2) {
      advance_fake_clock(wait_ns - 1);
      wait_for_passes();
      CHILD_REQUIRE(errors_become(errors));
      advance_fake_clock(1);
      CHILD_REQUIRE(errors_become(errors + 1));
    }
    allow_descriptors(true);
    CHILD_REQUIRE(load_acquire(capture::live.stats->history_bytes) == 0);
    advance_fake_clock(wait_ns);
    CHILD_REQUIRE(
        test::wait_for([] { return load_acquire(capture::live.header->flushed_ticket) > 256; }));
    CHILD_REQUIRE(load_acquire(capture::live.stats->history_errors) == 5);
  });
  REQUIRE(ended_well(status));
  const test::SegmentContents segment = test::read_segment(directory.files(".segment").at(0));
  CHECK(segment.whole);
  CHECK(segment.ops.size() == 256);
  CHECK(segment.duplicates == 0);
}

}  // namespace disk_test
}  // namespace rollcall
