#include "core/base/clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>
#endif

namespace rollcall {

namespace clock_detail {
constinit Source source = Source::monotonic;
}

namespace {

using clock_detail::Source;

constinit std::atomic<uint64_t> fake_ticks{0};
constinit std::atomic<uint64_t> fake_step_ticks{0};
constinit std::atomic<bool> detected{false};

// The kernel's clocks without a system call read the TSC, too.
constinit std::atomic<bool> tsc_is_forbidden{false};

uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  if (__builtin_expect(tsc_is_forbidden.load(std::memory_order_relaxed), 0)) {
    syscall(SYS_clock_gettime, clock, &now);
  } else {
    clock_gettime(clock, &now);
  }
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

#if defined(__x86_64__)
// A process may have forbidden its threads to read the TSC (PR_SET_TSC): the instruction is SIGSEGV
// then. Nothing tells of one that does so later.
bool may_read_tsc() noexcept {
  int mode = PR_TSC_ENABLE;
  return prctl(PR_GET_TSC, &mode) != 0 || mode == PR_TSC_ENABLE;
}
#endif

Source best_source() noexcept {
#if defined(__x86_64__)
  tsc_is_forbidden.store(!may_read_tsc(), std::memory_order_relaxed);
  if (tsc_is_forbidden.load(std::memory_order_relaxed)) return Source::monotonic;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool has_leaf = __get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) != 0;
  return clock_detail::source_for(has_leaf, edx);
#else
  return Source::monotonic;
#endif
}

}  // namespace

uint64_t clock_detail::slow_ticks() noexcept {
  if (source == Source::fake) {
    const uint64_t step = fake_step_ticks.load(std::memory_order_relaxed);
    return fake_ticks.fetch_add(step, std::memory_order_relaxed);
  }
  return clock_ns(CLOCK_MONOTONIC);
}

ClockKind detect_clock() noexcept {
  if (clock_detail::source == Source::fake) return clock_kind();
  // A forked child may have forbidden itself since what its parent did.
  const bool is_first = !detected.exchange(true, std::memory_order_acq_rel);
  if (is_first || clock_kind() == ClockKind::tsc) clock_detail::source = best_source();
  return clock_kind();
}

ClockKind clock_kind() noexcept {
  return clock_detail::source == Source::tsc ? ClockKind::tsc : ClockKind::monotonic;
}

uint64_t monotonic_now_ns() noexcept {
  if (clock_detail::source == Source::fake) return fake_ticks.load(std::memory_order_relaxed);
  return clock_ns(CLOCK_MONOTONIC);
}

ClockAnchor read_anchor() noexcept {
  if (clock_detail::source == Source::fake) {
    const uint64_t now = fake_ticks.load(std::memory_order_relaxed);
    return {.ticks = now, .monotonic_ns = now, .realtime_ns = kFakeEpochNs + now, .error_ns = 0};
  }
  ClockAnchor best{};
  best.error_ns = UINT64_MAX;
  // A thread can be descheduled between two reads; of four attempts the tightest is taken.
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t before = clock_ns(CLOCK_MONOTONIC);
    const uint64_t ticks_before = ticks_now();
    const uint64_t realtime = clock_ns(CLOCK_REALTIME);
    const uint64_t ticks_after = ticks_now();
    const uint64_t after = clock_ns(CLOCK_MONOTONIC);
    if (after - before >= best.error_ns) continue;
    best.ticks = ticks_before + (ticks_after - ticks_before) / 2;
    best.monotonic_ns = before + (after - before) / 2;
    best.realtime_ns = realtime;
    best.error_ns = after - before;
  }
  return best;
}

void set_fake_clock(uint64_t first_ticks, uint64_t step_ticks) noexcept {
  fake_ticks.store(first_ticks, std::memory_order_relaxed);
  fake_step_ticks.store(step_ticks, std::memory_order_relaxed);
  clock_detail::source = Source::fake;
}

void advance_fake_clock(uint64_t ticks) noexcept {
  fake_ticks.fetch_add(ticks, std::memory_order_relaxed);
}

void clear_fake_clock() noexcept { clock_detail::source = best_source(); }

TickConversion::TickConversion(ClockKind kind, const ClockAnchor& first,
                               const ClockAnchor& latest) noexcept
    : anchor_(latest.ticks != 0 ? latest : first) {
  if (kind == ClockKind::monotonic) {
    calibrated_ = true;  // a tick is a nanosecond by definition
    return;
  }
  if (latest.ticks <= first.ticks || latest.monotonic_ns <= first.monotonic_ns) return;
  rate_ns_ = latest.monotonic_ns - first.monotonic_ns;
  rate_ticks_ = latest.ticks - first.ticks;
  calibrated_ = true;
}

uint64_t TickConversion::span_ns(uint64_t ticks) const noexcept {
  const auto scaled = static_cast<unsigned __int128>(ticks) * rate_ns_ / rate_ticks_;
  return scaled > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(scaled);
}

int64_t TickConversion::realtime_ns(uint64_t ticks) const noexcept {
  const bool later = ticks >= anchor_.ticks;
  const uint64_t distance_ns = span_ns(later ? ticks - anchor_.ticks : anchor_.ticks - ticks);
  const auto base = static_cast<__int128>(anchor_.realtime_ns);
  const __int128 time = later ? base + distance_ns : base - distance_ns;
  if (time < 0) return 0;
  return time > INT64_MAX ? INT64_MAX : static_cast<int64_t>(time);
}

double TickConversion::ticks_per_ns() const noexcept {
  return static_cast<double>(rate_ticks_) / static_cast<double>(rate_ns_);
}

}  // namespace rollcall
