#include "profiler_plugin/kernels.h"

#include "core/base/clock.h"
#include "profiler_plugin/operations.h"
#include "profiler_plugin/phases.h"

namespace rollcall::profiler {
namespace {

uint64_t bit_of(uint8_t channel) noexcept { return uint64_t{1} << (channel % kKernelChannels); }

template <class T, class Better>
void improve(std::atomic<T>& value, T candidate, Better&& better) noexcept {
  T seen = value.load(std::memory_order_relaxed);
  while (better(candidate, seen) &&
         !value.compare_exchange_weak(seen, candidate, std::memory_order_relaxed)) {
  }
}

bool is_of_recv(const OpPlace& place, uint64_t turn) noexcept {
  const capture::OpToken token = token_of(place, turn);
  return token.record != nullptr && token.record->kind == OpKind::Recv;
}

bool is_plausible(Context& context, const OpPlace& place, uint64_t turn, uint8_t channel,
                  uint64_t timer_ns) noexcept {
  if (context.kernels_untold.load(std::memory_order_relaxed) != 0) return false;
  const uint64_t number = place.kernel_number.load(std::memory_order_relaxed);
  const uint64_t newest = context.kernels.load(std::memory_order_relaxed);
  if (newest - number >= kKernelRing) return false;
  // Work of one queue starts in order; what goes back was overwritten by a later lap.
  auto* last = newest_kernel_start_ns(context, channel, is_of_recv(place, turn));
  if (last == nullptr || timer_ns < last->load(std::memory_order_relaxed)) return false;
  last->store(timer_ns, std::memory_order_relaxed);
  return true;
}

int spoil(OpPlace& place) noexcept {
  // No start means no times for the whole operation.
  place.kernel_spoiled.store(1, std::memory_order_relaxed);
  return counted(&SelfStatistics::plugin_kernel_lost);
}

// The end is known on every channel: the operation's times, on the host's clock, and its phases.
void store_times(Context& context, OpPlace& place, uint64_t turn, uint32_t channels) noexcept {
  const uint64_t start_ns = place.kernel_start_ns.load(std::memory_order_relaxed);
  const uint64_t stop_ns = place.kernel_stop_ns.load(std::memory_order_relaxed);
  const uint64_t started_ns = start_ns == 0 ? 0 : context.gpu_clock.host_ns_of(start_ns);
  if (started_ns != 0 && stop_ns >= start_ns) {
    if (started_ns + kClockDoubtNs < place.launched_ns.load(std::memory_order_relaxed)) {
      context.kernels_untold.fetch_add(1, std::memory_order_relaxed);  // for good
      spoil(place);
      return;
    }
    const uint64_t finished_ns = started_ns + (stop_ns - start_ns);
    capture::enrich_op(token_of(place, turn),
                       {.started_ticks = capture::ticks_of_monotonic(started_ns),
                        .finished_ticks = capture::ticks_of_monotonic(finished_ns)});
  }
  keep_phases(place, turn, channels);
}

}  // namespace

void note_untold_kernels(OpPlace& place) noexcept {
  place.state.fetch_xor(kAwaitsTelling | kUntold, std::memory_order_acq_rel);
  context_at(place.context.load(std::memory_order_relaxed))
      .kernels_untold.fetch_add(1, std::memory_order_relaxed);
}

void note_told_kernels(OpPlace& place) noexcept {
  const uint32_t before =
      place.state.fetch_and(~(kAwaitsTelling | kUntold), std::memory_order_acq_rel);
  if ((before & kUntold) == 0) return;
  context_at(place.context.load(std::memory_order_relaxed))
      .kernels_untold.fetch_sub(1, std::memory_order_relaxed);
}

void* start_kernel(Context& context, const Event& event) noexcept {
  const HandleKind parent = handle_kind(event.parent);
  if (parent != HandleKind::operation) {
    if (parent != HandleKind::none) count_stale(event.parent);
    return nullptr;
  }
  OpPlace* place = find_op_counted(event.parent);
  if (place == nullptr) return nullptr;
  place->open_channels.fetch_or(bit_of(event.channel), std::memory_order_relaxed);
  // Version 3 has no times; and a record that nobody holds any more, as of a replay, gets none.
  const bool is_held = (place->state.load(std::memory_order_relaxed) & kHeld) != 0;
  if (event.timer_ns != 0 && is_held) {
    if (is_plausible(context, *place, handle_turn(event.parent), event.channel, event.timer_ns)) {
      context.gpu_clock.hear(event.timer_ns, monotonic_now_ns());
      improve(place->kernel_start_ns, event.timer_ns,
              [](uint64_t a, uint64_t b) { return b == 0 || a < b; });
    } else {
      spoil(*place);
    }
  }
  return pack(
      {.kind = HandleKind::kernel_ch, .detail = event.channel, .turn = handle_turn(event.parent)});
}

int record_kernel_stop(const void* value, uint64_t timer_ns) noexcept {
  OpPlace* place = find_op_counted(value);
  if (place == nullptr || timer_ns == 0) return kSuccess;
  const uint64_t open = place->open_channels.load(std::memory_order_relaxed);
  if ((open & bit_of(handle_detail(value))) == 0) return kSuccess;
  if ((place->state.load(std::memory_order_relaxed) & kHeld) == 0) return kSuccess;
  if (timer_ns < place->kernel_start_ns.load(std::memory_order_relaxed)) return spoil(*place);
  improve(place->kernel_stop_ns, timer_ns, [](uint64_t a, uint64_t b) { return a > b; });
  return kSuccess;
}

int stop_kernel(const void* value) noexcept {
  OpPlace* place = find_op_counted(value);
  if (place == nullptr) return kSuccess;
  const uint64_t bit = bit_of(handle_detail(value));
  if ((place->open_channels.fetch_and(~bit, std::memory_order_relaxed) & bit) == 0) {
    return counted(&SelfStatistics::plugin_stopped_twice);
  }
  const uint32_t before = place->state.fetch_add(1u << kKernelsStopped, std::memory_order_acq_rel);
  const uint32_t stopped = (before >> kKernelsStopped & 0xff) + 1;
  const uint32_t expected = before >> kKernelsExpected & 0xff;
  if ((before & kAwaitsKernel) == 0 || stopped != expected) return kSuccess;
  if (place->kernel_spoiled.load(std::memory_order_relaxed) == 0) {
    store_times(context_at(place->context.load(std::memory_order_relaxed)), *place,
                handle_turn(value), stopped);
  }
  settle_if_due(*place, handle_turn(value));
  return kSuccess;
}

}  // namespace rollcall::profiler
