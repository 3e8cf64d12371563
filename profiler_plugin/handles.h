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
// GroupApi has a turn, but no place: it belongs to its thread (operations.cpp).
#pragma once

#include <atomic>
#include <cstdint>

#include "core/capture/recorder.h"

namespace rollcall::profiler {

enum class HandleKind : uint8_t {
  none = 0,
  group_api = 1,
  call = 2,       // CollApi, P2pApi
  operation = 3,  // Coll, P2p
  group = 4,      // Group: says nothing, but a NULL one would make NCCL 2.27 drop its children
  proxy_op = 5,
  proxy_step = 6,
  kernel_ch = 7,
  kernel_phase = 8,
  ce_coll = 9,
  context = 10,
  pair = 11,          // of this plugin's handle and a chained plugin's
  dropped_call = 12,  // a call that no place was left for: its operation is not another call
};

struct Handle {
  HandleKind kind = HandleKind::none;
  uint8_t detail = 0;
  uint64_t turn = 0;
};

inline constexpr unsigned kTurnBits = 52;
inline void* pack(Handle handle) noexcept {
  return reinterpret_cast<void*>(
      static_cast<uintptr_t>(uint64_t{static_cast<uint8_t>(handle.kind)} << 60 |
                             uint64_t{handle.detail} << kTurnBits | handle.turn));
}
inline Handle unpack(const void* value) noexcept {
  const uint64_t bits = reinterpret_cast<uintptr_t>(value);
  return {.kind = static_cast<HandleKind>(bits >> 60),
          .detail = static_cast<uint8_t>(bits >> kTurnBits),
          .turn = bits & ((uint64_t{1} << kTurnBits) - 1)};
}

// Bits of OpPlace::state. Above them, 8 bits each: KernelCh events stopped, and expected.
inline constexpr uint32_t kOwn = 1;            // the record is the plugin's own, not the shim's
inline constexpr uint32_t kHeld = 2;           // there is a record, and hold_op was called
inline constexpr uint32_t kEnded = 4;          // end_op was called (own records)
inline constexpr uint32_t kInGroup = 8;        // in the list of a GroupApi
inline constexpr uint32_t kHostDone = 32;      // NCCL has returned to the job
inline constexpr uint32_t kAwaitsKernel = 64;  // held until its KernelCh events are complete
inline constexpr uint32_t kFromCall = 128;     // made by a CollApi or P2pApi
inline constexpr uint32_t kOpen = 256;         // own record, neither held nor ended
inline constexpr uint32_t kOfUser = 512;       // own record, in a group that the user made
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

struct alignas(128) ProxyPlace {
  std::atomic<uint64_t> turn;
  std::atomic<uint32_t> channel;           // index into the file's table of channels
  std::atomic<uint8_t> stopped;            // 1: it was; as above
  std::atomic<uint64_t> steps[kStepsMax];  // ticks << 8 | what it waits for; 0: no such step
  std::atomic<uint32_t> bytes[kStepsMax];  // of a step in progress
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
}  // namespace handles_detail

// The place of a turn, or null when it belongs to another by now.
inline OpPlace* find_op(uint64_t turn) noexcept {
  return handles_detail::find(handles_detail::op_places, turn);
}
inline ProxyPlace* find_proxy(uint64_t turn) noexcept {
  return handles_detail::find(handles_detail::proxy_places, turn);
}
// A new turn, in a place whose former owner is retired. Nobody finds it before publish(). Places of
// own records whose call has not returned are passed over (in a forked child also those of calls
// that its parent's other threads were in); null, and counted, where there are too many of them.
OpPlace* take_op(uint64_t& turn) noexcept;
ProxyPlace& take_proxy(uint64_t& turn) noexcept;
uint64_t take_group_turn() noexcept;  // no place goes with it
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
