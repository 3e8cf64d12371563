// How many of a thread's calls get their lines, by what reading them costs and by what it may cost.
#include "shim/frame_budget.h"

#include "tests/catch.h"

namespace rollcall::shim {
namespace {

constexpr uint32_t kPercent = 1;
constexpr uint64_t kReadTicks = 300;

// A thread with a clock of its own.
struct Thread {
  FrameBudget budget;
  uint64_t now_ticks = 1;
  uint32_t measured = 0;

  // Makes so many calls, each so long after the one before; returns how many of them have lines.
  uint32_t call(uint32_t calls, uint64_t apart_ticks, uint64_t read_ticks = kReadTicks) {
    uint32_t read = 0;
    for (uint32_t i = 0; i < calls; ++i) {
      now_ticks += apart_ticks;
      if (!budget.affords_next()) continue;
      ++read;
      now_ticks += read_ticks;
      const bool is_measured = budget.is_measured();
      measured += is_measured ? 1 : 0;
      budget.note_read(is_measured ? read_ticks : 0, kPercent, [this] { return now_ticks; });
    }
    return read;
  }
};

TEST_CASE("a thread whose lines cost less than the budget has them with every call") {
  Thread thread;
  CHECK(thread.call(100'000, 101 * kReadTicks) == 100'000);
  CHECK_FALSE(thread.budget.is_sampling());
  CHECK(thread.measured == 100'000 / FrameBudget::kMeasuredReads);
}

TEST_CASE("steps that issue a burst of calls and compute for long keep all lines") {
  Thread thread;
  for (int step = 0; step < 1000; ++step) {
    REQUIRE(thread.call(200, 2 * kReadTicks) == 200);
    thread.now_ticks += 200 * 100 * kReadTicks;
  }
}

TEST_CASE("a thread that only calls keeps the budget from its third window on") {
  Thread thread;
  thread.call(2 * FrameBudget::kWindowCalls, kReadTicks);
  const uint64_t begin_ticks = thread.now_ticks;
  const uint64_t read = thread.call(1'000'000, kReadTicks);
  CHECK(thread.budget.is_sampling());
  CHECK(read > 0);
  CHECK(read * kReadTicks * 100 <= (thread.now_ticks - begin_ticks) * kPercent);
}

TEST_CASE("a thread that becomes slower gets all of its lines back") {
  Thread thread;
  thread.call(10 * FrameBudget::kWindowCalls, kReadTicks);
  REQUIRE(thread.budget.is_sampling());
  thread.call(20 * FrameBudget::kWindowCalls, 1000 * kReadTicks);
  CHECK_FALSE(thread.budget.is_sampling());
  CHECK(thread.call(1000, 1000 * kReadTicks) == 1000);
}

TEST_CASE("a read during which the processor was away costs no lines") {
  const uint32_t away = GENERATE(0u, 1u, 100u);  // the measured read of the window
  Thread thread;
  thread.call(FrameBudget::kWindowCalls + away * FrameBudget::kMeasuredReads, 200 * kReadTicks);
  thread.call(1, 200 * kReadTicks, 400'000'000);
  CHECK(thread.call(4 * FrameBudget::kWindowCalls, 200 * kReadTicks) ==
        4 * FrameBudget::kWindowCalls);
}

}  // namespace
}  // namespace rollcall::shim
