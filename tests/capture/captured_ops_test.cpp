// What went into CUDA graphs is written once more, and outlives the rest of the history.
#include "core/capture/flusher.h"
#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/capture/small_disk.h"
#include "tests/catch.h"

namespace rollcall {
namespace captured_ops_test {

using test::all_reduce;
using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

char comm;

void capture_calls(int calls) {
  for (int n = 0; n < calls; ++n) {
    const capture::OpToken token =
        capture::begin_op(all_reduce(&comm, 1000 + static_cast<uint64_t>(n)));
    capture::note_captured(token);
    capture::end_op(token, 0);
  }
}

// Of sizes that do not repeat, which take more room.
void call(int calls) {
  static uint64_t random = 1;
  for (int n = 0; n < calls; ++n) {
    random = random * 6364136223846793005 + 1442695040888963407;
    capture::end_op(capture::begin_op(all_reduce(&comm, random >> 20)), 0);
    const FileHeader& header = *capture::live.header;
    const auto backlog = [&] {
      return load_acquire(header.next_ticket) - load_acquire(header.flushed_ticket);
    };
    if (n % 8192 == 0) CHILD_REQUIRE(test::wait_for([&] { return backlog() < 8192; }));
  }
}

uint64_t bytes_of(const std::vector<std::string>& files) {
  uint64_t bytes = 0;
  for (const std::string& path : files) bytes += std::filesystem::file_size(path);
  return bytes;
}

// Each has its count, and nothing else is among them.
void check_captured(const std::string& path, uint64_t first_ticket, uint64_t calls) {
  const test::SegmentContents captured = test::read_segment(path);
  REQUIRE(captured.verdict == HeaderVerdict::fine);
  CHECK(captured.whole);
  CHECK(captured.duplicates == 0);
  REQUIRE(captured.ops.size() == calls);
  uint64_t count = 1000;
  for (const auto& [ticket, op] : captured.ops) {
    CHECK(ticket == first_ticket + count - 1000);
    CHECK(op.count == count++);
    CHECK(op.graph == 1);
  }
}

TEST_CASE("what is captured is on file twice, in the history and apart from it") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    test::open_test_comm(&comm);
    call(10);
    capture_calls(5);
    call(10);
    capture::flush_at_exit();
  })));
  REQUIRE(directory.files(".captured").size() == 1);
  check_captured(directory.files(".captured")[0], 11, 5);
  const auto history = test::read_segment(directory.files(".segment").at(0));
  CHECK(history.ops.size() == 25);
  const auto ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.stats.history_records == 25);
  CHECK(ring.stats.history_bytes + 2 * sizeof(SegmentHeader) ==
        bytes_of(directory.files(".captured")) + bytes_of(directory.files(".segment")));
}

TEST_CASE("where nothing is captured, nothing is written apart") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    call(100);
    capture::flush_at_exit();
  })));
  CHECK(directory.files(".segment").size() == 1);
  CHECK(directory.files(".captured").empty());
}

TEST_CASE("what was captured outlives the history, within the one bound for both") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_MAX_HISTORY", "300k", 1);
    test::open_test_comm(&comm);
    capture_calls(300);
    call(60000);
    capture::flush_at_exit();
  })));
  REQUIRE(directory.files(".captured").size() == 1);
  check_captured(directory.files(".captured")[0], 1, 300);
  for (const std::string& path : directory.files(".segment")) {
    CHECK(test::read_segment(path).ops.begin()->first > 300);
  }
  const uint64_t bytes =
      bytes_of(directory.files(".segment")) + bytes_of(directory.files(".captured"));
  CHECK(bytes <= 300 * 1024);
  CHECK(bytes > 100 * 1024);
  CHECK(test::read_ring(directory.files(".ring").at(0)).stats.history_dropped_files > 0);
}

TEST_CASE("of a job that captures without end the newest captures are kept, and a bound") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_MAX_HISTORY", "1m", 1);
    test::open_test_comm(&comm);
    uint64_t random = 1;
    for (int n = 0; n < 60000; ++n) {
      random = random * 6364136223846793005 + 1442695040888963407;
      const capture::OpToken token = capture::begin_op(all_reduce(&comm, random >> 20));
      capture::note_captured(token);
      capture::end_op(token, 0);
      if (n % 8192 == 0) capture::flush_now();
    }
    capture::flush_at_exit();
  })));
  const std::vector<std::string> files = directory.files(".captured");
  REQUIRE_FALSE(files.empty());
  // Or one block.
  CHECK(bytes_of(files) <= 1024 * 1024 / 8);
  CHECK(test::read_segment(files.front()).ops.begin()->first > 1);
  CHECK(test::read_segment(files.back()).ops.rbegin()->first == 60000);
  CHECK(bytes_of(files) + bytes_of(directory.files(".segment")) <= 1024 * 1024);
}

TEST_CASE("what was captured while the disk was full is written once it has room, and only once") {
  const TemporaryDirectory directory;
  const bool ran = test::on_small_disk(directory, "size=8m", [](const std::string& disk) {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    test::open_test_comm(&comm);
    test::record_all_reduces(&comm, 10);
    test::fill(disk);
    capture_calls(200);
    capture::flush_now();
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_errors) > 0);
    std::filesystem::remove(disk + "/filler");
    capture::flush_now();
    test::record_all_reduces(&comm, 10);
    capture::flush_at_exit();
  });
  if (!ran) return;
  REQUIRE(directory.files(".captured").size() == 1);
  check_captured(directory.files(".captured")[0], 11, 200);
}

}  // namespace captured_ops_test
}  // namespace rollcall
