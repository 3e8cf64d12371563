#include "profiler_plugin/gpu_clock.h"

#include <algorithm>

namespace rollcall::profiler {

void GpuClock::reset() noexcept {
  window_start_ns_.store(0, std::memory_order_relaxed);
  least_ns_.store(kUnknown, std::memory_order_relaxed);
  least_before_ns_.store(kUnknown, std::memory_order_relaxed);
}

void GpuClock::hear(uint64_t gpu_ns, uint64_t host_ns) noexcept {
  const auto distance_ns = static_cast<int64_t>(host_ns - gpu_ns);
  uint64_t start_ns = window_start_ns_.load(std::memory_order_relaxed);
  const uint64_t age_ns = host_ns - std::min(start_ns, host_ns);
  // Of several threads one turns the window; what the others add meanwhile is true in either.
  if (age_ns >= kWindowNs && window_start_ns_.compare_exchange_strong(start_ns, host_ns)) {
    const bool is_recent = age_ns < 2 * kWindowNs;
    least_before_ns_.store(is_recent ? least_ns_.load(std::memory_order_relaxed) : kUnknown,
                           std::memory_order_relaxed);
    least_ns_.store(distance_ns, std::memory_order_relaxed);
    return;
  }
  int64_t least_ns = least_ns_.load(std::memory_order_relaxed);
  while (distance_ns < least_ns && !least_ns_.compare_exchange_weak(least_ns, distance_ns)) {
  }
}

uint64_t GpuClock::host_ns_of(uint64_t gpu_ns) const noexcept {
  const int64_t least_ns = std::min(least_ns_.load(std::memory_order_relaxed),
                                    least_before_ns_.load(std::memory_order_relaxed));
  return least_ns == kUnknown ? 0 : gpu_ns + static_cast<uint64_t>(least_ns);
}

}  // namespace rollcall::profiler
