#include "profiler_plugin/handles.h"

#include <type_traits>

namespace rollcall::profiler {

namespace handles_detail {
constinit OpPlace op_places[kOpPlaces]{};
constinit ProxyPlace proxy_places[kProxyPlaces]{};
}  // namespace handles_detail

namespace {

using handles_detail::op_places;
using handles_detail::proxy_places;

constexpr uint64_t kChanging = ~uint64_t{0};

// The tables are larger than a core's own cache, and every event goes to a place that nobody has
// touched for a round: what every event writes of it is fetched a few events before it is wanted.
constexpr uint64_t kAhead = 4;
template <class Place, uint64_t kPlaces>
void fetch_ahead(Place (&places)[kPlaces], uint64_t turn) noexcept {
  const char* const place = reinterpret_cast<const char*>(&places[(turn + kAhead) % kPlaces]);
  __builtin_prefetch(place, 1);
  if constexpr (std::is_same_v<Place, ProxyPlace>) __builtin_prefetch(place + 64, 1);
}

// Turns are handed to threads in blocks: one shared counter per event would cost as much as the
// event. A thread's rest of a block is lost with the thread.
constexpr uint64_t kBlock = 16;
struct Turns {
  uint64_t next = 0;
  uint64_t end = 0;
};
constinit std::atomic<uint64_t> next_op_block{1};
constinit std::atomic<uint64_t> next_proxy_block{1};
constinit std::atomic<uint64_t> next_group_block{1};
constinit thread_local Turns op_turns;
constinit thread_local Turns proxy_turns;
constinit thread_local Turns group_turns;

uint64_t next_turn(Turns& turns, std::atomic<uint64_t>& next_block) noexcept {
  if (__builtin_expect(turns.next == turns.end, 0)) {
    const uint64_t block = next_block.fetch_add(1, std::memory_order_relaxed);
    turns = {block * kBlock, block * kBlock + kBlock};
  }
  return turns.next++ & ((uint64_t{1} << kTurnBits) - 1);
}

// There is an own record, and its end is still to come; or there will be one.
bool is_in_call(uint32_t state) noexcept {
  return (state & (kOpen | kHeld)) != 0 && (state & (kOwn | kEnded)) == kOwn;
}

// Gives up the hold of an operation whose kernels were not heard of before its place is wanted: the
// record must not stay pinned. False where the place cannot be had. A late event may be about to
// give up the same hold: who takes the bit away owes the release.
[[gnu::noinline, gnu::cold]] bool retire(OpPlace& place) noexcept {
  if (is_in_call(place.state.load(std::memory_order_acquire))) return false;
  const uint32_t state = place.state.exchange(0, std::memory_order_acq_rel);
  if ((state & kHeld) == 0) return true;
  capture::release_op(
      {place.record.load(std::memory_order_relaxed), place.ticket.load(std::memory_order_relaxed)});
  capture::count_statistic(&SelfStatistics::plugin_recycled);
  return true;
}

}  // namespace

OpPlace* take_op(uint64_t& turn) noexcept {
  for (unsigned attempt = 0; attempt < kOpPlaceAttempts; ++attempt) {
    turn = next_turn(op_turns, next_op_block);
    OpPlace& place = op_places[turn % kOpPlaces];
    fetch_ahead(op_places, turn);
    const uint32_t state = place.state.load(std::memory_order_acquire);
    if (__builtin_expect((state & (kHeld | kOpen)) != 0, 0) && !retire(place)) continue;
    place.turn.store(kChanging, std::memory_order_relaxed);
    // As if there were a record: nobody else takes it before the caller has said what is in it.
    // Released, and so is what the caller says: whoever sees some of it sees that the turn is over.
    place.state.store(kOwn | kOpen, std::memory_order_release);
    place.next.store(0, std::memory_order_relaxed);
    place.api_stopped.store(0, std::memory_order_relaxed);
    place.op_stopped.store(0, std::memory_order_relaxed);
    return &place;
  }
  capture::count_statistic(&SelfStatistics::plugin_full);
  return nullptr;
}

ProxyPlace& take_proxy(uint64_t& turn) noexcept {
  turn = next_turn(proxy_turns, next_proxy_block);
  ProxyPlace& place = proxy_places[turn % kProxyPlaces];
  place.turn.store(kChanging, std::memory_order_relaxed);
  fetch_ahead(proxy_places, turn);
#pragma GCC unroll 8
  for (unsigned step = 0; step < kStepsMax; ++step) {
    place.steps[step].store(0, std::memory_order_relaxed);
  }
  return place;
}

uint64_t take_group_turn() noexcept { return next_turn(group_turns, next_group_block); }

}  // namespace rollcall::profiler
