// The path of an operation. No lock, no allocation, no system call, no formatting.
#include "core/capture/recorder.h"

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/capture/comm_handles.h"
#include "core/capture/live.h"
#include "core/capture/tickets.h"
#include "core/gpu/common_sample.h"

namespace rollcall::capture {

constinit Live live{};
thread_local constinit ThreadState this_thread{};

namespace {

// Without a flusher nobody refreshes the clock anchors, so every so many operations one of them
// does: four reads of the vDSO clocks in 65,536 calls.
constexpr uint64_t kAnchorTickets = 1u << 16;

[[gnu::noinline, gnu::cold]] uint32_t find_comm_slowly(const void* handle) noexcept {
  const KeepErrno keep;
  return find_or_adopt_comm(handle);
}

inline uint32_t comm_index_of(const void* handle) noexcept {
  if (handle == nullptr) return kCommUnknown;
  const uint32_t index = find_in_first_place(handle);
  return __builtin_expect(index != kCommUnknown, 1) ? index : find_comm_slowly(handle);
}

// The job has loaded the driver before it has a communicator; once for each that a thread comes to
// is often enough.
[[gnu::noinline, gnu::cold]] void look_for_gpu(ThreadState& thread, const void* handle) noexcept {
  if (handle == nullptr) return;
  const KeepErrno keep;
  thread.gpu_wanted_with = handle;
  start_gpu_timing();
}

// A bit for each kind: with each call, the table would be one more line of memory to fetch.
consteval uint32_t bits_of_collectives() {
  static_assert(kOpKinds <= 32);
  uint32_t bits = 0;
  for (uint32_t kind = 0; kind < kOpKinds; ++kind) {
    if (is_collective(static_cast<OpKind>(kind))) bits |= uint32_t{1} << kind;
  }
  return bits;
}
inline bool is_among_collectives(OpKind kind) noexcept {
  return (bits_of_collectives() >> static_cast<uint32_t>(kind) & 1) != 0;
}

struct Position {
  uint64_t seq;
  uint8_t flags;
};

// Of all but collectives on a known communicator. What is seldom called takes no OpCall, so that
// the compiler need not make one in memory for it.
[[gnu::noinline]] Position next_position_of_others(OpKind kind, uint8_t op_flags, int32_t peer,
                                                   uint64_t count_or_replay,
                                                   uint32_t comm_index) noexcept {
  const OpFamily family = traits_of(kind).family;
  if (family == OpFamily::mark) return {count_or_replay, 0};
  if (__builtin_expect(comm_index == kCommUnknown, 0)) {
    count(live.stats->seq_unknown);
    return {0, kOpSeqUnknown};
  }
  CommEntry& comm = live.comms[comm_index];
  uint64_t seq = 0;
  if (__builtin_expect(family == OpFamily::rma, 0)) {
    // Not an error where it cannot be counted: a wait may be for several peers at once.
    const uint32_t steps = steps_of(kind, count_or_replay);
    const bool counted = next_p2p_seq(comm_index, peer, counter_of(kind), seq, steps);
    return {seq, counted ? uint8_t{0} : kOpSeqUnknown};
  }
  add_relaxed(kind == OpKind::Send ? comm.sends : comm.recvs, uint64_t{1});
  // The plugin hears of the peer later: enrich_op() counts then.
  if (peer < 0 && (op_flags & kOpFromPlugin) != 0) return {0, kOpSeqUnknown};
  if (next_p2p_seq(comm_index, peer, counter_of(kind), seq)) return {seq, 0};
  count(live.stats->seq_unknown);
  return {0, kOpSeqUnknown};
}

// Counts also where no record follows (paused, ring full): seq is the position among the calls, not
// among the records. NCCL wants calls on one communicator serialised by its user, and each has one
// counter, so a plain increment would do; the atomic one costs nothing measurable and is right for
// programs that are not.
[[gnu::always_inline]] inline Position next_position(const OpCall& call,
                                                     uint32_t comm_index) noexcept {
  const bool is_known_collective = is_among_collectives(call.kind) && comm_index != kCommUnknown;
  if (__builtin_expect(!is_known_collective, 0)) {
    return next_position_of_others(call.kind, call.flags, call.root_or_peer,
                                   is_mark(call.kind) ? call.replay : call.count, comm_index);
  }
  return {add_relaxed(live.comms[comm_index].collectives, uint64_t{1}), 0};
}

inline uint64_t word_of_address(const void* address) noexcept {
  return reinterpret_cast<uintptr_t>(address);
}

// The last word of a record: everything that is smaller than a word.
inline uint64_t small_fields_of(const OpCall& call, uint8_t more_flags) noexcept {
  struct SmallFields {
    int16_t result;
    OpKind kind;
    uint8_t datatype;
    uint8_t reduction;
    uint8_t flags;
    uint8_t method;
    uint8_t channels;
  };
  static_assert(sizeof(SmallFields) == 8);
  static_assert(offsetof(SmallFields, kind) == offsetof(OpRecord, kind) - 120);
  static_assert(offsetof(SmallFields, flags) == offsetof(OpRecord, flags) - 120);
  return std::bit_cast<uint64_t>(SmallFields{.result = kResultUnknown,
                                             .kind = call.kind,
                                             .datatype = call.datatype,
                                             .reduction = call.reduction,
                                             .flags = static_cast<uint8_t>(call.flags | more_flags),
                                             .method = 0,
                                             .channels = 0});
}

[[gnu::always_inline]] inline void fill_record(OpRecord* record, const OpCall& call,
                                               const ThreadState& thread, uint32_t comm_index,
                                               uint32_t graph, const Position& position,
                                               uint8_t gpu_flags, uint64_t called_ticks) noexcept {
  using ring::store_word;
  using ring::word_of;
  store_word(record, offsetof(OpRecord, called_ticks), called_ticks);
  store_word(record, offsetof(OpRecord, returned_ticks), 0);
  store_word(record, offsetof(OpRecord, started_ticks), 0);
  store_word(record, offsetof(OpRecord, finished_ticks), 0);
  store_word(record, offsetof(OpRecord, count), call.count);
  store_word(record, offsetof(OpRecord, send_address), word_of_address(call.send));
  store_word(record, offsetof(OpRecord, recv_address), word_of_address(call.recv));
  store_word(record, offsetof(OpRecord, stream), word_of_address(call.stream));
  store_word(record, offsetof(OpRecord, seq), position.seq);
  store_word(record, offsetof(OpRecord, caller), word_of_address(call.caller));
  store_word(record, offsetof(OpRecord, launched_ticks), 0);
  store_word(record, offsetof(OpRecord, comm_index),
             word_of(comm_index, static_cast<uint32_t>(call.root_or_peer)));
  store_word(record, offsetof(OpRecord, group), word_of(call.group, thread.index));
  store_word(record, offsetof(OpRecord, graph), word_of(graph, call.frames));
  store_word(record, offsetof(OpRecord, result), small_fields_of(call, position.flags | gpu_flags));
}

// What hold_groups() asked for. The group's end is held too, which leads it to end_held().
[[gnu::noinline, gnu::cold]] void hold_for_group(ThreadState& thread, const OpCall& call) noexcept {
  const OpFamily family = traits_of(call.kind).family;
  const bool counted = family == OpFamily::coll || family == OpFamily::p2p;
  if (call.group == 0 || !(counted || family == OpFamily::mark)) return;
  hold_op(thread.call);
}

// Others hold the record, or the thread has ended a group whose operations are held.
[[gnu::noinline, gnu::cold]] void end_held(OpToken token) noexcept {
  if (token.record->kind == OpKind::GroupEnd) release_group(this_thread, token);
  ring::publish_slot(token.record, token.ticket, Phase::gpu_pending);
  if (holds_of(token.ticket).fetch_sub(1, std::memory_order_acq_rel) == 1) {
    ring::publish_slot(token.record, token.ticket, Phase::settled);
  }
}

inline void finish_op(OpToken token, int result) noexcept {
  ring::store_return(token.record, ticks_now(), static_cast<int16_t>(result));
  // A further hold is taken by the thread inside the call, or by the plugin's on a record of its
  // own before that has ended (profiler_plugin/operations.cpp): one hold stays one.
  if (__builtin_expect(holds_of(token.ticket).load(std::memory_order_acquire) == 1, 1)) {
    ring::publish_slot(token.record, token.ticket, Phase::settled);
  } else {
    end_held(token);
  }
}

// A call that is not recorded. Where it is the end of a group of the job's nobody will mark that
// group's operations on the GPU, or give them free where hold_groups() has them wait for it.
[[gnu::noinline, gnu::cold]] OpToken drop_op(uint64_t& reason, const OpCall& call,
                                             bool is_call) noexcept {
  count(reason);
  if (is_call && call.kind == OpKind::GroupEnd) {
    group_abandoned();
    release_unended_group(call.group);
  }
  return {};
}

// --- GPU timing ---------------------------------------------------------------------------------

// Of an operation that its communicator's other ranks, or its peer, count as this one does; 0:
// nobody knows its place.
[[gnu::noinline]] uint64_t hash_of_place(const OpCall& call, const CommEntry* comm,
                                         Position position) noexcept {
  if (comm == nullptr || comm->key.is_null() || (position.flags & kOpSeqUnknown) != 0) return 0;
  gpu::CallPlace place{.seq = position.seq};
  if (!is_among_collectives(call.kind)) {
    const bool is_send = call.kind == OpKind::Send;
    if ((!is_send && call.kind != OpKind::Recv) || comm->rank < 0) return 0;
    place.sender = is_send ? comm->rank : call.root_or_peer;
    place.receiver = is_send ? call.root_or_peer : comm->rank;
  }
  return gpu::sample_hash(comm->key, place);
}

// What the plugin saw is launched already. A non-blocking communicator launches on a thread of
// NCCL's, where activity records do not find the call.
[[gnu::always_inline]] inline void plan_gpu(gpu::Timer& timer, ThreadState& thread,
                                            const OpCall& call, uint32_t comm_index,
                                            Position position, gpu::Plan& plan) noexcept {
  if (call.kind == OpKind::GroupEnd || (call.flags & kOpFromPlugin) != 0) return;
  const CommEntry* comm = comm_index != kCommUnknown ? &live.known_comms[comm_index] : nullptr;
  if (timer.has_activity() && comm != nullptr && comm->non_blocking != 0) return;
  const uint64_t hash =
      gpu::Timer::is_sampling(thread.gpu) ? hash_of_place(call, comm, position) : 0;
  timer.plan(thread.gpu, call.stream, call.group, comm, hash, plan);
}

[[gnu::always_inline]] inline void mark_gpu(gpu::Timer& timer, ThreadState& thread,
                                            const OpCall& call, const gpu::Plan& plan,
                                            OpToken token) noexcept {
  if (call.kind == OpKind::GroupEnd) {
    timer.begin_group_end(thread.gpu, call.group);
  } else if ((call.flags & kOpFromPlugin) == 0) {
    timer.mark(thread.gpu, plan, token.record, token.ticket, call.stream, call.group);
  }
}

gpu::Launch launch_of(int result) noexcept {
  if (result == kResultInProgress) return gpu::Launch::in_progress;
  return result == kResultSuccess ? gpu::Launch::done : gpu::Launch::refused;
}

[[gnu::noinline]] void end_op_timed(gpu::Timer& timer, OpToken token, int result) noexcept {
  gpu::Thread& gpu = this_thread.gpu;
  const gpu::Launch launch = launch_of(result);
  // This thread wrote it. Where somebody has written over it, what the timer keeps for the thread
  // is given up by the next call.
  const bool is_group_end = token.record->kind == OpKind::GroupEnd;
  const bool awaits = !is_group_end && timer.close(gpu, token.record, token.ticket, launch);
  if (is_group_end) timer.finish_group_end(gpu, launch);
  if (!awaits) return finish_op(token, result);
  // The hold of the call is the timer's from here on.
  ring::store_return(token.record, ticks_now(), static_cast<int16_t>(result));
  ring::publish_slot(token.record, token.ticket, Phase::gpu_pending);
  timer.opened(gpu);
}

// Null where the GPU is not timed.
[[gnu::always_inline]] inline gpu::Timer* gpu_timer_for(ThreadState& thread,
                                                        const void* comm_handle) noexcept {
  const bool looks =
      live.wants_gpu.load(std::memory_order_relaxed) && thread.gpu_wanted_with != comm_handle;
  if (__builtin_expect(looks, 0)) look_for_gpu(thread, comm_handle);
  return live.gpu.load(std::memory_order_acquire);
}

// `kMayBeCall`: false where it is known to be from the plugin, whose events are no calls of the
// job's and have no GPU marks. `timer` is null then.
template <bool kMayBeCall>
[[gnu::always_inline]] inline OpToken begin(ThreadState& thread, const OpCall& call,
                                            gpu::Timer* timer) noexcept {
  if (!ROLLCALL_CHECK(call.kind < OpKind::Count)) return {};
  const bool is_call = kMayBeCall && (call.flags & kOpFromPlugin) == 0;
  if (is_call) {
    thread.in_call = true;
    thread.call = {};
  }
  const uint32_t comm_index = comm_index_of(call.comm_handle);
  const Position position = next_position(call, comm_index);
  // Between two locked additions, with which the counter is read at the same time: in front of the
  // first it cost 3 ns more.
  const uint64_t called_ticks = ticks_now();
  if (is_call && call.group != 0) ++thread.group_operations;
  if (__builtin_expect(is_paused(), 0)) {
    return drop_op(live.stats->dropped_paused, call, is_call);
  }
  gpu::Plan plan;
  if (timer != nullptr) plan_gpu(*timer, thread, call, comm_index, position, plan);
  const uint64_t newest =
      comm_index != kCommUnknown ? load_relaxed(live.comms[comm_index].last_ticket) : 0;
  const auto [record, ticket] = ring::claim_slot(live.ops, [&] {
    return timer != nullptr ? next_single_ticket(thread)
                            : next_ticket(thread, called_ticks, newest);
  });
  if (__builtin_expect(record == nullptr, 0))
    return drop_op(live.stats->dropped_pinned, call, is_call);
  const uint32_t graph = call.graph != 0 ? call.graph : plan.graph;
  fill_record(record, call, thread, comm_index, graph, position, plan.flags(), called_ticks);
  holds_of(ticket).store(1, std::memory_order_relaxed);
  ring::publish_slot(record, ticket, Phase::called);
  if (comm_index != kCommUnknown) store_relaxed(live.comms[comm_index].last_ticket, ticket);
  if (__builtin_expect((ticket & (kAnchorTickets - 1)) == 0 && !live.has_flusher, 0)) {
    refresh_anchor();
  }
  if (is_call) {
    thread.call = {record, ticket};
    if (__builtin_expect(live.holds_groups.load(std::memory_order_relaxed), 0)) {
      hold_for_group(thread, call);
    }
  }
  if (timer != nullptr) mark_gpu(*timer, thread, call, plan, {record, ticket});
  return {record, ticket};
}

// A copy of its own: without GPU timing nothing of it is paid for.
[[gnu::noinline]] OpToken begin_timed(ThreadState& thread, const OpCall& call,
                                      gpu::Timer& timer) noexcept {
  return begin<true>(thread, call, &timer);
}

}  // namespace

bool enabled() noexcept { return enter(this_thread) && !is_paused(); }

OpToken begin_op(const OpCall& call) noexcept {
  ThreadState& thread = this_thread;
  if (!enter(thread)) return {};
  gpu::Timer* timer = gpu_timer_for(thread, call.comm_handle);
  return timer != nullptr ? begin_timed(thread, call, *timer) : begin<true>(thread, call, nullptr);
}

OpToken begin_told_op(ToldOp op, uint64_t count, const void* stream, const void* comm_handle,
                      uint32_t group) noexcept {
  ThreadState& thread = this_thread;
  if (!enter(thread)) return {};
  gpu_timer_for(thread, comm_handle);
  const OpCall call{.kind = op.kind,
                    .datatype = op.datatype,
                    .flags = kOpFromPlugin,
                    .root_or_peer = op.root_or_peer,
                    .count = count,
                    .stream = stream,
                    .comm_handle = comm_handle,
                    .group = group,
                    .graph = op.is_captured ? 1u : 0u};
  return begin<false>(thread, call, nullptr);
}

void drop_told_op(ToldOp op, const void* comm_handle) noexcept {
  ThreadState& thread = this_thread;
  if (!enter(thread) || !ROLLCALL_CHECK(op.kind < OpKind::Count)) return;
  const OpCall call{.kind = op.kind, .flags = kOpFromPlugin, .root_or_peer = op.root_or_peer};
  next_position(call, comm_index_of(comm_handle));
  count(live.stats->dropped_pinned);
}

void end_op(OpToken token, int result) noexcept {
  ThreadState& thread = this_thread;
  if (thread.call.ticket == token.ticket) thread.in_call = false;
  if (token.record == nullptr) return;
  if (!ring::slot_holds(token.record, token.ticket, Phase::called)) return;
  gpu::Timer* timer = live.gpu.load(std::memory_order_relaxed);
  if (__builtin_expect(timer != nullptr, 0)) return end_op_timed(*timer, token, result);
  finish_op(token, result);
}

namespace {

// Unknown where its creation was not seen, or has no config: NCCL_COMM_BLOCKING decides then.
bool may_come_back_early(uint32_t comm_index) noexcept {
  const CommEntry* comm = comm_entry(comm_index);
  if (comm == nullptr) return false;
  return comm->non_blocking != 0 || comm->origin == CommOrigin::unknown ||
         comm->origin == CommOrigin::init_all;
}

}  // namespace

AskedCalls before_asking(uint32_t comm_index) noexcept {
  gpu::Timer* timer = live.gpu.load(std::memory_order_relaxed);
  if (timer == nullptr || !may_come_back_early(comm_index)) return {};
  const gpu::Timer::Asked asked =
      timer->open_end_of(load_relaxed(live.comms[comm_index].last_ticket));
  return {asked.end, asked.name};
}

void calls_settled(const AskedCalls& asked, uint32_t comm_index, bool is_launched) noexcept {
  gpu::Timer* timer = live.gpu.load(std::memory_order_relaxed);
  if (timer == nullptr || !may_come_back_early(comm_index)) return;
  timer->settle(this_thread.gpu, {static_cast<gpu::OpenEnd*>(asked.end), asked.name}, comm_index,
                load_relaxed(live.comms[comm_index].last_ticket), is_launched);
}

void end_told_op(OpToken token) noexcept {
  if (ring::slot_holds(token.record, token.ticket, Phase::called)) finish_op(token, kResultUnknown);
}

}  // namespace rollcall::capture
