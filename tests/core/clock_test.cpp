#include "core/base/clock.h"

#include <time.h>

#include "tests/catch.h"

namespace rollcall {
namespace {

TEST_CASE("two anchors turn ticks into times between, before and after them") {
  const ClockAnchor first{
      .ticks = 1000, .monotonic_ns = 500, .realtime_ns = 1'000'000, .error_ns = 0};
  const ClockAnchor latest{
      .ticks = 3000, .monotonic_ns = 1500, .realtime_ns = 1'001'000, .error_ns = 0};
  const TickConversion conversion(ClockKind::tsc, first, latest);
  REQUIRE(conversion.is_calibrated());
  CHECK(conversion.realtime_ns(3000) == 1'001'000);
  CHECK(conversion.realtime_ns(2000) == 1'000'500);
  CHECK(conversion.realtime_ns(5000) == 1'002'000);
  CHECK(conversion.span_ns(400) == 200);
}

TEST_CASE("a step of the wall clock moves the epoch and not the rate") {
  const ClockAnchor first{
      .ticks = 0, .monotonic_ns = 0, .realtime_ns = 5'000'000'000, .error_ns = 0};
  const ClockAnchor latest{
      .ticks = 2000, .monotonic_ns = 1000, .realtime_ns = 9'000'000'000, .error_ns = 0};
  const TickConversion conversion(ClockKind::tsc, first, latest);
  CHECK(conversion.span_ns(2000) == 1000);
  CHECK(conversion.realtime_ns(1000) == 8'999'999'500);
}

TEST_CASE("Hostile: anchors that stand still or go backwards do not divide by zero") {
  const ClockAnchor one{.ticks = 10, .monotonic_ns = 10, .realtime_ns = 10, .error_ns = 0};
  const ClockAnchor zero{};
  for (const auto& [first, latest] : {std::pair{one, one}, std::pair{one, zero}}) {
    const TickConversion conversion(ClockKind::tsc, first, latest);
    CHECK_FALSE(conversion.is_calibrated());
    CHECK(conversion.realtime_ns(20) == 20);
    CHECK(conversion.realtime_ns(UINT64_MAX) == INT64_MAX);
  }
}

TEST_CASE("the TSC is read only where the processor says that it runs at one rate") {
  using clock_detail::Source;
  constexpr uint32_t kInvariant = 1u << 8;
  CHECK(clock_detail::source_for(true, kInvariant) == Source::tsc);
  CHECK(clock_detail::source_for(true, ~uint32_t{0}) == Source::tsc);
  CHECK(clock_detail::source_for(true, ~kInvariant) == Source::monotonic);
  CHECK(clock_detail::source_for(true, 0) == Source::monotonic);
  CHECK(clock_detail::source_for(false, kInvariant) == Source::monotonic);
}

TEST_CASE("without the TSC a tick is a nanosecond of the system's monotonic clock") {
  clear_fake_clock();
  detect_clock();
  const clock_detail::Source best = clock_detail::source;
  clock_detail::source = clock_detail::Source::monotonic;
  CHECK(clock_kind() == ClockKind::monotonic);
  CHECK(detect_clock() == ClockKind::monotonic);
  const uint64_t before_ns = monotonic_now_ns();
  const uint64_t ticks = ticks_now();
  CHECK(ticks >= before_ns);
  CHECK(ticks <= monotonic_now_ns());
  clock_detail::source = best;
  CHECK((clock_kind() == ClockKind::tsc) == (best == clock_detail::Source::tsc));
}

TEST_CASE("the real clock agrees with the system's over a short span") {
  clear_fake_clock();
  detect_clock();
  const ClockAnchor first = read_anchor();
  while (monotonic_now_ns() < first.monotonic_ns + 20'000'000) {
  }
  const ClockAnchor latest = read_anchor();
  const TickConversion conversion(clock_kind(), first, latest);
  REQUIRE(conversion.is_calibrated());
  // Between two looks at the ticks, however far apart a busy machine makes them.
  timespec now{};
  const uint64_t before = ticks_now();
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t behind = ticks_now();
  const int64_t expected = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  CHECK(conversion.realtime_ns(before) < expected + 50'000'000);
  CHECK(conversion.realtime_ns(behind) > expected - 50'000'000);
}

TEST_CASE("a fake clock stands still, steps and is turned by hand") {
  set_fake_clock(100, 5);
  CHECK(ticks_now() == 100);
  CHECK(ticks_now() == 105);
  advance_fake_clock(1000);
  CHECK(ticks_now() == 1110);
  CHECK(read_anchor().realtime_ns == kFakeEpochNs + 1115);
  set_fake_clock(7, 0);
  CHECK(ticks_now() == 7);
  CHECK(ticks_now() == 7);
  clear_fake_clock();
}

}  // namespace
}  // namespace rollcall
