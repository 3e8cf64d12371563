// Waiting for a word that another thread of the process changes: counts by CLOCK_MONOTONIC, and
// neither side allocates or takes a lock, wherever in the process it is called. errno is kept.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>

#include "core/base/keep_errno.h"

namespace rollcall::capture {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

inline constexpr uint64_t kNoTimeout = UINT64_MAX;
inline constexpr uint64_t kPollNsMax = 1'000'000'000;

// May return early, without reason.
inline void wait_while(const std::atomic<uint32_t>& word, uint32_t value, uint64_t ns) noexcept {
  const timespec span{.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
                      .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
  const KeepErrno keep;
  if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, ns != kNoTimeout ? &span : nullptr,
              nullptr, 0) == 0) {
    return;
  }
  if (errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR) return;
  // A filter of system calls refuses it: not to wait at all would take a processor for good.
  poll(nullptr, 0, static_cast<int>(std::min(ns, kPollNsMax) / 1'000'000));
}

inline void wake(const std::atomic<uint32_t>& word) noexcept {
  const KeepErrno keep;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Never a test's clock: whoever waits is to be let go. By a system call: without one the TSC would
// be read, which the job may have forbidden.
inline uint64_t waiting_now_ns() noexcept {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace rollcall::capture
