// How threads draw the tickets of their operations: under a clock that stands still unless told, so
// that what is a rush does not depend on the machine.
#include "core/capture/tickets.h"

#include <array>
#include <atomic>
#include <thread>

#include "core/base/clock.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace {

using capture::kBlockTicks;
using capture::kRushesBeforeBlock;
using test::all_reduce;

char comms[2];

uint64_t call(int thread) {
  const capture::OpToken token = capture::begin_op(all_reduce(&comms[thread], 1));
  capture::end_op(token, 0);
  return token.ticket;
}

constexpr int kSingles = kRushesBeforeBlock + 1;  // the first draw is never in a rush
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
  CHECK(ring.stats.stepped_over == 0);
}

TEST_CASE("threads that take turns without a rush draw one ticket at a time") {
  const auto ring = record([] {
    const auto tickets = call_in_turns(50, {}, capture::kRushTicks);
    for (uint64_t i = 0; i < 50; ++i) {
      CHILD_REQUIRE(tickets[0][i] == 2 * i + 1 && tickets[1][i] == 2 * i + 2);
    }
  });
  CHECK(ring.header.next_ticket == 101);
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
  CHECK(ring.ops.size() == ring.header.next_ticket - 1 - 2 * 14);
  CHECK(ring.stats.stepped_over == 0);
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
  CHECK(ring.stats.stepped_over == kTicketBlock - 4);
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
  CHECK(ring.stats.stepped_over == kTicketBlock - 3);
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
      const capture::OpToken found =
          capture::find_in_ended_group({.kind = OpKind::AllReduce, .bytes = 77 * 4});
      CHILD_REQUIRE(inside.ticket == kFirstBlock + 3);
      CHILD_REQUIRE(found.ticket == inside.ticket);
      capture::end_op(end, 0);
    };
    call_in_turns(kSingles + 3, behind);
  });
}

TEST_CASE("a forked child draws from its own file") {
  const test::TemporaryDirectory directory;
  REQUIRE(test::ended_well(test::in_own_process(directory.path(), [] {
    Behind behind;
    behind.first = [] {
      const pid_t child = fork();
      if (child == 0) {
        CHILD_REQUIRE(call(0) == 1);
        CHILD_REQUIRE(call(0) == 2);
        CHILD_REQUIRE(load_relaxed(capture::live.stats->stepped_over) == 0);
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

}  // namespace
}  // namespace rollcall
