#include "profiler_plugin/plugin.h"

#include <atomic>

#include "core/base/clock.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/handles.h"
#include "profiler_plugin/kernels.h"
#include "profiler_plugin/names.h"
#include "profiler_plugin/nccl_library.h"
#include "profiler_plugin/operations.h"
#include "profiler_plugin/phases.h"
#include "profiler_plugin/proxy.h"
#include "profiler_plugin/settings.h"

namespace rollcall::profiler {

namespace {

// Once per process: which of the seven interfaces NCCL took.
void note_interface(unsigned version) noexcept {
  static constinit std::atomic<bool> is_noted{false};
  if (is_noted.exchange(true)) return;
  const char text[2] = {static_cast<char>('0' + version), '\0'};
  capture::add_coverage("plugin");
  capture::add_meta("plugin_interface", text);
}

// ProxyCtrl, NetPlugin, CeSync and CeBatch say nothing that is kept; a type that is not known may
// come when somebody else changed the mask.
void* start_unknown(uint32_t type) noexcept {
  if ((type & wanted_events()) == 0) capture::count_statistic(&SelfStatistics::plugin_unwanted);
  return nullptr;
}

}  // namespace

void* init(const ContextOpening& opening, uint32_t& mask) noexcept {
  read_settings();
  note_interface(opening.version);
  note_nccl_library(opening.caller);
  // Before version 5 no event comes inside the call, so the records of a group have to wait.
  if (opening.version < 5) capture::hold_groups();
  void* context = open_context(opening);
  // Switched off, or no file: nothing is wanted.
  mask = capture::process_number() == 0 ? 0 : wanted_events();
  mask &= events_of_version(opening.version);
  return context;
}

void finalize(void* context) noexcept { close_context(context); }

void* start_small_event(void* context_value, uint32_t type, void* parent, int32_t number) noexcept {
  Context* context = find_context(context_value);
  if (context == nullptr) {
    capture::count_statistic(&SelfStatistics::plugin_stale);
    return nullptr;
  }
  switch (type) {
    case kGroup:
      return pack({.kind = HandleKind::group, .turn = 1});
    case kGroupApi:
      return start_group_api(*context, number);
    case kKernelLaunch:
      note_launch();
      return nullptr;
    case kProxyStep:
      return start_proxy_step(parent, number);
    default:
      return start_unknown(type);
  }
}

void* start_event(void* context_value, const Event& event) noexcept {
  if (is_small(event.type)) {
    const int32_t number = event.type == kProxyStep ? event.steps : event.depth;
    return start_small_event(context_value, event.type, event.parent, number);
  }
  // A proxy serves other processes too (PXN): context and parent are then theirs.
  if (event.type == kProxyOp && is_foreign(event)) return nullptr;
  Context* context = find_context(context_value);
  if (context == nullptr) {
    capture::count_statistic(&SelfStatistics::plugin_stale);
    return nullptr;
  }
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

void stop_event(void* value) noexcept {
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
      return;
    default:
      capture::count_statistic(&SelfStatistics::plugin_stale);
  }
}

void record_state(void* value, int state, uint64_t word) noexcept {
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
      return;
    default:
      capture::count_statistic(&SelfStatistics::plugin_stale);
  }
}

}  // namespace rollcall::profiler
