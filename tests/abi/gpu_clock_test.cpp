// The distance between the clocks of host and GPU, as reports bound it.
#include "profiler_plugin/gpu_clock.h"

#include <algorithm>

#include "tests/catch.h"

namespace rollcall {
namespace gpu_clock_test {

using profiler::GpuClock;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kHostBegin = 500 * kSecond;

// The GPU's clock runs faster than the host's by so much.
uint64_t gpu_ns(uint64_t host_ns, int64_t parts_per_million) {
  const auto drift = static_cast<int64_t>(host_ns - kHostBegin) / 1'000'000 * parts_per_million;
  return host_ns - 300 * kSecond + static_cast<uint64_t>(drift);
}

TEST_CASE("the least late report tells the distance best") {
  GpuClock clock;
  clock.reset();
  CHECK(clock.host_ns_of(gpu_ns(kHostBegin, 0)) == 0);
  for (const uint64_t late_ns : {9'000, 2'000, 40'000}) {
    clock.hear(gpu_ns(kHostBegin, 0), kHostBegin + late_ns);
  }
  CHECK(clock.host_ns_of(gpu_ns(kHostBegin, 0)) == kHostBegin + 2'000);
  CHECK(clock.host_ns_of(gpu_ns(kHostBegin + kSecond, 0)) == kHostBegin + kSecond + 2'000);
}

TEST_CASE("when a window turns, what was heard in the last one still counts") {
  GpuClock clock;
  clock.reset();
  clock.hear(gpu_ns(kHostBegin, 0), kHostBegin + 1'000);
  const uint64_t later = kHostBegin + GpuClock::kWindowNs + kSecond;
  clock.hear(gpu_ns(later, 0), later + 700'000);
  CHECK(clock.host_ns_of(gpu_ns(later, 0)) == later + 1'000);
}

TEST_CASE("a GPU whose clock was set anew is told right, in either direction") {
  GpuClock clock;
  clock.reset();
  clock.hear(10 * kSecond, kHostBegin);
  clock.hear(900 * kSecond, kHostBegin + 3 * kSecond);  // ahead of the host
  CHECK(clock.host_ns_of(900 * kSecond) == kHostBegin + 3 * kSecond);
}

TEST_CASE("over a day clocks that drift apart stay within the drift of two windows") {
  for (const int64_t parts_per_million : {-50, 50}) {
    INFO(parts_per_million << " parts per million");
    GpuClock clock;
    clock.reset();
    constexpr uint64_t kLateNs = 3'000;
    int64_t worst_early = 0, worst_late = 0;
    for (uint64_t host_ns = kHostBegin; host_ns < kHostBegin + 86'400 * kSecond;
         host_ns += kSecond / 4) {
      clock.hear(gpu_ns(host_ns, parts_per_million), host_ns + kLateNs);
      const auto error =
          static_cast<int64_t>(clock.host_ns_of(gpu_ns(host_ns, parts_per_million)) - host_ns);
      worst_early = std::min(worst_early, error);
      worst_late = std::max(worst_late, error);
    }
    // 50 ns in a millisecond, over two windows.
    const auto drift = static_cast<int64_t>(2 * GpuClock::kWindowNs / 1'000'000 * 50);
    CHECK(worst_early >= -drift);
    CHECK(worst_late <= drift + static_cast<int64_t>(kLateNs));
  }
}

TEST_CASE("what was heard before a long silence tells nothing any more") {
  GpuClock clock;
  clock.reset();
  clock.hear(gpu_ns(kHostBegin, 0), kHostBegin);
  const uint64_t later = kHostBegin + 3'600 * kSecond;
  clock.hear(gpu_ns(later, -50), later + 5'000);
  CHECK(clock.host_ns_of(gpu_ns(later, -50)) == later + 5'000);
}

}  // namespace gpu_clock_test
}  // namespace rollcall
