#include "profiler_plugin/proxy.h"

#include <algorithm>

#include "core/base/clock.h"
#include "profiler_plugin/event_types.h"

namespace rollcall::profiler {
namespace {

ChannelWait wait_of_state(int state) noexcept {
  switch (state) {
    case kProxyStepSendGpuWait:
      return ChannelWait::send_gpu;
    case kProxyStepSendPeerWait:
      return ChannelWait::send_peer;
    case kProxyStepSendWait:
      return ChannelWait::send_network;
    case kProxyStepRecvWait:
      return ChannelWait::recv_network;
    case kProxyStepRecvFlushWait:
      return ChannelWait::recv_flush;
    case kProxyStepRecvGpuWait:
      return ChannelWait::recv_gpu;
    default:
      return ChannelWait::none;
  }
}

// Ticks fit in 56 bits for centuries; the wait stands below them.
uint64_t packed(uint64_t ticks, ChannelWait wait) noexcept {
  return ticks << 8 | static_cast<uint8_t>(wait);
}
uint64_t ticks_of(uint64_t step) noexcept { return step >> 8; }
ChannelWait wait_of(uint64_t step) noexcept { return static_cast<ChannelWait>(step & 0xff); }

bool has_bit(uint32_t state, unsigned bit) noexcept { return (state >> bit & 1) != 0; }

// What a step waited for since it was last heard of.
struct Waited {
  ChannelWait what;
  uint64_t ticks;
};
Waited waited_until(uint64_t now_ticks, uint64_t before) noexcept {
  const ChannelWait what = wait_of(before);
  const bool has_waited = what != ChannelWait::none && now_ticks > ticks_of(before);
  return {what, has_waited ? now_ticks - ticks_of(before) : 0};
}

}  // namespace

int start_no_proxy_op(void** handle, const Context* context, int32_t pid) noexcept {
  *handle = nullptr;
  if (capture::process_number() != static_cast<uint32_t>(pid)) {
    return counted(&SelfStatistics::plugin_foreign);
  }
  return context == nullptr ? counted(&SelfStatistics::plugin_stale) : kSuccess;
}

int start_step_of_none(void** handle, const void* parent) noexcept {
  *handle = nullptr;
  // The parent is null where this plugin wanted nothing of it, and for another process's.
  return handle_kind(parent) == HandleKind::none ? kSuccess : count_stale(parent);
}

int stop_proxy_op(const void* value) noexcept {
  ProxyPlace* place = find_proxy_counted(value);
  if (place == nullptr) return kSuccess;
  const uint32_t before = place->state.load(std::memory_order_relaxed);
  if ((before & kProxyStopped) != 0) return counted(&SelfStatistics::plugin_stopped_twice);
  place->state.store(before | kProxyStopped, std::memory_order_relaxed);
  capture::close_channel_op(place->channel.load(std::memory_order_relaxed));
  return kSuccess;
}

int record_step_state(const void* value, int state, uint64_t bytes) noexcept {
  ProxyPlace* place = find_proxy_counted(value);
  if (place == nullptr) return kSuccess;
  const unsigned step = handle_detail(value) % kStepsMax;
  const uint32_t place_state = place->state.load(std::memory_order_relaxed);
  if (!has_bit(place_state, kStepsOpen + step)) return count_stale(value);
  // One step moves less than 4 GiB.
  if (bytes != 0) {
    const auto moved = static_cast<uint32_t>(std::min(bytes, uint64_t{UINT32_MAX}));
    place->bytes[step].store(moved, std::memory_order_relaxed);
    place->state.store(place_state | 1u << (kStepsSized + step), std::memory_order_relaxed);
  }
  const uint64_t now_ticks = ticks_now();
  const ChannelWait waits = wait_of_state(state);
  const Waited waited = waited_until(now_ticks, place->steps[step].load(std::memory_order_relaxed));
  place->steps[step].store(packed(now_ticks, waits), std::memory_order_relaxed);
  capture::step_waited(place->channel.load(std::memory_order_relaxed), waited.what, waited.ticks,
                       waits, now_ticks);
  return kSuccess;
}

int stop_proxy_step(const void* value) noexcept {
  ProxyPlace* place = find_proxy_counted(value);
  if (place == nullptr) return kSuccess;
  const unsigned step = handle_detail(value) % kStepsMax;
  const uint32_t state = place->state.load(std::memory_order_relaxed);
  if (!has_bit(state, kStepsOpen + step)) return counted(&SelfStatistics::plugin_stopped_twice);
  place->state.store(state & ~(1u << (kStepsOpen + step)), std::memory_order_relaxed);
  const uint64_t before = place->steps[step].load(std::memory_order_relaxed);
  const uint64_t now_ticks = wait_of(before) == ChannelWait::none ? 0 : ticks_now();
  const Waited waited = waited_until(now_ticks, before);
  // Steps end in their order: what waits now is the next one, if there is one.
  const unsigned next_step = (step + 1) % kStepsMax;
  const uint64_t next = has_bit(state, kStepsOpen + next_step)
                            ? place->steps[next_step].load(std::memory_order_relaxed)
                            : 0;
  const ChannelWait waits = wait_of(next);
  const uint64_t bytes =
      has_bit(state, kStepsSized + step) ? place->bytes[step].load(std::memory_order_relaxed) : 0;
  capture::step_done(place->channel.load(std::memory_order_relaxed), waited.what, waited.ticks,
                     waits, waits == ChannelWait::none ? 0 : ticks_of(next), bytes);
  return kSuccess;
}

}  // namespace rollcall::profiler
