#include "profiler_plugin/handles.h"

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
// touched for a round: it is fetched a few events before it is wanted.
constexpr uint64_t kAhead = 4;
template <class Place, uint64_t kPlaces>
void fetch_ahead(Place (&places)[kPlaces], uint64_t turn) noexcept {
  __builtin_prefetch(&places[(turn + kAhead) % kPlaces], 1);
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
constinit thread_local Turns op_turns;
constinit thread_local Turns proxy_turns;

uint64_t next_turn(Turns& turns, std::atomic<uint64_t>& next_block) noexcept {
  if (__builtin_expect(turns.next == turns.end, 0)) {
    const uint64_t block = next_block.fetch_add(1, std::memory_order_relaxed);
    turns = {block * kBlock, block * kBlock + kBlock};
  }
  return turns.next++ & ((uint64_t{1} << kTurnBits) - 1);
}

// What an operation's place owes to the recorder when it is given to another before its end came:
// the record must not stay pinned.
[[gnu::noinline, gnu::cold]] void retire(OpPlace& place, uint32_t state) noexcept {
  const capture::OpToken token{place.record.load(std::memory_order_relaxed),
                               place.ticket.load(std::memory_order_relaxed)};
  if ((state & kOwn) != 0 && (state & kEnded) == 0) capture::end_op(token, kResultUnknown);
  if ((state & kHeld) != 0) capture::release_op(token);
  capture::count_statistic(&SelfStatistics::plugin_recycled);
}

}  // namespace

OpPlace& take_op(uint64_t& turn) noexcept {
  turn = next_turn(op_turns, next_op_block);
  OpPlace& place = op_places[turn % kOpPlaces];
  place.turn.store(kChanging, std::memory_order_relaxed);
  fetch_ahead(op_places, turn);
  // Who takes the bits away owes the end or the release: a late event may be about to do the same.
  // Only the place's owner sets them, so where none is set there is nothing to take.
  constexpr uint32_t kOwed = kHeld | kOpen;
  if (__builtin_expect((place.state.load(std::memory_order_acquire) & kOwed) != 0, 0)) {
    const uint32_t state = place.state.exchange(0, std::memory_order_acq_rel);
    if ((state & kOwed) != 0) retire(place, state);
  }
  place.state.store(0, std::memory_order_relaxed);
  place.next.store(0, std::memory_order_relaxed);
  place.group.store(0, std::memory_order_relaxed);
  place.operations.store(0, std::memory_order_relaxed);
  place.api_stopped.store(0, std::memory_order_relaxed);
  place.op_stopped.store(0, std::memory_order_relaxed);
  place.record.store(nullptr, std::memory_order_relaxed);
  place.ticket.store(0, std::memory_order_relaxed);
  return place;
}

ProxyPlace& take_proxy(uint64_t& turn) noexcept {
  turn = next_turn(proxy_turns, next_proxy_block);
  ProxyPlace& place = proxy_places[turn % kProxyPlaces];
  place.turn.store(kChanging, std::memory_order_relaxed);
  fetch_ahead(proxy_places, turn);
  for (unsigned step = 0; step < kStepsMax; ++step) {
    place.steps[step].store(0, std::memory_order_relaxed);
  }
  return place;
}

}  // namespace rollcall::profiler
