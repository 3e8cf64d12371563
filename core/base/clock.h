// The clock of a process: ticks, and how they become times.
//
// A record needs two times and may cost two reads of a counter, no more: CLOCK_MONOTONIC through
// the vDSO costs as much as the whole record. So ticks are the TSC where CPUID says that it runs at
// one rate in every power state, and CLOCK_MONOTONIC nanoseconds elsewhere. What a tick means is
// never calibrated by waiting: anchors (the same instant on three clocks) are stored in the file,
// and whoever reads it converts with them.
//
// Threads: detect_clock() first, by one thread; everything else from any thread.
#pragma once

#include <cstdint>

#include "core/base/clock_anchor.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rollcall {

namespace clock_detail {
// Hidden and constant-initialised: one load relative to the instruction pointer.
enum class Source : uint32_t { monotonic = 0, tsc = 1, fake = 2 };
extern Source source;  // NOLINT(bugprone-dynamic-static-initializers): constinit
uint64_t slow_ticks() noexcept;
// By CPUID leaf 0x80000007, where there is one: EDX bit 8 says that the TSC runs at one rate in all
// P-, C- and T-states. Hypervisors that migrate between machines clear it, and then it must not be
// used.
constexpr Source source_for(bool has_leaf, uint32_t edx) noexcept {
  return has_leaf && (edx & (1u << 8)) != 0 ? Source::tsc : Source::monotonic;
}
}  // namespace clock_detail

// Chooses the source; returns its kind. Keeps a fake clock. Not while another thread records.
ClockKind detect_clock() noexcept;
ClockKind clock_kind() noexcept;

inline uint64_t ticks_now() noexcept {
#if defined(__x86_64__)
  if (__builtin_expect(clock_detail::source == clock_detail::Source::tsc, 1)) return __rdtsc();
#endif
  return clock_detail::slow_ticks();
}

uint64_t monotonic_now_ns() noexcept;

// The three clocks read as close together as a few attempts allow.
ClockAnchor read_anchor() noexcept;

// For tests: from now on ticks_now() returns `first_ticks`, then `step_ticks` more at each call.
// Anchors take a tick for a nanosecond and start the epoch at kFakeEpochNs. Not while another
// thread records.
inline constexpr uint64_t kFakeEpochNs = 1'700'000'000'000'000'000;
void set_fake_clock(uint64_t first_ticks, uint64_t step_ticks) noexcept;
void advance_fake_clock(uint64_t ticks) noexcept;
void clear_fake_clock() noexcept;

// Ticks to nanoseconds, from two anchors of one process. The rate comes from the monotonic clock,
// which is never stepped; the epoch from the later anchor, which a job's administrator has had the
// most time to correct.
class TickConversion {
 public:
  // Equal ticks in both anchors, or anchors that go backwards, leave a conversion that takes a tick
  // for a nanosecond and says so through is_calibrated().
  TickConversion(ClockKind kind, const ClockAnchor& first, const ClockAnchor& latest) noexcept;
  // Nanoseconds since the epoch; saturates instead of wrapping on ticks that no sane file has.
  int64_t realtime_ns(uint64_t ticks) const noexcept;
  // Length of a span of ticks.
  uint64_t span_ns(uint64_t ticks) const noexcept;
  bool is_calibrated() const noexcept { return calibrated_; }
  // Ticks in one nanosecond, for choosing a unit.
  double ticks_per_ns() const noexcept;

 private:
  ClockAnchor anchor_;
  uint64_t rate_ns_ = 1;     // nanoseconds ...
  uint64_t rate_ticks_ = 1;  // ... in so many ticks
  bool calibrated_ = false;
};

}  // namespace rollcall
