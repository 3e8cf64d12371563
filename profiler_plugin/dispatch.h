// Which function an event goes to, by its type and by what its handle is. Inline in each of the
// seven interfaces: a collective comes with up to 16 of NCCL's calls, and all of them pass here.
//
// Every function behind the two switches answers NCCL itself. So the compiler jumps there instead
// of calling, and an event pays for the registers of its own function only.
#pragma once

#include <cstdint>
#include <type_traits>

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

// The handle for NCCL to keep; null where nothing more needs to be heard about the event.
[[gnu::always_inline]] inline int answer(void** handle, void* value) noexcept {
  *handle = value;
  return kSuccess;
}

// What a descriptor's version tells.
template <class From>
concept TellsOfCalls = requires(const From& from) {
  from.coll_api;
};
template <class From>
concept TellsOfTags = requires(const From& from) {
  from.coll_api.user_tag;
};

// The starts of one type each; `From` is a descriptor of any version, or an Event.
template <class From>
struct Start {
  static constexpr bool kHasTags = TellsOfTags<From> || std::is_same_v<From, Event>;

  [[gnu::noinline]] static int group_api(void* value, void** handle, const From& from) noexcept {
    Context* context = find_context(value);
    if (__builtin_expect(context == nullptr, 0)) return start_without_context(handle);
    return answer(handle, start_group_api(*context, depth_of(from)));
  }
  template <uint32_t kType>
  [[gnu::noinline]] static int call(void* value, void** handle, const From& from) noexcept {
    Context* context = find_context(value);
    if (__builtin_expect(context == nullptr, 0)) return start_without_context(handle);
    const Event event = own_event_of(from, kType);
    const bool own = context->is_own.load(std::memory_order_relaxed) != 0;
    return answer(handle, own ? start_own_call<kHasTags>(*context, value, event)
                              : start_joined_call<kHasTags>(*context, event));
  }
  [[gnu::noinline]] static int kernel_launch(void* value, void** handle) noexcept {
    Context* context = find_context(value);
    if (__builtin_expect(context == nullptr, 0)) return start_without_context(handle);
    note_launch(*context);
    return answer(handle, nullptr);
  }
  [[gnu::noinline]] static int group(void* value, void** handle) noexcept {
    if (__builtin_expect(find_context(value) == nullptr, 0)) return start_without_context(handle);
    // It says nothing, but where NCCL tells of no calls it drops the children of a null one.
    return answer(handle,
                  TellsOfCalls<From> ? nullptr : pack({.kind = HandleKind::group, .turn = 1}));
  }
  template <uint32_t kType>
  [[gnu::noinline]] static int operation(void* value, void** handle, const From& from) noexcept {
    Context* context = find_context(value);
    if (__builtin_expect(context == nullptr, 0)) return start_without_context(handle);
    if (__builtin_expect(handle_kind(from.parent) != HandleKind::call, 0)) {
      return operation_alone<kType>(*context, value, handle, from);
    }
    return answer(handle, start_operation_of_call(*context, own_event_of(from, kType)));
  }
  [[gnu::noinline]] static int proxy_op(void* value, void** handle, const From& from) noexcept {
    return start_proxy_op(handle, find_context(value), own_event_of(from, kProxyOp));
  }
  [[gnu::noinline]] static int proxy_step(void* value, void** handle, const From& from) noexcept {
    if (__builtin_expect(find_context(value) == nullptr, 0)) return start_without_context(handle);
    return start_proxy_step(handle, from.parent, step_of(from));
  }
  [[gnu::noinline]] static int rarer(void* value, void** handle, const From& from,
                                     uint32_t type) noexcept {
    Context* context = find_context(value);
    if (context == nullptr) return start_without_context(handle);
    switch (type) {
      case kCeColl:
        return answer(handle, start_copy_engine(*context, own_event_of(from, kCeColl)));
      case kKernelCh:
        return answer(handle, start_kernel(*context, own_event_of(from, kKernelCh)));
      case kKernelPhase:
        return answer(handle, start_phase(own_event_of(from, kKernelPhase)));
      default:
        return answer(handle, start_unknown(type));
    }
  }

 private:
  template <uint32_t kType>
  [[gnu::noinline]] static int operation_alone(Context& context, void* value, void** handle,
                                               const From& from) noexcept {
    return answer(handle, start_operation_alone(context, value, own_event_of(from, kType)));
  }
};

template <class From>
[[gnu::always_inline]] inline int start_event(void* value, void** handle,
                                              const From& from) noexcept {
  switch (const uint32_t type = type_of(from); type) {
    case kGroupApi:
      return Start<From>::group_api(value, handle, from);
    case kCollApi:
      return Start<From>::template call<kCollApi>(value, handle, from);
    case kP2pApi:
      return Start<From>::template call<kP2pApi>(value, handle, from);
    case kKernelLaunch:
      return Start<From>::kernel_launch(value, handle);
    case kGroup:
      return Start<From>::group(value, handle);
    case kColl:
      return Start<From>::template operation<kColl>(value, handle, from);
    case kP2p:
      return Start<From>::template operation<kP2p>(value, handle, from);
    case kProxyOp:
      return Start<From>::proxy_op(value, handle, from);
    case kProxyStep:
      return Start<From>::proxy_step(value, handle, from);
    default:
      return Start<From>::rarer(value, handle, from, type);
  }
}

[[gnu::always_inline]] inline int stop_event(void* value) noexcept {
  switch (handle_kind(value)) {
    case HandleKind::group_api:
      return stop_group_api(value);
    case HandleKind::call:
      return stop_call(value);
    case HandleKind::operation:
      return stop_operation(value);
    case HandleKind::proxy_op:
      return stop_proxy_op(value);
    case HandleKind::proxy_step:
      return stop_proxy_step(value);
    case HandleKind::kernel_ch:
      return stop_kernel(value);
    case HandleKind::kernel_phase:
      return stop_phase(value);
    case HandleKind::group:
    case HandleKind::ce_coll:
    case HandleKind::dropped_call:
      return kSuccess;
    default:
      return count_stale(value);
  }
}

// The first word of a state's arguments is what every version has there: bytes of a step, GPU time
// of a kernel; zero where NCCL gave none.
using StateWord [[gnu::may_alias]] = uint64_t;
inline uint64_t word_of(const void* arguments) noexcept {
  return arguments != nullptr ? *static_cast<const StateWord*>(arguments) : 0;
}

// States of a GroupApi have no arguments, whatever the pointer says.
[[gnu::always_inline]] inline int record_state(void* value, int state,
                                               const void* arguments) noexcept {
  switch (handle_kind(value)) {
    case HandleKind::group_api:
      return state == kGroupEndApiStart ? begin_group_end(value) : kSuccess;
    case HandleKind::proxy_step:
      return record_step_state(value, state, word_of(arguments));
    case HandleKind::kernel_ch:
      return state == kKernelChStop ? record_kernel_stop(value, word_of(arguments)) : kSuccess;
    case HandleKind::kernel_phase:
      return state == kKernelPhaseStop ? record_phase_stop(value, word_of(arguments)) : kSuccess;
    case HandleKind::call:
    case HandleKind::operation:
    case HandleKind::group:
    case HandleKind::proxy_op:
    case HandleKind::ce_coll:
    case HandleKind::dropped_call:
      return kSuccess;
    default:
      return count_stale(value);
  }
}

}  // namespace rollcall::profiler
