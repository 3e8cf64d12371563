#include "profiler_plugin/operations.h"

#include "core/base/atomic_word.h"
#include "profiler_plugin/kernels.h"

namespace rollcall::profiler {
namespace {

using namespace operations_detail;

uint32_t add_state(OpPlace& place, uint32_t bits) noexcept {
  return place.state.fetch_or(bits, std::memory_order_acq_rel);
}

// Whether events of a shim's record are still to be heard when its call has returned. A bare call's
// GroupApi has stopped by then, which is the end of what is waited for; until then its record is in
// flight without a hold.
bool outlives_call(const OpRecord& record, uint32_t state) noexcept {
  const bool is_bare = (state & kInGroup) != 0 && load_relaxed(record.group) == 0;
  return !is_bare || ((wanted_events() & kKernelCh) | (state & kLate)) != 0;
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
  const CommEntry* known = capture::comm_entry(entry);
  if (known != nullptr && known->non_blocking != 0) {
    context.launches_late.store(1, std::memory_order_relaxed);
  }
  capture::comm_ready(entry, -1, -1, -1, context.comm_hash.load(std::memory_order_relaxed));
}

void end_own(OpPlace& place, uint64_t turn) noexcept {
  // The token first: once it says that it ended the place may be another's.
  const capture::OpToken token = token_of(place, turn);
  if ((add_state(place, kEnded) & kEnded) != 0) return;
  if (token.record != nullptr) capture::end_told_op(token);
}

void end_in_group_of_user(OpPlace& place, uint64_t turn) noexcept {
  if (place.record.load(std::memory_order_relaxed) == nullptr) return;
  hold_own(place, turn);
  end_own(place, turn);
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

// The first of several stops counts.
bool is_first_stop(std::atomic<uint8_t>& stopped) noexcept {
  if (stopped.load(std::memory_order_relaxed) != 0) return false;
  stopped.store(1, std::memory_order_relaxed);
  return true;
}

// A record is held, and nothing more is awaited once the host is done.
bool may_release(uint32_t state) noexcept {
  const uint32_t stopped = state >> kKernelsStopped & 0xff;
  const uint32_t expected = state >> kKernelsExpected & 0xff;
  return (state & kHeld) != 0 && ((state & kAwaitsKernel) == 0 || stopped >= expected);
}

// The call has returned, and its launch may still come.
[[gnu::noinline, gnu::cold]] void keep_late(OpPlace& place, uint64_t turn) noexcept {
  if ((place.state.load(std::memory_order_relaxed) & kOwn) != 0) {
    hold_own(place, turn);
    end_own(place, turn);
  }
  add_state(place, kOutlivesCall);
  Context& context = context_at(place.context.load(std::memory_order_relaxed));
  place.next.store(newest_late_call(context).exchange(turn, std::memory_order_acq_rel),
                   std::memory_order_relaxed);
}

// Of all but an own record that is open and nothing more: other threads may change the state
// meanwhile.
[[gnu::noinline]] void finish_watched(OpPlace& place, uint64_t turn) noexcept {
  uint32_t before = place.state.load(std::memory_order_acquire);
  if ((before & kLate) != 0) {
    place.state.fetch_and(~kLate, std::memory_order_acq_rel);
    const bool is_told = place.op_stopped.load(std::memory_order_relaxed) != 0;
    if (!is_told) return keep_late(place, turn);
  }
  if ((before & kAwaitsTelling) != 0) note_untold_kernels(place);
  const capture::OpToken token = token_of(place, turn);
  if (token.record == nullptr) return;
  before = place.state.load(std::memory_order_acquire);
  uint32_t after = 0;
  do {
    after = (before | kHostDone | kEnded) & ~kOpen;
    if (may_release(before)) after &= ~kHeld;
  } while (!place.state.compare_exchange_weak(before, after, std::memory_order_acq_rel));
  if ((before & (kOwn | kEnded)) == kOwn) capture::end_told_op(token);
  if (((before ^ after) & kHeld) != 0) capture::release_op(token);
}

// NCCL has returned to the job.
inline void finish_host(OpPlace& place, uint64_t turn) noexcept {
  const uint32_t before = place.state.load(std::memory_order_acquire);
  const uint32_t owed = before & (kOwn | kOpen | kHeld | kAwaitsTelling | kLate);
  // A record of the shim's that nobody holds.
  if (owed == 0) return;
  // Where no KernelCh comes no other thread changes the state of an open one.
  if (__builtin_expect(owed != (kOwn | kOpen) || (wanted_events() & kKernelCh) != 0, 0)) {
    return finish_watched(place, turn);
  }
  const capture::OpToken token = token_of(place, turn);
  if (token.record == nullptr) return;
  place.state.store((before | kHostDone | kEnded) & ~kOpen, std::memory_order_release);
  capture::end_told_op(token);
}

// The newest call of a list and those before it. Bounded by the table: a list that recycling has
// spoiled ends where a turn is not found.
[[gnu::always_inline]] inline void finish_list(uint64_t turn) noexcept {
  for (uint64_t count = 0; turn != 0 && count < kOpPlaces; ++count) {
    OpPlace* place = find_op(turn);
    if (place == nullptr) break;
    const uint64_t next = place->next.load(std::memory_order_relaxed);
    finish_host(*place, turn);
    turn = next;
  }
}

}  // namespace

namespace operations_detail {

// Its calls have returned, and so has its end. Inline where a group stops, which is once per
// collective.
[[gnu::always_inline]] inline void end_calls(Group& group) noexcept {
  finish_list(group.newest_call);
  group.newest_call = 0;
  if (__builtin_expect(group.end.record != nullptr, 0)) {
    capture::end_told_op(group.end);
    group.end = {};
  }
}
void end_group(Group& group) noexcept { end_calls(group); }

uint32_t await_launch(Context& context, OpPlace& place) noexcept {
  end_late_calls(context);
  place.context.store(index_of(context), std::memory_order_relaxed);
  return kLate;
}

uint32_t number_of_implicit_group(Group& group) noexcept {
  if (group.number != 0) return group.number;
  group.number = capture::next_group_number();
  // A record of the shim has its number.
  OpPlace* first = find_op(group.newest_call);
  if (first != nullptr && (first->state.load(std::memory_order_relaxed) & kOwn) != 0) {
    capture::enrich_op(token_of(*first, group.newest_call), {.group = group.number});
  }
  return group.number;
}

capture::OpToken token_of_call(Context& context) noexcept {
  const capture::CurrentCall call = capture::current_call();
  if (!call.inside) capture::count_statistic(&SelfStatistics::plugin_unjoined);
  if (call.token.record != nullptr) learn_comm(context, call.token);
  return call.token;
}

uint32_t await_telling(const Context& context, OpPlace& place) noexcept {
  const bool matters = (wanted_events() & kKernelCh) != 0 &&
                       context.version.load(std::memory_order_relaxed) >= kCountsToldKernels;
  if (!matters) return 0;
  place.context.store(index_of(context), std::memory_order_relaxed);
  return kAwaitsTelling;
}

uint32_t hold_for_later(capture::OpToken token, uint32_t state) noexcept {
  if (token.record == nullptr || !outlives_call(*token.record, state)) return 0;
  return capture::hold_op(token) ? kHeld : 0;
}

uint32_t hold_call_for_later(capture::OpToken token, uint32_t state) noexcept {
  if (token.record == nullptr || !outlives_call(*token.record, state)) return 0;
  return capture::hold_current_op() ? kHeld : 0;
}

// KernelCh events will follow, one per channel: the record waits for them.
void expect_kernels(OpPlace& place, uint64_t turn, Context& context, uint8_t channels) noexcept {
  const uint32_t before = place.state.load(std::memory_order_relaxed);
  if ((before & (kAwaitsTelling | kUntold)) != 0) note_told_kernels(place);
  // NCCL 2.28 and later leave them uninitialised for a P2p in version 4, which they do not take.
  if (channels == 0 || channels > kKernelChannels) return;
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
  const uint64_t launched_ticks = launched_ticks_of(context);
  const uint64_t launched_ns =
      launched_ticks == 0 ? 0 : capture::monotonic_of_ticks(launched_ticks);
  place.launched_ns.store(launched_ns, std::memory_order_relaxed);
  add_state(place, kAwaitsKernel | uint32_t{channels} << kKernelsExpected);
}

}  // namespace operations_detail

void settle_if_due(OpPlace& place, uint64_t turn) noexcept {
  const uint32_t state = place.state.load(std::memory_order_acquire);
  if ((state & kHostDone) == 0 || !may_release(state)) return;
  const capture::OpToken token = token_of(place, turn);
  if (token.record == nullptr) return;
  // Several threads may find it due; one releases.
  const uint32_t before = place.state.fetch_and(~kHeld, std::memory_order_acq_rel);
  if ((before & kHeld) != 0) capture::release_op(token);
}

void end_late_calls(Context& context) noexcept {
  finish_list(newest_late_call(context).exchange(0, std::memory_order_acq_rel));
}

// --- what NCCL says of a handle -----------------------------------------------------------------

int begin_group_end(const void* value) noexcept {
  Group* group = find_group(value);
  if (group == nullptr || !group->is_of_user || group->is_stopped) return kSuccess;
  if (group->end.record != nullptr) return kSuccess;
  // An end has the number of its calls where others have their stream.
  group->end =
      capture::begin_told_op({.kind = OpKind::GroupEnd}, 0,
                             reinterpret_cast<const void*>(group->calls), nullptr, group->number);
  return kSuccess;
}

int stop_group_api(const void* value) noexcept {
  Group* group = find_group(value);
  if (group == nullptr) return kSuccess;
  if (group->is_stopped) return counted(&SelfStatistics::plugin_stopped_twice);
  group->is_stopped = true;
  this_plugin_thread.launched_ticks = 0;
  end_calls(*group);
  return kSuccess;
}

int stop_call(const void* value) noexcept {
  OpPlace* place = find_op_counted(value);
  if (place == nullptr) return kSuccess;
  if (!is_first_stop(place->api_stopped)) return counted(&SelfStatistics::plugin_stopped_twice);
  const uint32_t state = place->state.load(std::memory_order_relaxed);
  // A bare call goes on to the launch; in the user's group the call returns to the user now.
  if ((state & kInGroup) == 0) {
    finish_host(*place, handle_turn(value));
  } else if ((state & (kOwn | kOfUser)) == (kOwn | kOfUser)) {
    end_in_group_of_user(*place, handle_turn(value));
  }
  return kSuccess;
}

int stop_operation(const void* value) noexcept {
  OpPlace* place = find_op_counted(value);
  if (place == nullptr) return kSuccess;
  if (!is_first_stop(place->op_stopped)) return counted(&SelfStatistics::plugin_stopped_twice);
  // Without a call of its own the operation ends here, as where it outlives the call; else the
  // group's end, or the call's, does.
  const uint32_t state = place->state.load(std::memory_order_relaxed);
  if ((state & (kFromCall | kOutlivesCall)) != kFromCall) finish_host(*place, handle_turn(value));
  return kSuccess;
}

// --- starts -------------------------------------------------------------------------------------

void* start_operation_alone(Context& context, void* context_value, const Event& event) noexcept {
  const HandleKind parent = handle_kind(event.parent);
  if (parent == HandleKind::dropped_call) return nullptr;
  if (parent != HandleKind::none && parent != HandleKind::group) {
    count_stale(event.parent);
    return nullptr;
  }
  const OpKind kind = kind_of(event.func);
  if (kind == OpKind::Count) return nullptr;
  const bool own = context.is_own.load(std::memory_order_relaxed) != 0;
  if (own && context.comm_index.load(std::memory_order_acquire) == kCommUnknown) {
    identify_context(context, context_value,
                     {.comm_hash = event.comm_hash, .name = event.text, .rank = event.rank});
  }
  const auto [place, turn] = take_op();
  if (place == nullptr) {
    if (own) capture::drop_told_op(told_op(event, kind), context_value);
    return nullptr;
  }
  if (own) {
    const capture::OpToken token =
        capture::begin_told_op(told_op(event, kind), event.count, event.stream, context_value, 0);
    keep_own(*place, token, 0);
  } else {
    const capture::OpToken token = join_late(context, event, kind);
    keep(*place, token, hold_for_later(token, 0));
  }
  publish(*place, turn);
  if ((wanted_events() & kKernelCh) != 0) expect_kernels(*place, turn, context, event.channels);
  enrich(context, *place, turn, event);
  return pack({.kind = HandleKind::operation, .turn = turn});
}

void* start_copy_engine(Context&, const Event& event) noexcept {
  const HandleKind parent = handle_kind(event.parent);
  if (parent != HandleKind::call) {
    const bool is_silent = parent == HandleKind::none || parent == HandleKind::dropped_call;
    if (!is_silent) count_stale(event.parent);
    return nullptr;
  }
  OpPlace* place = find_op_counted(event.parent);
  if (place == nullptr) return nullptr;
  const uint64_t turn = handle_turn(event.parent);
  capture::enrich_op(token_of(*place, turn),
                     {.launched_ticks = ticks_now(), .method = kMethodOfCopyEngine});
  return pack({.kind = HandleKind::ce_coll, .turn = turn});
}

}  // namespace rollcall::profiler
