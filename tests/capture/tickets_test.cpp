// How threads draw the tickets of their operations: under a clock that stands still unless told, so
// that what is a rush does not depend on the machine.
#include "core/capture/tickets.h"

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace tickets_test {

using capture::kBlockTicks;
using capture::kRushesWantedMin;
using test::all_reduce;

char comms[2];

uint64_t call(int thread) {
  const capture::OpToken token = capture::begin_op(all_reduce(&comms[thread], 1));
  capture::end_op(token, 0);
  return token.ticket;
}

constexpr int kSingles = int{kRushesWantedMin} + 1;  // the first draw is never in a rush
constexpr uint64_t kFirstBlock = 2 * kSingles + 1;

// Two threads call in turns, `rounds` times each; then each does what is its own, the first one
// before the second.
struct Behind {
  std::function<void()> first = [] {};
  std::function<void()> second = [] {};
};
std::array<std::vector<uint64_t>, 2> call_in_turns(int rounds, const Behind& behind = {},
                                                   uint64_t step_ticks = 0) {
  set_fake_clock(1'000'000, step_ticks);
  test::open_test_comm(&comms[0], 1);
  test::open_test_comm(&comms[1], 2);
  std::array<std::vector<uint64_t>, 2> tickets;
  std::atomic<int> turn{0};
  const auto body = [&](int own) {
    const auto in_turn = [&](const std::function<void()>& step) {
      while (turn.load() % 2 != own) std::this_thread::yield();
      step();
      turn.fetch_add(1);
    };
    for (int round = 0; round < rounds; ++round) {
      in_turn([&] { tickets[static_cast<size_t>(own)].push_back(call(own)); });
    }
    in_turn(own == 0 ? behind.first : behind.second);
  };
  std::thread first(body, 0), second(body, 1);
  first.join();
  second.join();
  return tickets;
}

test::RingContents record(const std::function<void()>& body) {
  const test::TemporaryDirectory directory;
  REQUIRE(test::ended_well(test::in_own_process(directory.path(), [&] {
    setenv("ROLLCALL_HISTORY", "0", 1);
    body();
  })));
  REQUIRE(directory.files(".ring").size() == 1);
  return test::read_ring(directory.files(".ring")[0]);
}

// Of the two that call in turns: the thread that opened the communicators has the first entry.
uint32_t open_block(uint32_t thread) {
  return load_relaxed(capture::live.threads[thread + 1].open_block);
}

TEST_CASE("a thread alone draws one ticket at a time, however fast it calls") {
  const auto ring = record([] {
    set_fake_clock(1'000'000, 0);
    test::open_test_comm(&comms[0], 1);
    for (uint64_t ticket = 1; ticket <= 100; ++ticket) CHILD_REQUIRE(call(0) == ticket);
    CHILD_REQUIRE(load_relaxed(capture::live.threads[0].open_block) == 0);
  });
  CHECK(ring.ops.size() == 100);
  CHECK(ring.header.next_ticket == 101);
  CHECK(ring.header.ticket_block == 0);
  CHECK(ring.stats.given_up == 0);
}

TEST_CASE("threads that take turns without a rush draw one ticket at a time") {
  const auto ring = record([] {
    const auto tickets = call_in_turns(50, {}, capture::kRushTicks);
    for (uint64_t i = 0; i < 50; ++i) {
      CHILD_REQUIRE(tickets[0][i] == 2 * i + 1 && tickets[1][i] == 2 * i + 2);
    }
  });
  CHECK(ring.header.next_ticket == 101);
  CHECK(ring.header.ticket_block == 0);
}

TEST_CASE("threads in a rush draw blocks, and spend each ticket in order") {
  const auto ring = record([] {
    const auto tickets = call_in_turns(kSingles + 3 * int{kTicketBlock} + 2);
    for (uint64_t thread = 0; thread < 2; ++thread) {
      for (uint64_t i = 0; i < tickets[thread].size(); ++i) {
        const uint64_t behind = i - kSingles;
        const uint64_t expected =
            i < kSingles ? 2 * i + thread + 1
                         : kFirstBlock + (2 * (behind / kTicketBlock) + thread) * kTicketBlock +
                               behind % kTicketBlock;
        CHILD_REQUIRE(tickets[thread][i] == expected);
      }
    }
  });
  // Four blocks each; of the last one two tickets are spent, and the threads are gone.
  CHECK(ring.header.next_ticket == kFirstBlock + 8 * kTicketBlock);
  CHECK(ring.header.ticket_block == kTicketBlock);
  CHECK(ring.ops.size() == ring.header.next_ticket - 1 - 2 * (kTicketBlock - 2));
  CHECK(ring.stats.given_up == 0);
}

TEST_CASE("what is left of a block is given up when its thread comes back late") {
  const auto ring = record([] {
    Behind behind;
    behind.first = [] {
      CHILD_REQUIRE(open_block(0) == kFirstBlock + kTicketBlock);
      CHILD_REQUIRE(open_block(1) == kFirstBlock + 2 * kTicketBlock);
      advance_fake_clock(kBlockTicks - 1);
      CHILD_REQUIRE(call(0) == kFirstBlock + 3);
      advance_fake_clock(1);
      CHILD_REQUIRE(call(0) == kFirstBlock + 2 * kTicketBlock);
      CHILD_REQUIRE(open_block(0) == 0);
      CHILD_REQUIRE(call(0) == kFirstBlock + 2 * kTicketBlock + 1);
    };
    call_in_turns(kSingles + 3, behind);
    CHILD_REQUIRE(open_block(1) == kFirstBlock + 2 * kTicketBlock);
  });
  CHECK(ring.stats.given_up == kTicketBlock - 4);
  CHECK(ring.stats.stepped_over == 0);
  CHECK(ring.header.next_ticket == kFirstBlock + 2 * kTicketBlock + 2);
}

TEST_CASE("an event comes between the operations before and behind it on its thread") {
  const auto ring = record([] {
    Behind behind;
    behind.first = [] {
      capture::note_event({.kind = EventKind::CommAbort}, 0);
      CHILD_REQUIRE(call(0) == kFirstBlock + 2 * kTicketBlock);
    };
    call_in_turns(kSingles + 3, behind);
  });
  const EventRecord& abort = ring.events.rbegin()->second;
  CHECK(abort.op_ticket == kFirstBlock + 2 * kTicketBlock);
  CHECK(ring.stats.given_up == kTicketBlock - 3);
}

TEST_CASE("a thread that is left alone draws one ticket at a time again") {
  record([] {
    Behind behind;
    behind.first = [] {
      for (int i = 0; i < 3 * int{kTicketBlock}; ++i) call(0);
      const uint64_t before = load_relaxed(*capture::live.ops.next_ticket);
      CHILD_REQUIRE(call(0) == before);
      CHILD_REQUIRE(load_relaxed(*capture::live.ops.next_ticket) == before + 1);
      CHILD_REQUIRE(open_block(0) == 0);
    };
    call_in_turns(kSingles, behind);
  });
}

TEST_CASE("operations of a group are found among tickets of a block") {
  record([] {
    Behind behind;
    behind.first = [] {
      capture::hold_groups();
      const uint32_t group = capture::group_enter();
      capture::OpCall grouped = all_reduce(&comms[0], 77);
      grouped.group = group;
      const capture::OpToken inside = capture::begin_op(grouped);
      capture::end_op(inside, 0);
      capture::group_leave(nullptr);
      const capture::OpToken end = capture::begin_op({.kind = OpKind::GroupEnd, .group = group});
      const capture::OpToken found = capture::find_in_ended_group(
          {.kind = OpKind::AllReduce, .count = 77, .element_bytes = 4});
      CHILD_REQUIRE(inside.ticket == kFirstBlock + 3);
      CHILD_REQUIRE(found.ticket == inside.ticket);
      capture::end_op(end, 0);
    };
    call_in_turns(kSingles + 3, behind);
  });
}

TEST_CASE("a thread gives its block up where another one has used the communicator since") {
  const auto ring = record([] {
    Behind behind;
    behind.first = [] {
      // The other thread's block is the newer one: its communicator is ahead of what this one
      // holds.
      CHILD_REQUIRE(call(1) == kFirstBlock + 2 * kTicketBlock);
      CHILD_REQUIRE(open_block(0) == 0);
    };
    behind.second = [] {
      CHILD_REQUIRE(call(0) == kFirstBlock + kTicketBlock + 3);  // the newer block still
      CHILD_REQUIRE(call(1) == kFirstBlock + 2 * kTicketBlock + 1);
      CHILD_REQUIRE(open_block(1) == 0);
    };
    call_in_turns(kSingles + 3, behind);
  });
  CHECK(ring.stats.given_up == 2 * kTicketBlock - 3 - 4);
}

TEST_CASE("where the GPU is timed, threads in a rush draw one ticket at a time") {
  record([] {
    test::open_test_comm(&comms[0], 1);
    call(0);
    capture::ThreadState two[2];
    two[0].index = 0;
    two[1].index = 1;
    const auto rush = [&] {
      for (int n = 0; n < 100; ++n) capture::next_ticket(two[n % 2], 1'000'000, 0);
      return two[0].tickets.drawn;
    };
    capture::live.gpu.store(reinterpret_cast<gpu::Timer*>(two));  // not looked into here
    CHILD_REQUIRE(rush() == 1);
    capture::live.gpu.store(nullptr);
    CHILD_REQUIRE(rush() == kTicketBlock);
  });
}

TEST_CASE("threads that rush and give every block up draw few blocks") {
  constexpr int kRounds = 40'000;
  const auto ring = record([] {
    set_fake_clock(1'000'000, 0);
    test::open_test_comm(&comms[0], 1);
    std::atomic<int> turn{0};
    const auto body = [&](int own) {
      for (int round = 0; round < kRounds; ++round) {
        while (turn.load() % 2 != own) std::this_thread::yield();
        call(0);
        turn.fetch_add(1);
      }
    };
    std::thread first(body, 0), second(body, 1);
    first.join();
    second.join();
  });
  CHECK(ring.stats.given_up >= 2 * kTicketBlock);
  CHECK(ring.stats.given_up < 2 * kRounds / 100);
}

// Everything that a process left: what is in its ring, and in its segments.
std::map<uint64_t, OpRecord> all_records(const test::TemporaryDirectory& directory,
                                         const test::RingContents& ring) {
  std::map<uint64_t, OpRecord> ops = ring.ops;
  for (const std::string& path : directory.files(".segment")) {
    const auto segment = test::read_segment(path);
    CHECK(segment.duplicates == 0);
    for (const auto& [ticket, op] : segment.ops) ops.try_emplace(ticket, op);
  }
  return ops;
}

constexpr int kThreads = 4;
constexpr int kCallsPerThread = 40'000;
char own_comms[kThreads], shared_comm;

// Mostly on a communicator of its own; now and then on the one that all share, in turn, or an
// event.
void rush(int thread, std::mutex& shared) {
  for (int n = 0; n < kCallsPerThread; ++n) {
    if (n % 128 == 0) {
      CHILD_REQUIRE(test::wait_for([] {
        const FileHeader& header = *capture::live.header;
        return load_acquire(header.next_ticket) - load_acquire(header.flushed_ticket) < 4096;
      }));
    }
    if (n % 1000 == 999) capture::note_event({.kind = EventKind::CommAbort}, 0);
    const bool is_shared = n % 97 == 0;
    const std::unique_lock lock =
        is_shared ? std::unique_lock(shared) : std::unique_lock<std::mutex>();
    capture::end_op(capture::begin_op(all_reduce(is_shared ? &shared_comm : &own_comms[thread], 1)),
                    0);
  }
}

TEST_CASE("threads that really rush at once lose nothing, and communicators stay in order") {
  const test::TemporaryDirectory directory;
  REQUIRE(test::ended_well(test::in_own_process(directory.path(), [] {
    setenv("ROLLCALL_RING_SLOTS", "8192", 1);
    std::mutex shared;
    test::open_test_comm(&shared_comm, 100);
    for (int t = 0; t < kThreads; ++t)
      test::open_test_comm(&own_comms[t], static_cast<uint64_t>(t + 1));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(rush, t, std::ref(shared));
    for (std::thread& thread : threads) thread.join();
  })));
  const auto ring = test::read_ring(directory.files(".ring").at(0));
  const auto ops = all_records(directory, ring);
  CHECK(ops.size() == size_t{kThreads} * kCallsPerThread);
  if (ring.header.ticket_block == 0) WARN("the threads ran one by one here: no blocks were drawn");
  // A ticket whose slot another lap took while its thread slept was stepped over.
  CHECK(ring.stats.history_lost <= ring.stats.stepped_over);
  CHECK(ring.stats.late_overflow == 0);
  std::map<uint32_t, uint64_t> next_seq, called_ticks;
  for (const auto& [ticket, op] : ops) {
    CHECK(op.seq == next_seq[op.comm_index]++);
    CHECK(op.called_ticks >= called_ticks[op.thread_index]);
    called_ticks[op.thread_index] = op.called_ticks;
  }
  CHECK(next_seq.size() == kThreads + 1);
  const uint64_t unused = ring.header.next_ticket - 1 - ops.size();
  const uint64_t counted = ring.stats.given_up + ring.stats.stepped_over;
  CHECK(unused >= counted);
  CHECK(unused - counted <= uint64_t{kThreads} * (kTicketBlock - 1));
  CHECK(counted < ops.size() / 20);
}

TEST_CASE("a forked child draws from its own file") {
  const test::TemporaryDirectory directory;
  REQUIRE(test::ended_well(test::in_own_process(directory.path(), [] {
    Behind behind;
    behind.first = [] {
      const pid_t child = fork();
      if (child == 0) {
        capture::group_enter();
        CHILD_REQUIRE(capture::this_thread.group_first_ticket == 1);
        capture::group_leave(nullptr);
        CHILD_REQUIRE(call(0) == 1);
        CHILD_REQUIRE(call(0) == 2);
        CHILD_REQUIRE(load_relaxed(capture::live.stats->given_up) == 0);
        _exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      CHILD_REQUIRE(test::ended_well(status));
      CHILD_REQUIRE(call(0) == kFirstBlock + 3);
    };
    call_in_turns(kSingles + 3, behind);
  })));
}

}  // namespace tickets_test
}  // namespace rollcall
