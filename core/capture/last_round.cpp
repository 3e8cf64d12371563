#include "core/capture/last_round.h"

#include "core/capture/futex.h"

namespace rollcall::capture {

namespace {

constexpr uint64_t kPatienceNs = 2'000'000'000;

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
  const uint64_t until_ns = waiting_now_ns() + kPatienceNs;
  for (;;) {
    const uint32_t served = served_.load(std::memory_order_acquire);
    if (static_cast<int32_t>(served - mine) >= 0) return true;
    const uint64_t at_ns = waiting_now_ns();
    if (at_ns >= until_ns) return false;
    wait_while(served_, served, until_ns - at_ns);
  }
}

}  // namespace rollcall::capture
