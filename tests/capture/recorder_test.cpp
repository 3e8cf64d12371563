// What the recorder's interface promises, seen in the file it leaves.
#include <atomic>
#include <set>
#include <thread>

#include "core/base/clock.h"
#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace recorder_test {

using test::all_reduce;
using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

char comm, other_comm;

test::RingContents record_and_read(const TemporaryDirectory& directory,
                                   const std::function<void()>& body) {
  REQUIRE(ended_well(in_own_process(directory.path(), body)));
  REQUIRE(directory.files(".ring").size() == 1);
  return test::read_ring(directory.files(".ring")[0]);
}

// Operations that are in the ring and not in a segment yet.
uint64_t backlog() {
  const FileHeader& header = *capture::live.header;
  return load_acquire(header.next_ticket) - load_acquire(header.flushed_ticket);
}

TEST_CASE("a call is on file before it is entered, and complete after it returned") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    capture::end_op(capture::begin_op(all_reduce(&comm, 10)), 5);
    capture::begin_op(all_reduce(&comm, 20));  // never comes back
  });
  REQUIRE(ring.ops.size() == 2);
  CHECK(ring.in_flight == 1);
  const OpRecord& first = ring.ops.at(1);
  CHECK(first.result == 5);
  CHECK(first.returned_ticks >= first.called_ticks);
  const OpRecord& second = ring.ops.at(2);
  CHECK(second.count == 20);
  CHECK(second.result == kResultUnknown);
  CHECK(second.returned_ticks == 0);
  CHECK(second.seq == 1);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::running_or_killed));
}

TEST_CASE("without an invariant TSC the file says so, and its times are the monotonic clock's") {
  const TemporaryDirectory directory;
  const uint64_t before_ns = monotonic_now_ns();
  const auto ring = record_and_read(directory, [] {
    detect_clock();
    clock_detail::source = clock_detail::Source::monotonic;
    capture::end_op(capture::begin_op(all_reduce(&comm, 10)), 0);
    capture::flush_at_exit();
  });
  CHECK(ring.header.clock_kind == ClockKind::monotonic);
  CHECK(ring.ops.at(1).called_ticks >= before_ns);
  CHECK(ring.ops.at(1).returned_ticks >= ring.ops.at(1).called_ticks);
  CHECK(ring.ops.at(1).returned_ticks <= monotonic_now_ns());
  const ClockAnchor& first = ring.header.first_anchor;
  CHECK(first.ticks >= before_ns);
  const bool is_later = first.ticks > first.monotonic_ns;
  CHECK((is_later ? first.ticks - first.monotonic_ns : first.monotonic_ns - first.ticks) <=
        first.error_ns);

  const TemporaryDirectory other;
  const auto usual =
      record_and_read(other, [] { capture::end_op(capture::begin_op(all_reduce(&comm, 10)), 0); });
  CHECK(usual.header.clock_kind == detect_clock());
}

TEST_CASE("seq counts collectives per communicator, p2p seq per peer and direction") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm, 1);
    test::open_test_comm(&other_comm, 2);
    const auto call = [](const void* handle, OpKind kind, int32_t peer) {
      capture::OpCall op = all_reduce(handle, 1);
      op.kind = kind;
      op.root_or_peer = peer;
      capture::end_op(capture::begin_op(op), 0);
    };
    call(&comm, OpKind::AllReduce, -1);        // 1
    call(&other_comm, OpKind::AllReduce, -1);  // 2
    call(&comm, OpKind::Broadcast, 0);         // 3
    call(&comm, OpKind::Send, 3);              // 4
    call(&comm, OpKind::Send, 4);              // 5
    call(&comm, OpKind::Recv, 3);              // 6
    call(&comm, OpKind::Send, 3);              // 7
    call(&comm, OpKind::Send, 99);             // 8: no such peer
  });
  const uint64_t seqs[] = {0, 0, 1, 0, 0, 0, 1};
  for (uint64_t ticket = 1; ticket <= 7; ++ticket) {
    INFO("ticket " << ticket);
    CHECK(ring.ops.at(ticket).seq == seqs[ticket - 1]);
    CHECK((ring.ops.at(ticket).flags & kOpSeqUnknown) == 0);
  }
  CHECK((ring.ops.at(8).flags & kOpSeqUnknown) != 0);
  CHECK(ring.stats.seq_unknown == 1);
  CHECK(ring.comms.at(0).collectives == 2);
  CHECK(ring.comms.at(0).sends == 4);
}

TEST_CASE(
    "signals to a peer are counted, whatever brings them, and those waited for by their number") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm, 1);
    const auto call = [](OpKind kind, int32_t peer, uint64_t count) {
      capture::OpCall op = all_reduce(&comm, count);
      op.kind = kind;
      op.root_or_peer = peer;
      capture::end_op(capture::begin_op(op), 0);
    };
    call(OpKind::PutSignal, 3, 64);   // 1
    call(OpKind::Signal, 3, 0);       // 2
    call(OpKind::Signal, 2, 0);       // 3
    call(OpKind::WaitSignal, 3, 2);   // 4
    call(OpKind::WaitSignal, 3, 1);   // 5
    call(OpKind::Send, 3, 1);         // 6
    call(OpKind::Signal, 3, 0);       // 7
    call(OpKind::WaitSignal, -1, 4);  // 8: of several peers
  });
  const uint64_t seqs[] = {0, 1, 0, 0, 2, 0, 2, 0};
  for (uint64_t ticket = 1; ticket <= 8; ++ticket) {
    INFO("ticket " << ticket);
    CHECK(ring.ops.at(ticket).seq == seqs[ticket - 1]);
    CHECK(((ring.ops.at(ticket).flags & kOpSeqUnknown) != 0) == (ticket == 8));
  }
  CHECK(ring.stats.seq_unknown == 0);
  CHECK(ring.comms.at(0).collectives == 0);
  CHECK(ring.comms.at(0).sends == 1);
}

TEST_CASE("a handle that is used again after destroy is another communicator") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    const uint32_t first = test::open_test_comm(&comm, 1);
    capture::end_op(capture::begin_op(all_reduce(&comm, 1)), 0);
    capture::close_comm(first, CommState::destroyed);
    if (capture::find_comm(&comm) != kCommUnknown) _exit(1);
    test::open_test_comm(&comm, 2);
    capture::end_op(capture::begin_op(all_reduce(&comm, 1)), 0);
  });
  CHECK(ring.ops.at(1).comm_index == 0);
  CHECK(ring.ops.at(2).comm_index == 1);
  CHECK(ring.ops.at(2).seq == 0);
  CHECK(ring.comms.at(0).state == static_cast<uint32_t>(CommState::destroyed));
  CHECK(ring.comms.at(1).state == static_cast<uint32_t>(CommState::ready));
}

TEST_CASE("a communicator whose creation was not seen gets an entry and is counted") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    for (int n = 0; n < 3; ++n) capture::end_op(capture::begin_op(all_reduce(&comm, 1)), 0);
  });
  REQUIRE(ring.comms.size() == 1);
  CHECK(ring.comms[0].origin == CommOrigin::unknown);
  CHECK(ring.comms[0].nranks == -1);
  CHECK(ring.stats.comm_unknown == 1);
}

TEST_CASE(
    "calls in turns on communicators whose handles lie side by side keep their own positions") {
  const TemporaryDirectory directory;
  constexpr uint32_t kHandles = 40;  // sixteen of them share a place in the table
  constexpr uint32_t kRounds = 3;
  const auto ring = record_and_read(directory, [] {
    static char handles[kHandles];
    for (char& handle : handles) test::open_test_comm(&handle);
    for (uint32_t round = 0; round < kRounds; ++round) {
      for (char& handle : handles) capture::end_op(capture::begin_op(all_reduce(&handle, 1)), 0);
    }
  });
  REQUIRE(ring.ops.size() == kHandles * kRounds);
  for (const auto& [ticket, op] : ring.ops) {
    INFO("ticket " << ticket);
    CHECK(op.comm_index == (ticket - 1) % kHandles);
    CHECK(op.seq == (ticket - 1) / kHandles);
  }
  CHECK(ring.stats.comm_unknown == 0);
}

TEST_CASE("calls that NCCL makes to itself are counted some at a time, and the rest at exit") {
  constexpr uint32_t kNested = 21;
  enum class End : uint8_t { killed, exit, at_once };
  const auto counted = [](End end) {
    const TemporaryDirectory directory;
    const auto ring = record_and_read(directory, [&] {
      test::open_test_comm(&comm);
      const capture::OpToken token = capture::begin_op(all_reduce(&comm, 1));
      for (uint32_t i = 0; i < kNested; ++i) capture::count_nested_call();
      capture::end_op(token, 0);
      if (end == End::exit) capture::flush_at_exit();
      if (end == End::at_once) capture::note_immediate_exit();
    });
    return ring.stats.nested_calls;
  };
  CHECK(counted(End::killed) == 16);
  CHECK(counted(End::exit) == kNested);
  CHECK(counted(End::at_once) == kNested);
}

TEST_CASE("communicators beyond the table are counted and their calls still recorded") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    static char handles[kCommsMax + 5];
    for (char& handle : handles) test::open_test_comm(&handle);
    capture::end_op(capture::begin_op(all_reduce(&handles[kCommsMax + 1], 1)), 0);
  });
  CHECK(ring.stats.comm_table_full == 5);
  CHECK(ring.ops.at(1).comm_index == kCommUnknown);
  CHECK((ring.ops.at(1).flags & kOpSeqUnknown) != 0);
}

TEST_CASE("reductions that are made for every call push no other event out") {
  const TemporaryDirectory directory;
  constexpr uint32_t kCalls = kEventSlots;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    capture::note_event({.kind = EventKind::CommInitRank}, 0);
    for (uint32_t i = 0; i < kCalls; ++i) {
      capture::note_event({.kind = EventKind::RedOpCreatePreMulSum}, 0);
      capture::note_event({.kind = EventKind::RedOpDestroy}, 0);
    }
    capture::note_event({.kind = EventKind::CommAbort}, 0);
  })));
  const test::RingContents ring = test::read_ring(directory.files(".ring")[0]);
  REQUIRE(ring.events.size() == kReductionEventsMax + 2);
  CHECK(ring.events.begin()->second.kind == EventKind::CommInitRank);
  CHECK(ring.events.rbegin()->second.kind == EventKind::CommAbort);
  CHECK(ring.stats.reductions == 2 * kCalls);
  CHECK(ring.stats.dropped_event == 0);
}

TEST_CASE("events carry arguments, text and their place among the operations") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    const uint32_t index = test::open_test_comm(&comm);
    capture::end_op(capture::begin_op(all_reduce(&comm, 1)), 0);
    capture::EventCall call{.kind = EventKind::CommAbort, .comm_index = index};
    call.arguments[0] = 11;
    call.arguments[1] = -12;
    const capture::EventToken token = capture::begin_event(call);
    capture::end_event(token, 3, "unhandled cuda error");
    capture::begin_event({.kind = EventKind::CommDestroy});
  });
  REQUIRE(ring.events.size() == 2);
  const EventRecord& abort = ring.events.at(1);
  CHECK(abort.arguments[0] == 11);
  CHECK(abort.arguments[1] == -12);
  CHECK(abort.op_ticket == 2);
  CHECK(abort.result == 3);
  CHECK(std::string(abort.text, abort.text_bytes) == "unhandled cuda error");
  CHECK(ring.events.at(2).returned_ticks == 0);
}

TEST_CASE("events that step over one in flight take no numbers from operations") {
  constexpr uint64_t kLaps = 3;
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    capture::begin_event({.kind = EventKind::CommAbort});
    for (uint64_t i = 0; i < kLaps * kEventSlots; ++i) {
      capture::end_event(capture::begin_event({.kind = EventKind::CommAbort}), 0);
    }
    capture::end_op(capture::begin_op(all_reduce(&comm, 1)), 0);
  });
  CHECK(ring.stats.events_stepped_over == kLaps);
  CHECK(ring.stats.stepped_over == 0);
}

TEST_CASE("a group counts its operations, and no launch of a graph") {
  const TemporaryDirectory directory;
  record_and_read(directory, [] {
    capture::OpCall call = all_reduce(&comm, 1);
    call.group = capture::group_enter();
    capture::end_op(capture::begin_op(call), 0);
    capture::end_op(capture::begin_op({.kind = OpKind::GraphLaunch, .graph = 1}), 0);
    uint32_t operations = 0;
    capture::group_leave(&operations);
    if (operations != 1) abort();
  });
}

TEST_CASE("groups are numbered by the outermost start, and count their operations") {
  CHECK(capture::current_group() == 0);
  const uint32_t number = capture::group_enter();
  CHECK(number != 0);
  CHECK(capture::group_enter() == number);
  uint32_t operations = 0;
  CHECK(capture::group_leave(&operations) == 0);
  CHECK(capture::current_group() == number);
  CHECK(capture::group_leave(&operations) == number);
  CHECK(capture::group_leave(&operations) == 0);  // an end too many
  CHECK(capture::group_enter() == number + 1);
  capture::group_leave(&operations);
}

TEST_CASE("pausing stops records and not the counting, and both ends are noted") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    const auto call = [] { capture::end_op(capture::begin_op(all_reduce(&comm, 1)), 0); };
    call();
    store_relaxed(capture::live.header->capture_switch, uint32_t{1});
    call();
    call();
    if (capture::enabled()) _exit(1);
    store_relaxed(capture::live.header->capture_switch, uint32_t{0});
    call();
  });
  REQUIRE(ring.ops.size() == 2);
  CHECK(ring.ops.at(2).seq == 3);
  CHECK(ring.stats.dropped_paused == 2);
  REQUIRE(ring.events.size() == 2);
  CHECK(ring.events.at(1).kind == EventKind::CapturePaused);
  CHECK(ring.events.at(2).kind == EventKind::CaptureResumed);
}

TEST_CASE("meta, coverage and the exit are on file, with what was said before the start") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    setenv("RANK", "5", 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    setenv("HF_TOKEN", "hf_secret", 1);
    capture::add_coverage("plt");
    capture::add_meta("nccl_version", "22203");
    capture::end_op(capture::begin_op(all_reduce(&comm, 1)), 0);
    capture::add_coverage("dlsym");
    capture::add_coverage("plt");
    capture::add_meta("warning", "two\nlines");
    capture::flush_at_exit();
    capture::flush_at_exit();
  });
  for (const char* line : {"job_rank=5\n", "env.NCCL_DEBUG=WARN\n", "nccl_version=22203\n",
                           "coverage=plt\n", "coverage=plt,dlsym\n", "warning=two\\nlines\n"}) {
    INFO(line);
    CHECK(ring.meta.find(line) != std::string::npos);
  }
  CHECK(ring.meta.find("secret") == std::string::npos);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::exited));
  REQUIRE(ring.events.size() == 1);
  CHECK(ring.events.at(1).kind == EventKind::ProcessExit);
}

TEST_CASE("groups of threads side by side have numbers of their own") {
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [] {
    constexpr int kThreads = 4;
    constexpr int kGroups = 500;
    std::vector<uint32_t> numbers[kThreads];
    std::vector<std::thread> threads;
    for (auto& mine : numbers) {
      threads.emplace_back([&mine] {
        for (int i = 0; i < kGroups; ++i) {
          mine.push_back(capture::group_enter());
          capture::group_leave(nullptr);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<uint32_t> all;
    for (const auto& mine : numbers) all.insert(mine.begin(), mine.end());
    CHILD_REQUIRE(all.size() == kThreads * kGroups);
    CHILD_REQUIRE(all.count(0) == 0);
  });
  CHECK(ended_well(status));
}

TEST_CASE("what leaves the ring is in the segments, once, and digests agree between equal ranks") {
  std::vector<uint64_t> digests[2];
  for (auto& of_rank : digests) {
    const TemporaryDirectory directory;
    const auto ring = record_and_read(directory, [] {
      setenv("ROLLCALL_RING_SLOTS", "4096", 1);
      test::open_test_comm(&comm);
      for (uint64_t n = 0; n < 20000; ++n) {
        capture::end_op(capture::begin_op(all_reduce(&comm, n % 7)), 0);
        if (n % 1024 == 0) CHILD_REQUIRE(test::wait_for([] { return backlog() < 2048; }));
      }
      capture::flush_at_exit();
    });
    CHECK(ring.stats.history_lost == 0);
    CHECK(ring.stats.history_records == 20000);
    std::set<uint64_t> tickets;
    for (const std::string& path : directory.files(".segment")) {
      const auto segment = test::read_segment(path);
      REQUIRE(segment.verdict == HeaderVerdict::fine);
      CHECK(segment.whole);
      CHECK(segment.duplicates == 0);
      for (const auto& [ticket, op] : segment.ops) {
        REQUIRE(op.count == op.seq % 7);
        tickets.insert(ticket);
      }
      for (const DigestRecord& digest : segment.digests) {
        CHECK(digest.gap == 0);
        of_rank.push_back(digest.digest);
      }
    }
    CHECK(tickets.size() == 20000);
    CHECK(of_rank.size() == 20000 / kDigestPeriod);
  }
  CHECK(digests[0] == digests[1]);
}

TEST_CASE("the history bound removes the oldest segments and says how many") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    setenv("ROLLCALL_MAX_HISTORY", "300k", 1);
    uint64_t random = 1;
    for (int n = 0; n < 60000; ++n) {
      random = random * 6364136223846793005 + 1442695040888963407;
      capture::end_op(capture::begin_op(all_reduce(&comm, random >> 20)), 0);
      if (n % 8192 == 0) CHILD_REQUIRE(test::wait_for([] { return backlog() < 8192; }));
    }
    capture::flush_at_exit();
  });
  CHECK(ring.stats.history_dropped_files > 0);
  uint64_t bytes = 0;
  for (const std::string& path : directory.files(".segment")) {
    bytes += std::filesystem::file_size(path);
  }
  CHECK(bytes <= 300 * 1024);
  CHECK(bytes > 100 * 1024);
}

TEST_CASE("threads beside each other lose nothing and have an entry each") {
  const TemporaryDirectory directory;
  constexpr int kThreads = 8;
  constexpr int kCalls = 500;
  const auto ring = record_and_read(directory, [] {
    static char handles[kThreads];
    for (int i = 0; i < kThreads; ++i) test::open_test_comm(&handles[i], static_cast<uint64_t>(i));
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([i] {
        for (uint64_t n = 0; n < kCalls; ++n) {
          capture::end_op(capture::begin_op(all_reduce(&handles[i], n)), 0);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  REQUIRE(ring.ops.size() == kThreads * kCalls);
  for (const auto& [ticket, op] : ring.ops) REQUIRE(op.count == op.seq);
  CHECK(ring.header.thread_count == kThreads + 1);  // and the main one
  for (const CommEntry& entry : ring.comms) CHECK(entry.collectives == kCalls);
}

}  // namespace recorder_test
}  // namespace rollcall
