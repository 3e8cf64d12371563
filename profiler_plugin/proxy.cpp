#include "profiler_plugin/proxy.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/clock.h"
#include "profiler_plugin/event_types.h"

namespace rollcall::profiler {
namespace {

ProxyPlace* find_counted(Handle handle) noexcept {
  ProxyPlace* place = find_proxy(handle.turn);
  if (place == nullptr) capture::count_statistic(&SelfStatistics::plugin_stale);
  return place;
}

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
// A step that has said of nothing yet that it waits for it: since when, nobody asks.
constexpr uint64_t kStarted = 1 << 8;

// What the step waited for since it was last heard of goes to the channel's account. One thread
// brings the events of a proxy operation.
void account(ProxyPlace& place, unsigned step, uint64_t now_ticks,
             capture::StepNews& news) noexcept {
  const uint64_t before = place.steps[step].load(std::memory_order_relaxed);
  place.steps[step].store(news.is_done ? 0 : packed(now_ticks, news.waits),
                          std::memory_order_relaxed);
  news.waited = wait_of(before);
  const bool has_waited = news.waited != ChannelWait::none && now_ticks > ticks_of(before);
  news.waited_ticks = has_waited ? now_ticks - ticks_of(before) : 0;
  news.since_ticks = now_ticks;
  if (news.is_done) {
    // Steps end in their order: what waits now is the next one, if there is one.
    const uint64_t next = place.steps[(step + 1) % kStepsMax].load(std::memory_order_relaxed);
    news.waits = wait_of(next);
    news.since_ticks = news.waits == ChannelWait::none ? 0 : ticks_of(next);
  }
  capture::add_to_channel(place.channel.load(std::memory_order_relaxed), news);
}

}  // namespace

bool is_foreign(const Event& event) noexcept {
  // getpid() is a system call, and tens of nanoseconds; the answer changes with fork() only, which
  // the recorder notices.
  if (static_cast<uint32_t>(event.pid) == capture::process_number()) return false;
  capture::count_statistic(&SelfStatistics::plugin_foreign);
  return true;
}

void* start_proxy_op(Context& context, const Event& event) noexcept {
  const uint32_t channel =
      capture::open_channel({.comm_index = context.comm_index.load(std::memory_order_relaxed),
                             .peer = event.root_or_peer,
                             .channel = event.channel,
                             .is_send = event.is_send});
  if (channel == kChannelUnknown) return nullptr;
  uint64_t turn = 0;
  ProxyPlace& place = take_proxy(turn);
  place.channel.store(channel, std::memory_order_relaxed);
  place.stopped.store(0, std::memory_order_relaxed);
  publish(place, turn);
  return pack({.kind = HandleKind::proxy_op, .turn = turn});
}

void stop_proxy_op(Handle handle) noexcept {
  ProxyPlace* place = find_counted(handle);
  if (place == nullptr) return;
  if (place->stopped.load(std::memory_order_relaxed) != 0) {
    capture::count_statistic(&SelfStatistics::plugin_stopped_twice);
    return;
  }
  place->stopped.store(1, std::memory_order_relaxed);
  capture::close_channel_op(place->channel.load(std::memory_order_relaxed));
}

void* start_proxy_step(void* parent_value, int32_t number) noexcept {
  const Handle parent = unpack(parent_value);
  // The parent is null where this plugin wanted nothing of it, and for another process's.
  if (parent.kind != HandleKind::proxy_op) {
    if (parent.kind != HandleKind::none) {
      capture::count_statistic(&SelfStatistics::plugin_stale);
    }
    return nullptr;
  }
  ProxyPlace* place = find_counted(parent);
  if (place == nullptr) return nullptr;
  const auto step = static_cast<unsigned>(number) % kStepsMax;
  // A receive that could not be posted is started again (NCCL issue 1658): the same step, once.
  place->steps[step].store(kStarted, std::memory_order_relaxed);
  place->bytes[step].store(0, std::memory_order_relaxed);
  return pack(
      {.kind = HandleKind::proxy_step, .detail = static_cast<uint8_t>(step), .turn = parent.turn});
}

void record_step_state(Handle handle, int state, uint64_t bytes) noexcept {
  ProxyPlace* place = find_counted(handle);
  if (place == nullptr) return;
  const unsigned step = handle.detail % kStepsMax;
  if (place->steps[step].load(std::memory_order_relaxed) == 0) {
    capture::count_statistic(&SelfStatistics::plugin_stale);
    return;
  }
  // One step moves less than 4 GiB.
  if (bytes != 0) {
    const auto counted = static_cast<uint32_t>(std::min(bytes, uint64_t{UINT32_MAX}));
    place->bytes[step].store(counted, std::memory_order_relaxed);
  }
  capture::StepNews news{.waits = wait_of_state(state)};
  account(*place, step, ticks_now(), news);
}

void stop_proxy_step(Handle handle) noexcept {
  ProxyPlace* place = find_counted(handle);
  if (place == nullptr) return;
  const unsigned step = handle.detail % kStepsMax;
  const uint64_t before = place->steps[step].load(std::memory_order_relaxed);
  if (before == 0) {
    capture::count_statistic(&SelfStatistics::plugin_stopped_twice);
    return;
  }
  const uint64_t now_ticks = wait_of(before) == ChannelWait::none ? 0 : ticks_now();
  capture::StepNews news{.is_done = true,
                         .bytes = place->bytes[step].load(std::memory_order_relaxed)};
  account(*place, step, now_ticks, news);
}

}  // namespace rollcall::profiler
