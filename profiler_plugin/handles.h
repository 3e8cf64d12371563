// The handles that NCCL keeps for this plugin: numbers, never addresses.
//
// NCCL hands back handles long after their event was stopped, twice, when it never started one, and
// from other processes. So a handle names a place in a fixed table and the turn in which the place
// was given out; the turn tells whether the place still belongs to it. Nothing is dereferenced that
// was not ours. A place is given to another event when its turn comes round, unless the plugin has
// a record in it whose call has not returned: that must not look as if it had because others did.
//
//     63..60  what it is (HandleKind; never 0, so that no handle is NULL)
//     59..52  channel of a KernelCh or KernelPhase; step of a ProxyStep
//     51..0   the turn: the place is turn % places
//
// Children of an operation share its place: a Coll is its CollApi's place seen as another kind. A
// GroupApi has a turn, but no place: it belongs to its thread (plugin_thread.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "core/capture/operations.h"
#include "profiler_plugin/plugin_thread.h"

namespace rollcall::profiler {

enum class HandleKind : uint8_t {
  none = 0,
  group_api = 1,
  call = 2,       // CollApi, P2pApi
  operation = 3,  // Coll, P2p
  group = 4,      // Group, where it may not be null
  proxy_op = 5,
  proxy_step = 6,
  kernel_ch = 7,
  kernel_phase = 8,
  ce_coll = 9,
  context = 10,
  pair = 11,          // of this plugin's handle and a chained plugin's
  dropped_call = 12,  // a call that no place was left for: its operation is not another call
};

// What every callback answers, whatever was wrong: NCCL up to 2.27 would stop profiling for the
// whole process, and later ones unload the plugin under other communicators.
inline constexpr int kSuccess = 0;

struct Handle {
  HandleKind kind = HandleKind::none;
  uint8_t detail = 0;
  uint64_t turn = 0;
};

inline constexpr unsigned kTurnBits = 52;
[[gnu::always_inline]] inline void* pack(Handle handle) noexcept {
  return reinterpret_cast<void*>(
      static_cast<uintptr_t>(uint64_t{static_cast<uint8_t>(handle.kind)} << 60 |
                             uint64_t{handle.detail} << kTurnBits | handle.turn));
}
// Its parts, of which most events want one or two.
inline HandleKind handle_kind(const void* value) noexcept {
  return static_cast<HandleKind>(reinterpret_cast<uintptr_t>(value) >> 60);
}
inline uint8_t handle_detail(const void* value) noexcept {
  return static_cast<uint8_t>(reinterpret_cast<uintptr_t>(value) >> kTurnBits);
}
inline uint64_t handle_turn(const void* value) noexcept {
  return reinterpret_cast<uintptr_t>(value) & ((uint64_t{1} << kTurnBits) - 1);
}

// Bits of OpPlace::state. Above them, 8 bits each: KernelCh events stopped, and expected.
inline constexpr uint32_t kOwn = 1;               // the record is the plugin's own, not the shim's
inline constexpr uint32_t kHeld = 2;              // there is a record, and hold_op was called
inline constexpr uint32_t kEnded = 4;             // end_told_op was called (own records)
inline constexpr uint32_t kInGroup = 8;           // in the list of a GroupApi
inline constexpr uint32_t kHostDone = 32;         // NCCL has returned to the job
inline constexpr uint32_t kAwaitsKernel = 64;     // held until its KernelCh events are complete
inline constexpr uint32_t kFromCall = 128;        // made by a CollApi or P2pApi
inline constexpr uint32_t kOpen = 256;            // own record, neither held nor ended
inline constexpr uint32_t kOfUser = 512;          // own record, in a group that the user made
inline constexpr uint32_t kAwaitsTelling = 1024;  // KernelCh times depend on its Coll (kernels.h)
inline constexpr uint32_t kUntold = 2048;         // which did not come
inline constexpr uint32_t kLate = 4096;           // its launch may come behind the end of its call
inline constexpr uint32_t kOutlivesCall = 8192;   // which is over: the launch is awaited
inline constexpr unsigned kKernelsStopped = 16;
inline constexpr unsigned kKernelsExpected = 24;

// An operation. Fields are atomic because NCCL's threads bring an operation's events in parallel,
// and because a late event may look at a place while it changes hands.
struct alignas(128) OpPlace {
  std::atomic<uint64_t> turn;  // 0: never used; ~0: changing hands
  std::atomic<uint32_t> state;
  std::atomic<OpRecord*> record;
  std::atomic<uint64_t> ticket;
  std::atomic<uint64_t> next;  // turn of the call before it in its group; 0: it is the first
  // One thread brings an event's stop, so these need no locked store, which `state` does.
  std::atomic<uint8_t> api_stopped;  // 1: the CollApi or P2pApi was
  std::atomic<uint8_t> op_stopped;   // 1: the Coll or P2p was
  // --- with KernelCh only
  alignas(64) std::atomic<uint64_t> open_channels;  // a bit per KernelCh in progress
  std::atomic<uint32_t> context;                    // index of the context
  std::atomic<uint64_t> kernel_number;    // among the context's operations with kernels, from 1
  std::atomic<uint64_t> kernel_start_ns;  // the GPU's clock: the first of all channels
  std::atomic<uint64_t> kernel_stop_ns;   // and the last
  std::atomic<uint64_t> launched_ns;      // CLOCK_MONOTONIC: not after the kernel's start
  std::atomic<uint32_t> kernel_spoiled;   // 1: some time of it belongs to another operation
};
static_assert(sizeof(OpPlace) == 128);

// Operations that late events can still name. Half a second at 16,000 operations per second, and
// no more than the flusher can wait for (kLateOpsMax).
inline constexpr uint64_t kOpPlaces = 8192;
static_assert((kOpPlaces & (kOpPlaces - 1)) == 0 && kOpPlaces <= kLateOpsMax);
// Attempts to find one that is not in a call. More calls than this that lie side by side and do not
// return are not one rank's.
inline constexpr unsigned kOpPlaceAttempts = 1024;

// Steps of one proxy operation that are open at a time: NCCL_STEPS.
inline constexpr unsigned kStepsMax = 8;

// Bits of ProxyPlace::state: a bit per step that is in progress, and per step of which bytes are
// known.
inline constexpr unsigned kStepsOpen = 0;
inline constexpr unsigned kStepsSized = 8;
inline constexpr uint32_t kProxyStopped = 1 << 16;

// What is read of it without its bit in `state` is another operation's, so that a new one need not
// clear two cache lines. One thread brings the events of a proxy operation.
struct alignas(128) ProxyPlace {
  std::atomic<uint64_t> turn;
  std::atomic<uint32_t> channel;  // index into the file's table of channels
  std::atomic<uint32_t> state;
  std::atomic<uint64_t> steps[kStepsMax];  // ticks << 8 | what it waits for
  std::atomic<uint32_t> bytes[kStepsMax];
};
static_assert(sizeof(ProxyPlace) == 128);
// Of one process: channels x peers x communicators in flight; the oldest is given up.
inline constexpr uint64_t kProxyPlaces = 4096;
static_assert((kProxyPlaces & (kProxyPlaces - 1)) == 0);

namespace handles_detail {
// Hidden and constant-initialised, as clock_detail's.
extern constinit OpPlace op_places[kOpPlaces] __attribute__((visibility("hidden")));
extern constinit ProxyPlace proxy_places[kProxyPlaces] __attribute__((visibility("hidden")));

template <class Place, uint64_t kPlaces>
inline Place* find(Place (&places)[kPlaces], uint64_t turn) noexcept {
  Place& place = places[turn % kPlaces];
  return turn != 0 && place.turn.load(std::memory_order_acquire) == turn ? &place : nullptr;
}

inline constexpr uint64_t kChanging = ~uint64_t{0};

// Turns are handed to threads in blocks: one shared counter per event would cost as much as the
// event. A thread's rest of a block is lost with the thread, and where others are far ahead of it:
// they come to the same places again, and of two threads at one place neither sees the other. So a
// turn of a place is compared with the least that may still be taken, which changes seldom enough
// to stay in each core's cache.
enum class TurnsOf : uint8_t { ops, proxies, groups, Count };
inline constexpr uint64_t kLapTurns = 1024;
static_assert(4 * kLapTurns <= kOpPlaces && 4 * kLapTurns <= kProxyPlaces);
extern constinit std::atomic<uint64_t> least_turn[static_cast<size_t>(TurnsOf::Count)]
    __attribute__((visibility("hidden")));
void draw_turns(Turns& turns, TurnsOf whose) noexcept;
inline uint64_t next_turn(Turns& turns, TurnsOf whose) noexcept {
  if (__builtin_expect(turns.next == turns.end, 0)) draw_turns(turns, whose);
  return turns.next++;
}
inline uint64_t next_turn_of_place(Turns& turns, TurnsOf whose) noexcept {
  const uint64_t least = least_turn[static_cast<size_t>(whose)].load(std::memory_order_relaxed);
  if (__builtin_expect(turns.next < least, 0)) draw_turns(turns, whose);
  return next_turn(turns, whose);
}

// The tables are larger than a core's own cache, and every event goes to a place that nobody has
// touched for a round: what every event writes of it is fetched a few events before it is wanted.
constexpr uint64_t kAhead = 4;
template <class Place, uint64_t kPlaces>
inline const char* place_ahead(Place (&places)[kPlaces], uint64_t turn) noexcept {
  return reinterpret_cast<const char*>(&places[(turn + kAhead) % kPlaces]);
}

// The place is the caller's, who has yet to say what is in it.
inline void occupy(OpPlace& place) noexcept {
  place.turn.store(kChanging, std::memory_order_relaxed);
  // As if there were a record: nobody else takes it before the caller has said what is in it.
  // Released, and so is what the caller says: whoever sees some of it sees that the turn is over.
  place.state.store(kOwn | kOpen, std::memory_order_release);
  place.next.store(0, std::memory_order_relaxed);
  place.api_stopped.store(0, std::memory_order_relaxed);
  place.op_stopped.store(0, std::memory_order_relaxed);
}
}  // namespace handles_detail

// A place given out anew, and the turn of it; or none.
template <class Place>
struct Taken {
  Place* place;
  uint64_t turn;
};

// The place of a turn, or null when it belongs to another by now.
inline OpPlace* find_op(uint64_t turn) noexcept {
  return handles_detail::find(handles_detail::op_places, turn);
}
inline ProxyPlace* find_proxy(uint64_t turn) noexcept {
  return handles_detail::find(handles_detail::proxy_places, turn);
}

// Answers of callbacks that found something wrong: one more of what the recorder counts about
// itself. A handle that is stale, or null.
[[gnu::cold]] int counted(uint64_t SelfStatistics::*statistic) noexcept;
[[gnu::cold]] int count_stale(const void* value) noexcept;
// The same as above, and counted where the place is another's.
inline OpPlace* find_op_counted(const void* value) noexcept {
  OpPlace* place = find_op(handle_turn(value));
  if (__builtin_expect(place == nullptr, 0)) count_stale(value);
  return place;
}
inline ProxyPlace* find_proxy_counted(const void* value) noexcept {
  ProxyPlace* place = find_proxy(handle_turn(value));
  if (__builtin_expect(place == nullptr, 0)) count_stale(value);
  return place;
}

// A new turn, in a place whose former owner is retired. Nobody finds it before publish(). Places of
// own records whose call has not returned are passed over (in a forked child also those of calls
// that its parent's other threads were in); null, and counted, where there are too many of them.
Taken<OpPlace> take_op_behind(uint64_t turn) noexcept;  // whose place is in use
inline Taken<OpPlace> take_op() noexcept {
  using namespace handles_detail;
  const uint64_t turn = next_turn_of_place(this_plugin_thread.op_turns, TurnsOf::ops);
  OpPlace& place = op_places[turn % kOpPlaces];
  __builtin_prefetch(place_ahead(op_places, turn), 1);
  const uint32_t state = place.state.load(std::memory_order_acquire);
  if (__builtin_expect((state & (kHeld | kOpen)) != 0, 0)) return take_op_behind(turn);
  occupy(place);
  return {&place, turn};
}
inline Taken<ProxyPlace> take_proxy() noexcept {
  using namespace handles_detail;
  const uint64_t turn = next_turn_of_place(this_plugin_thread.proxy_turns, TurnsOf::proxies);
  ProxyPlace& place = proxy_places[turn % kProxyPlaces];
  place.turn.store(kChanging, std::memory_order_relaxed);
  place.state.store(0, std::memory_order_release);
  __builtin_prefetch(place_ahead(proxy_places, turn), 1);
  return {&place, turn};
}
inline uint64_t take_group_turn() noexcept {  // no place goes with it
  using namespace handles_detail;
  return next_turn(this_plugin_thread.group_turns, TurnsOf::groups);
}
template <class Place>
inline void publish(Place& place, uint64_t turn) noexcept {
  place.turn.store(turn, std::memory_order_release);
}

// A token out of a place; empty when the place changed hands meanwhile.
inline capture::OpToken token_of(const OpPlace& place, uint64_t turn) noexcept {
  const capture::OpToken token{place.record.load(std::memory_order_relaxed),
                               place.ticket.load(std::memory_order_relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  return place.turn.load(std::memory_order_relaxed) == turn ? token : capture::OpToken{};
}

}  // namespace rollcall::profiler
