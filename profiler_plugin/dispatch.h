// Which function an event goes to, by its type and by what its handle is. Inline in each of the
// seven interfaces: a collective comes with 16 of NCCL's calls, and all of them pass here.
#pragma once

#include <cstdint>

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/fields.h"
#include "profiler_plugin/handles.h"
#include "profiler_plugin/kernels.h"
#include "profiler_plugin/operations.h"
#include "profiler_plugin/phases.h"
#include "profiler_plugin/plugin.h"
#include "profiler_plugin/proxy.h"

namespace rollcall::profiler {

// The handle for NCCL to keep; null where nothing more needs to be heard about the event. Of a type
// that is_small() holds of, from an Event or a descriptor.
template <class From>
inline void* start_small_event(void* context_value, const From& from) noexcept {
  Context* context = find_context(context_value);
  if (context == nullptr) return start_without_context();
  const auto type = static_cast<uint32_t>(from.type);
  switch (type) {
    case kGroup:
      return pack({.kind = HandleKind::group, .turn = 1});
    case kGroupApi:
      return start_group_api(*context, depth_of(from));
    case kKernelLaunch:
      note_launch();
      return nullptr;
    case kProxyStep:
      return start_proxy_step(from.parent, step_of(from));
    default:
      return start_unknown(type);
  }
}

// The same of any other type.
inline void* start_large_event(void* context_value, const Event& event) noexcept {
  // A proxy serves other processes too (PXN): context and parent are then theirs.
  if (event.type == kProxyOp && is_foreign(event)) return nullptr;
  Context* context = find_context(context_value);
  if (context == nullptr) return start_without_context();
  switch (event.type) {
    case kCollApi:
    case kP2pApi:
      return start_call(*context, context_value, event);
    case kColl:
    case kP2p:
      return start_operation(*context, context_value, event);
    case kCeColl:
      return start_copy_engine(*context, event);
    case kProxyOp:
      return start_proxy_op(*context, event);
    case kKernelCh:
      return start_kernel(*context, event);
    case kKernelPhase:
      return start_phase(event);
    default:
      return start_unknown(event.type);
  }
}

inline void* start_event(void* context, const Event& event) noexcept {
  return is_small(event.type) ? start_small_event(context, event)
                              : start_large_event(context, event);
}

inline void stop_event(void* value) noexcept {
  const Handle handle = unpack(value);
  switch (handle.kind) {
    case HandleKind::none:
      capture::count_statistic(&SelfStatistics::plugin_null);
      return;
    case HandleKind::group_api:
      return stop_group_api(handle);
    case HandleKind::call:
      return stop_call(handle);
    case HandleKind::operation:
      return stop_operation(handle);
    case HandleKind::proxy_op:
      return stop_proxy_op(handle);
    case HandleKind::proxy_step:
      return stop_proxy_step(handle);
    case HandleKind::kernel_ch:
      return stop_kernel(handle);
    case HandleKind::kernel_phase:
      return stop_phase(handle);
    case HandleKind::group:
    case HandleKind::ce_coll:
    case HandleKind::dropped_call:
      return;
    default:
      capture::count_statistic(&SelfStatistics::plugin_stale);
  }
}

// `word`: the first eight bytes of the arguments, zero where NCCL gave none.
inline void record_state(void* value, int state, uint64_t word) noexcept {
  const Handle handle = unpack(value);
  switch (handle.kind) {
    case HandleKind::none:
      capture::count_statistic(&SelfStatistics::plugin_null);
      return;
    case HandleKind::group_api:
      if (state == kGroupEndApiStart) begin_group_end(handle);
      return;
    case HandleKind::proxy_step:
      return record_step_state(handle, state, word);
    case HandleKind::kernel_ch:
      if (state == kKernelChStop) record_kernel_stop(handle, word);
      return;
    case HandleKind::kernel_phase:
      if (state == kKernelPhaseStop) record_phase_stop(handle, word);
      return;
    case HandleKind::call:
    case HandleKind::operation:
    case HandleKind::group:
    case HandleKind::proxy_op:
    case HandleKind::ce_coll:
    case HandleKind::dropped_call:
      return;
    default:
      capture::count_statistic(&SelfStatistics::plugin_stale);
  }
}

}  // namespace rollcall::profiler
