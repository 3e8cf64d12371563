// The distance between the host's clock and a GPU's (%globaltimer), of which nobody tells. A time
// of the GPU is heard of after it was read: host minus GPU, then, is not less than the distance,
// and the least of some seconds exceeds it by microseconds.
//
// Only of some seconds: neither clock follows the other. At 50 parts per million, which is what NTP
// may slew the host's clock by, a day moves them apart by four seconds.
//
// Threads: any number of all functions but reset(), which is called before them.
#pragma once

#include <atomic>
#include <cstdint>

namespace rollcall::profiler {

class GpuClock {
 public:
  // What is looked back on is one to two of these, in which the clocks drift by 0.2 ms at most.
  static constexpr uint64_t kWindowNs = 2'000'000'000;

  void reset() noexcept;
  // `gpu_ns` is heard of at `host_ns` of CLOCK_MONOTONIC.
  void hear(uint64_t gpu_ns, uint64_t host_ns) noexcept;
  // On the host's clock, and not before the truth by more than the drift; 0: nothing was heard yet.
  uint64_t host_ns_of(uint64_t gpu_ns) const noexcept;

 private:
  static constexpr int64_t kUnknown = INT64_MAX;

  // Zero before reset(): so are the tables that these are in.
  std::atomic<uint64_t> window_start_ns_;
  std::atomic<int64_t> least_ns_;         // in this window
  std::atomic<int64_t> least_before_ns_;  // in the one before it
};

}  // namespace rollcall::profiler
