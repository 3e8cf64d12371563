#include "profiler_plugin/operations.h"

#include "core/base/atomic_word.h"
#include "core/base/clock.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/names.h"
#include "profiler_plugin/settings.h"
#include "profiler_plugin/user_tags.h"

namespace rollcall::profiler {
namespace {

// When the calling thread last launched a kernel; 0: not since the group began.
constinit thread_local uint64_t launched_ticks = 0;

// The GroupApi that the thread began last. NCCL begins and ends a group on the thread that calls,
// one at a time: so it needs no place in a table, which others could want. On another thread, and
// when the next one has begun, its handle is stale.
struct Group {
  uint64_t turn = 0;         // 0: none yet
  uint64_t newest_call = 0;  // turn of its newest call, of which each knows the one before
  uint64_t calls = 0;
  uint32_t number = 0;  // 0: of a bare call, or the calls are the shim's
  bool is_of_user = false;
  bool is_stopped = false;
  capture::OpToken end;  // the record of its end, where there is one
};
constinit thread_local Group this_group{};

void count_stale(Handle handle) noexcept {
  capture::count_statistic(handle.kind == HandleKind::none ? &SelfStatistics::plugin_null
                                                           : &SelfStatistics::plugin_stale);
}

// The place that a handle names; null, and counted, when it is somebody else's by now.
OpPlace* find_counted(Handle handle) noexcept {
  OpPlace* place = find_op(handle.turn);
  if (place == nullptr) count_stale(handle);
  return place;
}

Group* find_group(Handle handle) noexcept {
  if (handle.turn != 0 && this_group.turn == handle.turn) return &this_group;
  count_stale(handle);
  return nullptr;
}

uint32_t add_state(OpPlace& place, uint32_t bits) noexcept {
  return place.state.fetch_or(bits, std::memory_order_acq_rel);
}

// The first of several stops counts.
bool stop_once(std::atomic<uint8_t>& stopped) noexcept {
  if (stopped.load(std::memory_order_relaxed) == 0) {
    stopped.store(1, std::memory_order_relaxed);
    return true;
  }
  capture::count_statistic(&SelfStatistics::plugin_stopped_twice);
  return false;
}

// Whether events of a shim's record are still to be heard when its call has returned. A bare call's
// GroupApi has stopped by then, which is the end of what is waited for; until then its record is in
// flight without a hold.
bool outlives_call(const OpRecord& record, uint32_t state) noexcept {
  const bool is_bare = (state & kInGroup) != 0 && load_relaxed(record.group) == 0;
  return !is_bare || (wanted_events() & kKernelCh) != 0;
}

void keep(OpPlace& place, capture::OpToken token, uint32_t state) noexcept {
  // Behind the mark of take_op(), for who looks at the turn after these.
  place.record.store(token.record, std::memory_order_release);
  place.ticket.store(token.ticket, std::memory_order_release);
  uint32_t owed = 0;
  // An own record ends when the plugin says so; a hold is for what comes later than that.
  if (token.record != nullptr && (state & kOwn) != 0) {
    owed = kOpen;
  } else if (token.record != nullptr && outlives_call(*token.record, state) &&
             capture::hold_op(token)) {
    owed = kHeld;
  }
  place.state.store(state | owed, std::memory_order_release);
}

// Before the end of an own record that will be added to. The operation may come on another thread
// than the end of its group: a non-blocking communicator's, or that of a stream's host callback.
void hold_own(OpPlace& place, uint64_t turn) noexcept {
  uint32_t before = place.state.load(std::memory_order_acquire);
  if ((before & kOpen) == 0) return;
  const capture::OpToken token = token_of(place, turn);
  if (!capture::hold_op(token)) return;
  do {
    if ((before & kOpen) == 0) return capture::release_op(token);  // the host is done with it
  } while (!place.state.compare_exchange_weak(before, before ^ (kOpen | kHeld),
                                              std::memory_order_acq_rel));
}

// The first call seen on a communicator whose creation the shim watched says which one it is.
void learn_comm(Context& context, capture::OpToken token) noexcept {
  if (__builtin_expect(context.comm_index.load(std::memory_order_relaxed) != kCommUnknown, 1)) {
    return;
  }
  const uint32_t entry = capture::comm_of(token);
  if (entry == kCommUnknown) return;
  context.comm_index.store(entry, std::memory_order_relaxed);
  capture::comm_ready(entry, -1, -1, -1, context.comm_hash.load(std::memory_order_relaxed));
}

// The record that the shim opened for the call the thread is in; empty where it has none.
capture::OpToken token_of_call(Context& context) noexcept {
  const capture::CurrentCall call = capture::current_call();
  if (!call.inside) capture::count_statistic(&SelfStatistics::plugin_unjoined);
  if (call.token.record != nullptr) learn_comm(context, call.token);
  return call.token;
}

capture::OpCall own_call(void* context_value, const Event& event, OpKind kind,
                         uint32_t group) noexcept {
  capture::OpCall call{.kind = kind,
                       .datatype = datatype_of(event.datatype),
                       .flags = kOpFromPlugin,
                       .count = event.count,
                       .stream = event.stream,
                       .comm_handle = context_value,
                       .group = group,
                       .graph = event.graph_captured ? 1u : 0u};
  if (traits_of(kind).rooted) call.root_or_peer = event.root_or_peer;
  if (event.type == kP2p) call.root_or_peer = event.root_or_peer;
  if (event.type == kColl || event.type == kP2p) {
    const bool receives = kind == OpKind::Recv;
    call.send = receives ? nullptr : event.send;
    call.recv = receives ? event.send : event.recv;
  }
  return call;
}

void end_own(OpPlace& place, uint64_t turn) noexcept {
  // The token first: once it says that it ended the place may be another's.
  const capture::OpToken token = token_of(place, turn);
  if ((add_state(place, kEnded) & kEnded) != 0) return;
  if (token.record != nullptr) capture::end_op(token, kResultUnknown);
}

// Up to version 4, and where NCCL sends no CollApi: the operation's own event is all there is.
capture::OpToken join_late(Context& context, const Event& event, OpKind kind) noexcept {
  const capture::CurrentCall call = capture::current_call();
  if (call.inside && call.token.record != nullptr) {
    if (call.token.record->kind == kind) {
      learn_comm(context, call.token);
      return call.token;
    }
    const bool receives = kind == OpKind::Recv;
    const capture::OpToken found = capture::find_in_ended_group(
        {.kind = kind,
         .count = event.count,
         .element_bytes = static_cast<uint32_t>(bytes_of_datatype(datatype_of(event.datatype))),
         .send = receives ? nullptr : event.send,
         .recv = receives ? event.send : event.recv,
         .comm_index = context.comm_index.load(std::memory_order_relaxed),
         .peer = event.type == kP2p ? event.root_or_peer : -1});
    if (found.record != nullptr) {
      learn_comm(context, found);
      return found;
    }
  }
  capture::count_statistic(&SelfStatistics::plugin_unjoined);
  return {};
}

void enrich(OpPlace& place, uint64_t turn, const Event& event, uint8_t channels) noexcept {
  const capture::OpToken token = token_of(place, turn);
  if (token.record == nullptr) return;
  const bool own = (place.state.load(std::memory_order_relaxed) & kOwn) != 0;
  capture::OpDetail detail{
      .launched_ticks = launched_ticks != 0 ? launched_ticks : ticks_now(),
      .method = method_of_names(event.algorithm, event.protocol, event.is_symmetric),
      .channels = channels};
  if (own && event.type == kP2p) {
    detail.peer = event.root_or_peer;
    (token.record->kind == OpKind::Recv ? detail.recv : detail.send) = event.send;
  } else if (own) {
    detail.send = event.send;
    detail.recv = event.recv;
  }
  capture::enrich_op(token, detail);
}

// KernelCh events will follow, one per channel: the record waits for them.
void expect_kernels(OpPlace& place, uint64_t turn, Context& context, uint8_t channels) noexcept {
  if ((wanted_events() & kKernelCh) == 0 || channels == 0) return;
  hold_own(place, turn);
  const uint32_t state = place.state.load(std::memory_order_relaxed);
  if ((state & kHeld) == 0 || (state & kAwaitsKernel) != 0) return;
  const uint64_t number = context.kernels.fetch_add(1, std::memory_order_relaxed) + 1;
  place.context.store(index_of(context), std::memory_order_relaxed);
  place.open_channels.store(0, std::memory_order_relaxed);
  place.kernel_start_ns.store(0, std::memory_order_relaxed);
  place.kernel_stop_ns.store(0, std::memory_order_relaxed);
  place.kernel_number.store(number, std::memory_order_relaxed);
  place.kernel_spoiled.store(0, std::memory_order_relaxed);
  // Before the launch, where NCCL tells of it; else there is no such bound.
  const uint64_t launched_ns =
      launched_ticks == 0 ? 0 : capture::monotonic_of_ticks(launched_ticks);
  place.launched_ns.store(launched_ns, std::memory_order_relaxed);
  add_state(place, kAwaitsKernel | uint32_t{channels} << kKernelsExpected);
}

// A record is held, and nothing more is awaited once the host is done.
bool may_release(uint32_t state) noexcept {
  const uint32_t stopped = state >> kKernelsStopped & 0xff;
  const uint32_t expected = state >> kKernelsExpected & 0xff;
  return (state & kHeld) != 0 && ((state & kAwaitsKernel) == 0 || stopped >= expected);
}

void finish_host(OpPlace& place, uint64_t turn) noexcept {
  const capture::OpToken token = token_of(place, turn);
  if (token.record == nullptr) return;
  uint32_t before = place.state.load(std::memory_order_acquire);
  // Where no KernelCh comes no other thread changes the state of an open one.
  if ((before & kOpen) != 0 && (wanted_events() & kKernelCh) == 0) {
    place.state.store((before | kHostDone | kEnded) & ~kOpen, std::memory_order_release);
    return capture::end_op(token, kResultUnknown);
  }
  uint32_t after = 0;
  do {
    after = (before | kHostDone | kEnded) & ~kOpen;
    if (may_release(before)) after &= ~kHeld;
  } while (!place.state.compare_exchange_weak(before, after, std::memory_order_acq_rel));
  if ((before & (kOwn | kEnded)) == kOwn) capture::end_op(token, kResultUnknown);
  if (((before ^ after) & kHeld) != 0) capture::release_op(token);
}

void join_group(OpPlace& place, uint64_t turn, Group* group) noexcept {
  if (group == nullptr) return;
  place.next.store(group->newest_call, std::memory_order_relaxed);
  group->newest_call = turn;
  ++group->calls;
}

// The GroupApi that a call names as its parent; null when it names none, or a stale one.
Group* group_of(const Event& event) noexcept {
  const Handle parent = unpack(event.parent);
  if (parent.kind != HandleKind::group_api) return nullptr;
  Group* group = find_group(parent);
  return group != nullptr && !group->is_stopped ? group : nullptr;
}

// The number of a group in which a call is made. AlltoAll, Gather and Scatter are the sends and
// receives of one implicit group: its second call shows that it is one.
uint32_t number_for(Group* group, bool own, const Event& event) noexcept {
  if (group == nullptr) return 0;
  if (!own || group->is_of_user || group->newest_call == 0 || event.type != kP2pApi) {
    return group->number;
  }
  if (group->number != 0) return group->number;
  group->number = capture::next_group_number();
  // A record of the shim has its number.
  OpPlace* first = find_op(group->newest_call);
  if (first != nullptr && (first->state.load(std::memory_order_relaxed) & kOwn) != 0) {
    capture::enrich_op(token_of(*first, group->newest_call), {.group = group->number});
  }
  return group->number;
}

// Its calls have returned, and so has its end.
void end_group(Group& group) noexcept {
  // Bounded by the table: a list that recycling has spoiled ends where a turn is not found.
  uint64_t turn = group.newest_call;
  for (uint64_t count = 0; turn != 0 && count < kOpPlaces; ++count) {
    OpPlace* place = find_op(turn);
    if (place == nullptr) break;
    const uint64_t next = place->next.load(std::memory_order_relaxed);
    finish_host(*place, turn);
    turn = next;
  }
  group.newest_call = 0;
  if (group.end.record != nullptr) capture::end_op(group.end, kResultUnknown);
  group.end = {};
}

}  // namespace

void settle_if_due(OpPlace& place, uint64_t turn) noexcept {
  const uint32_t state = place.state.load(std::memory_order_acquire);
  if ((state & kHostDone) == 0 || !may_release(state)) return;
  const capture::OpToken token = token_of(place, turn);
  if (token.record == nullptr) return;
  // Several threads may find it due; one releases.
  const uint32_t before = place.state.fetch_and(~kHeld, std::memory_order_acq_rel);
  if ((before & kHeld) != 0) capture::release_op(token);
}

// --- GroupApi -----------------------------------------------------------------------------------

void* start_group_api(Context& context, int32_t depth) noexcept {
  launched_ticks = 0;
  // Whoever left it without an end (longjmp) has returned, too.
  if (!this_group.is_stopped) end_group(this_group);
  const bool own = context.is_own.load(std::memory_order_relaxed) != 0;
  this_group.turn = take_group_turn();
  this_group.calls = 0;
  // Not that of a bare call.
  this_group.is_of_user = own && depth >= 2;
  this_group.number = this_group.is_of_user ? capture::next_group_number() : 0;
  this_group.is_stopped = false;
  return pack({.kind = HandleKind::group_api, .turn = this_group.turn});
}

// The outermost ncclGroupEnd was entered: the host can hang in it, so it is on record.
void begin_group_end(Handle handle) noexcept {
  Group* group = find_group(handle);
  if (group == nullptr || group->is_stopped || !group->is_of_user) return;
  if (group->end.record != nullptr) return;
  group->end = capture::begin_op({.kind = OpKind::GroupEnd,
                                  .flags = kOpFromPlugin,
                                  .stream = reinterpret_cast<const void*>(group->calls),
                                  .group = group->number});
}

void stop_group_api(Handle handle) noexcept {
  Group* group = find_group(handle);
  if (group == nullptr) return;
  if (group->is_stopped) {
    capture::count_statistic(&SelfStatistics::plugin_stopped_twice);
    return;
  }
  end_group(*group);
  group->is_stopped = true;
  launched_ticks = 0;
}

// --- CollApi, P2pApi ----------------------------------------------------------------------------

void* start_call(Context& context, void* context_value, const Event& event) noexcept {
  OpKind kind = OpKind::Count;
  if (!kind_of(event.func, kind)) return nullptr;
  Group* group = group_of(event);
  const bool own = context.is_own.load(std::memory_order_relaxed) != 0;
  const uint32_t number = number_for(group, own, event);
  uint64_t turn = 0;
  OpPlace* place = take_op(turn);
  if (place == nullptr) {
    // Without a place its end would go unheard; the calls after it keep their positions.
    if (own) capture::drop_op(own_call(context_value, event, kind, number));
    return pack({.kind = HandleKind::dropped_call, .turn = 1});
  }
  const capture::OpToken token =
      own ? capture::begin_op(own_call(context_value, event, kind, number))
          : token_of_call(context);
  if (event.user_tag != context.user_tag.load(std::memory_order_relaxed)) {
    note_user_tag(context, token, event);
  }
  const bool is_of_user = group != nullptr && group->is_of_user;
  keep(*place, token,
       kFromCall | (own ? kOwn : 0) | (group != nullptr ? kInGroup : 0) |
           (is_of_user ? kOfUser : 0));
  join_group(*place, turn, group);
  publish(*place, turn);
  return pack({.kind = HandleKind::call, .turn = turn});
}

void stop_call(Handle handle) noexcept {
  OpPlace* place = find_counted(handle);
  if (place == nullptr || !stop_once(place->api_stopped)) return;
  const uint32_t state = place->state.load(std::memory_order_relaxed);
  if ((state & kInGroup) == 0) return finish_host(*place, handle.turn);
  // In the user's group the call returns to the user now; a bare call goes on to the launch.
  const bool is_recorded = place->record.load(std::memory_order_relaxed) != nullptr;
  if (is_recorded && (state & (kOwn | kOfUser)) == (kOwn | kOfUser)) {
    hold_own(*place, handle.turn);
    end_own(*place, handle.turn);
  }
}

// --- KernelLaunch, Coll, P2p --------------------------------------------------------------------

void note_launch() noexcept { launched_ticks = ticks_now(); }

void* start_operation(Context& context, void* context_value, const Event& event) noexcept {
  // The v4 interface of NCCL 2.28 and later leaves the channels of a P2p uninitialised.
  const bool no_channels =
      event.type == kP2p && context.version.load(std::memory_order_relaxed) < 5;
  const uint8_t channels = no_channels ? 0 : event.channels;
  const Handle parent = unpack(event.parent);
  if (parent.kind == HandleKind::call) {
    OpPlace* place = find_counted(parent);
    if (place == nullptr) return nullptr;
    // Replays of a captured graph start and stop it again.
    place->op_stopped.store(0, std::memory_order_relaxed);
    expect_kernels(*place, parent.turn, context, channels);
    enrich(*place, parent.turn, event, channels);
    return pack({.kind = HandleKind::operation, .turn = parent.turn});
  }
  if (parent.kind == HandleKind::dropped_call) return nullptr;
  if (parent.kind != HandleKind::none && parent.kind != HandleKind::group) {
    count_stale(parent);
    return nullptr;
  }
  OpKind kind = OpKind::Count;
  if (!kind_of(event.func, kind)) return nullptr;
  const bool own = context.is_own.load(std::memory_order_relaxed) != 0;
  if (own && context.comm_index.load(std::memory_order_acquire) == kCommUnknown) {
    identify_context(context, context_value,
                     {.comm_hash = event.comm_hash, .name = event.text, .rank = event.rank});
  }
  uint64_t turn = 0;
  OpPlace* place = take_op(turn);
  if (place == nullptr) {
    if (own) capture::drop_op(own_call(context_value, event, kind, 0));
    return nullptr;
  }
  const capture::OpToken token = own ? capture::begin_op(own_call(context_value, event, kind, 0))
                                     : join_late(context, event, kind);
  keep(*place, token, own ? kOwn : 0);
  publish(*place, turn);
  expect_kernels(*place, turn, context, channels);
  enrich(*place, turn, event, channels);
  return pack({.kind = HandleKind::operation, .turn = turn});
}

void stop_operation(Handle handle) noexcept {
  OpPlace* place = find_counted(handle);
  if (place == nullptr) return;
  if (!stop_once(place->op_stopped)) return;
  // Without a call of its own the operation ends here; else the group's end, or the call's, does.
  const bool from_call = (place->state.load(std::memory_order_relaxed) & kFromCall) != 0;
  if (!from_call) finish_host(*place, handle.turn);
}

// --- copies instead of kernels ------------------------------------------------------------------

void* start_copy_engine(Context&, const Event& event) noexcept {
  const Handle parent = unpack(event.parent);
  if (parent.kind != HandleKind::call) {
    const bool is_silent =
        parent.kind == HandleKind::none || parent.kind == HandleKind::dropped_call;
    if (!is_silent) count_stale(parent);
    return nullptr;
  }
  OpPlace* place = find_counted(parent);
  if (place == nullptr) return nullptr;
  const capture::OpToken token = token_of(*place, parent.turn);
  capture::enrich_op(token, {.launched_ticks = ticks_now(), .method = kMethodOfCopyEngine});
  return pack({.kind = HandleKind::ce_coll, .turn = parent.turn});
}

}  // namespace rollcall::profiler
