// Group calls, calls and the operations that NCCL makes of them: what opens, enriches and settles
// operation records. Order of the events of one collective since NCCL 2.28, on one thread:
//
//   GroupApi start, state 23, CollApi start, CollApi stop, state 24,
//   KernelLaunch start, stop, Group start, Coll start, Coll stop, Group stop, GroupApi stop
//
// KernelCh and ProxyOp follow on other threads, also long after. In a group the calls come first
// and then everything else once; before 2.28 there are only Group, Coll and P2p.
//
// A non-blocking communicator launches on a thread of NCCL's, which may be behind the GroupApi stop
// but not behind the next call on the communicator. Until the one or the other the records of its
// calls are held. Where no shim says that a communicator is one, its first late launch does.
//
// What that one collective passes through is inline in each of the seven interfaces: the compiler
// then takes an event's fields out of NCCL's descriptor one by one, and no Event comes to be.
#pragma once

#include "core/base/clock.h"
#include "core/capture/op_detail.h"
#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/handles.h"
#include "profiler_plugin/names.h"
#include "profiler_plugin/settings.h"
#include "profiler_plugin/user_tags.h"

namespace rollcall::profiler {

// --- KernelLaunch -------------------------------------------------------------------------------

// The thread launches a kernel of the context; the operations whose Coll or P2p follow are in it.
// Where a thread has several GPUs it launches the kernels of all of them first.
inline void note_launch(Context& context) noexcept {
  const uint64_t now_ticks = ticks_now();
  this_plugin_thread.launched_ticks = now_ticks;
  context.launched_ticks.store(now_ticks, std::memory_order_relaxed);
}
// When the calling thread launched the context's newest kernel; 0: not since its group began.
inline uint64_t launched_ticks_of(const Context& context) noexcept {
  const bool has_launched = this_plugin_thread.launched_ticks != 0;
  return has_launched ? context.launched_ticks.load(std::memory_order_relaxed) : 0;
}

namespace operations_detail {

// The group of the calling thread, where the handle names it; else null, and counted.
inline Group* find_group(const void* value) noexcept {
  Group& group = this_plugin_thread.group;
  const uint64_t turn = handle_turn(value);
  if (__builtin_expect(turn != 0 && group.turn == turn, 1)) return &group;
  count_stale(value);
  return nullptr;
}
// That which a call names as its parent; null when it names none, or one that has stopped.
inline Group* group_of(const void* parent) noexcept {
  if (handle_kind(parent) != HandleKind::group_api) return nullptr;
  Group* group = find_group(parent);
  return group != nullptr && !group->is_stopped ? group : nullptr;
}
void end_group(Group& group) noexcept;
uint32_t number_of_implicit_group(Group& group) noexcept;
// The number of the group in which an own call is made. AlltoAll, Gather and Scatter are the sends
// and receives of one implicit group: its second call shows that it is one.
inline uint32_t number_for(Group* group, uint32_t type) noexcept {
  if (group == nullptr) return 0;
  const bool shows_it = type == kP2pApi && !group->is_of_user && group->newest_call != 0;
  return shows_it ? number_of_implicit_group(*group) : group->number;
}

// An operation that the plugin records itself. Its buffers are added when NCCL tells of them.
[[gnu::always_inline]] inline capture::ToldOp told_op(const Event& event, OpKind kind) noexcept {
  const bool has_root_or_peer = traits_of(kind).rooted || event.type == kP2p;
  return {.kind = kind,
          .datatype = datatype_of(event.datatype),
          .is_captured = event.graph_captured,
          .root_or_peer = has_root_or_peer ? event.root_or_peer : int32_t{-1}};
}

// The record that the shim opened for the call the thread is in; empty where it has none.
capture::OpToken token_of_call(Context& context) noexcept;
// The kernel of a Broadcast is not told of, where NCCL counts those that are: kAwaitsTelling, or 0.
uint32_t await_telling(const Context& context, OpPlace& place) noexcept;
inline uint32_t telling_of(OpKind kind, const Context& context, OpPlace& place) noexcept {
  return __builtin_expect(kind == OpKind::Broadcast, 0) ? await_telling(context, place) : 0;
}
// Where the communicator launches late: kLate, and the calls before are through; else 0.
uint32_t await_launch(Context& context, OpPlace& place) noexcept;
inline uint32_t lateness_of(Context& context, OpPlace& place) noexcept {
  const bool is_late = context.launches_late.load(std::memory_order_relaxed) != 0;
  return __builtin_expect(is_late, 0) ? await_launch(context, place) : 0;
}
// A hold, where it will be added to when the call has returned; kHeld then, else 0.
uint32_t hold_for_later(capture::OpToken token, uint32_t state) noexcept;
// The same of the call that the thread is in.
uint32_t hold_call_for_later(capture::OpToken token, uint32_t state) noexcept;

// What is in a place that was taken; `state` is what has to be done with it. Released: who sees
// some of it sees the mark of take_op(), too.
inline void keep(OpPlace& place, capture::OpToken token, uint32_t state) noexcept {
  place.record.store(token.record, std::memory_order_release);
  place.ticket.store(token.ticket, std::memory_order_release);
  place.state.store(state, std::memory_order_release);
}
// An own record ends when the plugin says so.
inline void keep_own(OpPlace& place, capture::OpToken token, uint32_t state) noexcept {
  keep(place, token, state | kOwn | (token.record != nullptr ? kOpen : 0));
}

// Bits of the state, by the group that the call is made in.
inline uint32_t join_group(const Taken<OpPlace>& taken, Group* group) noexcept {
  if (group == nullptr) return 0;
  taken.place->next.store(group->newest_call, std::memory_order_relaxed);
  group->newest_call = taken.turn;
  ++group->calls;
  return kInGroup | (group->is_of_user ? kOfUser : 0);
}

void expect_kernels(OpPlace& place, uint64_t turn, Context& context, uint8_t channels) noexcept;

[[gnu::always_inline]] inline void enrich(const Context& context, OpPlace& place, uint64_t turn,
                                          const Event& event) noexcept {
  const capture::OpToken token = token_of(place, turn);
  if (token.record == nullptr) return;
  const uint64_t launched_ticks = launched_ticks_of(context);
  capture::OpDetail detail{
      .launched_ticks = launched_ticks != 0 ? launched_ticks : ticks_now(),
      .method = method_of_names(event.algorithm, event.protocol, event.is_symmetric),
      .channels = event.channels};
  if ((place.state.load(std::memory_order_relaxed) & kOwn) != 0) {
    const bool receives = event.type == kP2p && token.record->kind == OpKind::Recv;
    detail.send = receives ? nullptr : event.send;
    detail.recv = receives ? event.send : event.recv;
    if (event.type == kP2p) detail.peer = event.root_or_peer;
  }
  capture::enrich_op(token, detail);
}

}  // namespace operations_detail

// --- GroupApi -----------------------------------------------------------------------------------

[[gnu::always_inline]] inline void* start_group_api(Context& context, int32_t depth) noexcept {
  PluginThread& thread = this_plugin_thread;
  Group& group = thread.group;
  thread.launched_ticks = 0;
  // Whoever left it without an end (longjmp) has returned, too.
  if (__builtin_expect(!group.is_stopped, 0)) operations_detail::end_group(group);
  group.turn = take_group_turn();
  group.calls = 0;
  // Not that of a bare call.
  group.is_of_user = depth >= 2 && context.is_own.load(std::memory_order_relaxed) != 0;
  group.number = group.is_of_user ? capture::next_group_number() : 0;
  group.is_stopped = false;
  return pack({.kind = HandleKind::group_api, .turn = group.turn});
}

// The outermost ncclGroupEnd was entered: the host can hang in it, so it is on record.
int begin_group_end(const void* value) noexcept;
int stop_group_api(const void* value) noexcept;

// --- CollApi, P2pApi ----------------------------------------------------------------------------

// A call that the plugin records. `kHasTags`: the version of the interface knows user tags.
template <bool kHasTags>
[[gnu::always_inline]] inline void* start_own_call(Context& context, void* context_value,
                                                   const Event& event) noexcept {
  using namespace operations_detail;
  const OpKind kind = kind_of(event.func);
  if (__builtin_expect(kind == OpKind::Count, 0)) return nullptr;
  const capture::ToldOp op = told_op(event, kind);
  Group* group = group_of(event.parent);
  const uint32_t number = number_for(group, event.type);
  const Taken<OpPlace> taken = take_op();
  if (__builtin_expect(taken.place == nullptr, 0)) {
    // Without a place its end would go unheard; the calls after it keep their positions.
    capture::drop_told_op(op, context_value);
    return pack({.kind = HandleKind::dropped_call, .turn = 1});
  }
  const uint32_t state = kFromCall | join_group(taken, group) |
                         telling_of(kind, context, *taken.place) |
                         lateness_of(context, *taken.place);
  const capture::OpToken token =
      capture::begin_told_op(op, event.count, event.stream, context_value, number);
  if constexpr (kHasTags) note_user_tag(context, token, event.user_tag);
  keep_own(*taken.place, token, state);
  publish(*taken.place, taken.turn);
  return pack({.kind = HandleKind::call, .turn = taken.turn});
}

// One that the shim records: the thread is in it.
template <bool kHasTags>
[[gnu::always_inline]] inline void* start_joined_call(Context& context,
                                                      const Event& event) noexcept {
  using namespace operations_detail;
  const OpKind kind = kind_of(event.func);
  if (__builtin_expect(kind == OpKind::Count, 0)) return nullptr;
  Group* group = group_of(event.parent);
  const Taken<OpPlace> taken = take_op();
  if (__builtin_expect(taken.place == nullptr, 0)) {
    return pack({.kind = HandleKind::dropped_call, .turn = 1});
  }
  const capture::OpToken token = token_of_call(context);
  const uint32_t state = kFromCall | join_group(taken, group) |
                         telling_of(kind, context, *taken.place) |
                         lateness_of(context, *taken.place);
  if constexpr (kHasTags) note_user_tag(context, token, event.user_tag);
  if (__builtin_expect(event.graph_captured, 0)) capture::note_captured(token);
  keep(*taken.place, token, state | hold_call_for_later(token, state));
  publish(*taken.place, taken.turn);
  return pack({.kind = HandleKind::call, .turn = taken.turn});
}

int stop_call(const void* value) noexcept;

// The communicator is about to end: nothing is awaited any more. [cold]
void end_late_calls(Context& context) noexcept;

// --- Coll, P2p ----------------------------------------------------------------------------------

// The operation of a call that was told of.
[[gnu::always_inline]] inline void* start_operation_of_call(Context& context,
                                                            const Event& event) noexcept {
  using namespace operations_detail;
  OpPlace* place = find_op_counted(event.parent);
  if (place == nullptr) return nullptr;
  const uint64_t turn = handle_turn(event.parent);
  // Replays of a captured graph start and stop it again.
  const bool is_first = place->op_stopped.load(std::memory_order_relaxed) == 0;
  place->op_stopped.store(0, std::memory_order_relaxed);
  if (__builtin_expect((place->state.load(std::memory_order_relaxed) & kHostDone) != 0, 0) &&
      is_first) {
    context.launches_late.store(1, std::memory_order_relaxed);
  }
  if (__builtin_expect((wanted_events() & kKernelCh) != 0, 0)) {
    expect_kernels(*place, turn, context, event.channels);
  }
  enrich(context, *place, turn, event);
  return pack({.kind = HandleKind::operation, .turn = turn});
}
// Any other: up to version 4 all of them.
void* start_operation_alone(Context& context, void* context_value, const Event& event) noexcept;

int stop_operation(const void* value) noexcept;

// CeColl: a collective by copies instead of a kernel.
void* start_copy_engine(Context& context, const Event& event) noexcept;

// Releases the record when the host is done with the operation and no kernel time is awaited.
void settle_if_due(OpPlace& place, uint64_t turn) noexcept;

}  // namespace rollcall::profiler
