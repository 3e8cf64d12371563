// Events: where the GPU's clock stands on ours, and when an event happened.
#include <algorithm>

#include "core/base/clock.h"
#include "core/gpu/events.h"

namespace rollcall::gpu {

namespace {

constexpr uint32_t kProbeQueries = 64;
constexpr double kProbePeriodNs = 1e9;
// Oscillators of a host and a GPU differ by less.
constexpr double kDriftMax = 50e-6;

// Ticks and a signed distance from them, never before 0.
uint64_t shifted(uint64_t ticks, double by) noexcept {
  const double there = static_cast<double>(ticks) + by;
  if (there <= 0) return 0;
  // The sum in integers: a double does not hold all digits of a tick count.
  const auto distance = static_cast<int64_t>(by);
  return ticks + static_cast<uint64_t>(distance);
}

}  // namespace

// One event in a while on an idle stream of our own: it lies between the two readings of the clock
// around it. A GPU that is too busy to answer at once makes the interval longer, no more.
void Events::probe(Context& context, double ticks_per_ns) noexcept {
  uint32_t queries = 1;
  if (context.probe_before_ticks == 0) {
    const bool is_fresh = context.reference.event != nullptr &&
                          static_cast<double>(ticks_now() - context.reference.latest_ticks) <
                              kProbePeriodNs * ticks_per_ns;
    if (is_fresh) return;
    if (context.probe_stream == nullptr &&
        ask<&Driver::stream_create>(&context.probe_stream, kNonBlockingStream) != kSuccess) {
      context.probe_stream = nullptr;
      return;
    }
    if (context.probe == nullptr && ask<&Driver::event_create>(&context.probe, 0) != kSuccess) {
      context.probe = nullptr;
      return;
    }
    const uint64_t before = ticks_now();
    if (ask<&Driver::event_record>(context.probe, context.probe_stream) != kSuccess) return;
    context.probe_before_ticks = before;
    queries = kProbeQueries;
  }
  for (uint32_t i = 0; i < queries; ++i) {
    if (ask<&Driver::event_query>(context.probe) != kSuccess) continue;
    take_reference(context, context.probe_before_ticks, ticks_now(), ticks_per_ns);
    context.probe_before_ticks = 0;
    return;
  }
}

void Events::take_reference(Context& context, uint64_t before, uint64_t after,
                            double ticks_per_ns) noexcept {
  const Reference old = context.reference;
  Reference fresh{context.probe, before, after};
  float milliseconds = 0;
  if (old.event != nullptr &&
      ask<&Driver::event_elapsed>(&milliseconds, old.event, fresh.event) == kSuccess) {
    const double apart = static_cast<double>(milliseconds) * 1e6 * ticks_per_ns;
    const double drift = std::max(apart, 0.0) * kDriftMax;
    const uint64_t earliest = std::max(before, shifted(old.earliest_ticks, apart - drift));
    const uint64_t latest = std::min(after, shifted(old.latest_ticks, apart + drift));
    if (earliest <= latest) fresh = {context.probe, earliest, latest};
  }
  context.reference = fresh;
  context.probe = old.event;
}

// When an event that is done happened, given that it did in [earliest, latest]; what this says of
// the reference is kept.
uint64_t Events::time_of(Context& context, Event event, uint64_t earliest, uint64_t latest,
                         double ticks_per_ns) noexcept {
  earliest = std::min(earliest, latest);  // it may have been read from a record
  Reference& reference = context.reference;
  float milliseconds = 0;
  if (reference.event == nullptr ||
      ask<&Driver::event_elapsed>(&milliseconds, reference.event, event) != kSuccess) {
    return latest;
  }
  const double apart = static_cast<double>(milliseconds) * 1e6 * ticks_per_ns;
  const uint64_t low = std::max(reference.earliest_ticks, shifted(earliest, -apart));
  const uint64_t high = std::min(reference.latest_ticks, shifted(latest, -apart));
  if (low <= high) {
    reference.earliest_ticks = low;
    reference.latest_ticks = high;
  }
  const uint64_t middle =
      reference.earliest_ticks + (reference.latest_ticks - reference.earliest_ticks) / 2;
  return std::clamp(shifted(middle, apart), earliest, latest);
}

}  // namespace rollcall::gpu
