// Which of a thread's calls get the lines of Python that issued them, so that reading these takes
// no more than the overhead budget: at first each one, then, where a thread issues so fast that it
// would cost more, every 2nd, 4th, ...
//
// A window is kWindowCalls calls long: a training step that issues some hundred calls at once and
// computes for long in between is judged as a whole, and keeps all of its lines. A job that never
// computes is over the budget for one window only.
//
// Threads: one per thread, no other touches it. Constant-initialised, for it is thread-local.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rollcall::shim {

class FrameBudget {
 public:
  static constexpr uint32_t kWindowCalls = 4096;
  static constexpr uint32_t kMeasuredReads =
      16;                                      // every 16th read is timed, and stands for as many
  static constexpr uint8_t kSkipShiftMax = 7;  // then two reads of a window are timed

  // Whether the next call's lines are read. Otherwise the call has none.
  bool affords_next() noexcept {
    return skip_shift_ == 0 || (++calls_ & ((1u << skip_shift_) - 1)) == 0;
  }
  bool is_measured() const noexcept { return reads_ % kMeasuredReads == 0; }
  bool is_sampling() const noexcept { return skip_shift_ != 0; }

  // A read is done. `cost_ticks`: what it took, where it was measured. `now_ticks` is asked for at
  // the end of a window.
  template <typename Clock>
  void note_read(uint64_t cost_ticks, uint32_t percent, Clock&& now_ticks) noexcept {
    if (cost_ticks != 0) add_cost(cost_ticks);
    if (++reads_ < kWindowCalls >> skip_shift_) return;
    const uint64_t now = now_ticks();
    // The first window has no begin: its reads found the caches cold, too.
    if (window_ticks_ != 0) adapt(now - window_ticks_, percent);
    reads_ = 0;
    first_ticks_ = spent_ticks_ = cheapest_ticks_ = 0;
    window_ticks_ = now;
  }

 private:
  // The first of a window waits for others to be compared with.
  void add_cost(uint64_t cost_ticks) noexcept {
    if (first_ticks_ == 0) {
      first_ticks_ = cheapest_ticks_ = cost_ticks;
      return;
    }
    cheapest_ticks_ = std::min(cheapest_ticks_, cost_ticks);
    spent_ticks_ += own_ticks(cost_ticks) * kMeasuredReads;
  }
  // A read that took much longer than the others did not take it itself: the processor was away.
  uint64_t own_ticks(uint64_t cost_ticks) const noexcept {
    return std::min(cost_ticks, cheapest_ticks_ * 8);
  }

  void adapt(uint64_t passed_ticks, uint32_t percent) noexcept {
    const uint64_t spent_ticks = spent_ticks_ + own_ticks(first_ticks_) * kMeasuredReads;
    const double spent = static_cast<double>(spent_ticks) * 100;
    double affordable = static_cast<double>(passed_ticks) * percent;
    if (spent * 4 < affordable && skip_shift_ != 0) --skip_shift_;
    for (; spent > affordable && skip_shift_ < kSkipShiftMax; affordable *= 2) ++skip_shift_;
  }

  uint64_t window_ticks_ = 0;
  // Of this window.
  uint64_t first_ticks_ = 0;     // the first read that was measured
  uint64_t spent_ticks_ = 0;     // in the others, and in those that they stand for
  uint64_t cheapest_ticks_ = 0;  // of those that were measured
  uint32_t calls_ = 0;
  uint32_t reads_ = 0;  // in this window
  uint8_t skip_shift_ = 0;
};

}  // namespace rollcall::shim
