#include "core/capture/last_round.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/keep_errno.h"

namespace rollcall::capture {

namespace {

constexpr uint64_t kPatienceNs = 2'000'000'000;

// Never a test's: whoever waits is to be let go. By a system call: without one the TSC would be
// read, which the job may have forbidden.
uint64_t now_ns() noexcept {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// A futex: its wait counts by CLOCK_MONOTONIC, and neither side allocates or takes a lock, wherever
// in the process exit() was called.
void wait_while(const std::atomic<uint32_t>& word, uint32_t value, uint64_t ns) noexcept {
  const timespec span{.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
                      .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
  const KeepErrno keep;
  if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &span, nullptr, 0) == 0) return;
  if (errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR) return;
  // A filter of system calls refuses it: not to wait at all would take a processor for good.
  poll(nullptr, 0, static_cast<int>(ns / 1'000'000));
}

void wake(const std::atomic<uint32_t>& word) noexcept {
  const KeepErrno keep;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

}  // namespace

bool LastRound::sleep(uint32_t period_ms) noexcept {
  const uint32_t served = served_.load(std::memory_order_relaxed);
  if (asked_.load(std::memory_order_acquire) == served) {
    wait_while(asked_, served, uint64_t{period_ms} * 1'000'000);
  }
  serving_ = asked_.load(std::memory_order_acquire);
  return serving_ != served;
}

void LastRound::served() noexcept {
  served_.store(serving_, std::memory_order_release);
  wake(served_);
}

// Sequentially consistent, as in ask(): either the worker sees that it was asked, or the one that
// asks sees that it has left.
void LastRound::leave() noexcept {
  has_left_.store(true);
  serving_ = asked_.load();
  served();
}

// Store by store: to ThreadSanitizer a child made behind the C library's back is the parent.
void LastRound::forget() noexcept {
  asked_.store(0);
  served_.store(0);
  has_left_.store(false);
}

bool LastRound::ask() noexcept {
  const uint32_t mine = asked_.fetch_add(1) + 1;
  if (has_left_.load()) return false;
  wake(asked_);
  const uint64_t until_ns = now_ns() + kPatienceNs;
  for (;;) {
    const uint32_t served = served_.load(std::memory_order_acquire);
    if (static_cast<int32_t>(served - mine) >= 0) return true;
    const uint64_t at_ns = now_ns();
    if (at_ns >= until_ns) return false;
    wait_while(served_, served, until_ns - at_ns);
  }
}

}  // namespace rollcall::capture
