// When to try again what the disk refused: soon at first, ever more rarely while it keeps failing,
// at once after it worked.
//
// Threads: one at a time, as the flusher's passes.
#pragma once

#include <cstdint>

namespace rollcall::capture {

class BackOff {
 public:
  static constexpr uint64_t kFirstNs = 100'000'000;
  // A disk that was full for an hour is found free again within half a minute.
  static constexpr uint64_t kMaxNs = 30'000'000'000;

  bool may_try(uint64_t now_ns) const noexcept { return now_ns >= next_ns_; }
  void failed(uint64_t now_ns) noexcept {
    next_ns_ = now_ns + wait_ns_;
    wait_ns_ = wait_ns_ > kMaxNs / 2 ? kMaxNs : wait_ns_ * 2;
  }
  void succeeded() noexcept { *this = BackOff{}; }

 private:
  uint64_t next_ns_ = 0;
  uint64_t wait_ns_ = kFirstNs;
};

}  // namespace rollcall::capture
