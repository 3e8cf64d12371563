// Proxy operations and their steps: what the network threads did, and what they wait for. Summed up
// per channel, peer and direction in the file's table of channels, so that the cost in the file
// does not grow with the number of steps.
#pragma once

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/handles.h"

namespace rollcall::profiler {

// Without a handle, and counted: in no context of ours, of another process that this one only
// serves (PXN), or in a table that is full.
[[gnu::cold]] int start_no_proxy_op(void** handle, const Context* context, int32_t pid) noexcept;
inline int start_proxy_op(void** handle, Context* context, const Event& event) noexcept {
  if (__builtin_expect(context == nullptr, 0)) return start_no_proxy_op(handle, context, event.pid);
  // Where another process issued it, context and parent are that one's, and look like ours.
  const uint32_t entry =
      capture::open_channel(event.pid, context->comm_index.load(std::memory_order_relaxed),
                            event.root_or_peer, event.channel, event.is_send);
  if (__builtin_expect(entry == kChannelUnknown, 0)) {
    return start_no_proxy_op(handle, context, event.pid);
  }
  const auto [place, turn] = take_proxy();
  place->channel.store(entry, std::memory_order_release);
  publish(*place, turn);
  *handle = pack({.kind = HandleKind::proxy_op, .turn = turn});
  return kSuccess;
}
int stop_proxy_op(const void* value) noexcept;

// A step that has said of nothing yet that it waits for it: since when, nobody asks.
inline constexpr uint64_t kStepStarted = 0;
[[gnu::cold]] int start_step_of_none(void** handle, const void* parent) noexcept;
inline int start_proxy_step(void** handle, const void* parent, int32_t number) noexcept {
  const uint64_t turn = handle_turn(parent);
  ProxyPlace* place = find_proxy(turn);
  if (__builtin_expect(handle_kind(parent) != HandleKind::proxy_op || place == nullptr, 0)) {
    return start_step_of_none(handle, parent);
  }
  const auto step = static_cast<unsigned>(number) % kStepsMax;
  // A receive that could not be posted is started again (NCCL issue 1658): the same step, once.
  const uint32_t before = place->state.load(std::memory_order_relaxed);
  place->state.store((before | 1u << (kStepsOpen + step)) & ~(1u << (kStepsSized + step)),
                     std::memory_order_relaxed);
  place->steps[step].store(kStepStarted, std::memory_order_relaxed);
  *handle =
      pack({.kind = HandleKind::proxy_step, .detail = static_cast<uint8_t>(step), .turn = turn});
  return kSuccess;
}
// A step enters a wait; `bytes` of the step as far as NCCL knows them, 0 if not.
int record_step_state(const void* value, int state, uint64_t bytes) noexcept;
int stop_proxy_step(const void* value) noexcept;

}  // namespace rollcall::profiler
