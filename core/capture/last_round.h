// The last round of a background thread's work, for the thread that ends the process.
//
// A disk or a driver that does not answer holds up whoever asks it. So the exiting thread asks
// neither of them itself: it leaves that to the thread whose business it is, and waits no longer
// than an exit may be delayed.
#pragma once

#include <atomic>
#include <cstdint>

namespace rollcall::capture {

class LastRound {
 public:
  // The worker, between two rounds: waits so long, or less, or until it is asked. True when it was
  // asked; served() follows the round.
  bool sleep(uint32_t period_ms) noexcept;
  void served() noexcept;
  // The worker ends: who asks, or asked, is let go.
  void leave() noexcept;

  // In a forked child, where the worker is the parent's.
  void forget() noexcept;

  // The exiting thread. False when the worker has not served it after two seconds, or has ended.
  bool ask() noexcept;

 private:
  std::atomic<uint32_t> asked_{0};
  std::atomic<uint32_t> served_{0};
  std::atomic<bool> has_left_{false};
  uint32_t serving_ = 0;  // the worker's; set in sleep()
};

}  // namespace rollcall::capture
