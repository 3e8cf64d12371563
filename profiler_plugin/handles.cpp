#include "profiler_plugin/handles.h"

#include "core/capture/process.h"

namespace rollcall::profiler {

thread_local constinit PluginThread this_plugin_thread{};

namespace handles_detail {

constinit OpPlace op_places[kOpPlaces]{};
constinit ProxyPlace proxy_places[kProxyPlaces]{};
constinit std::atomic<uint64_t> least_turn[static_cast<size_t>(TurnsOf::Count)]{};

namespace {

constexpr uint64_t kBlock = 16;
static_assert(kLapTurns % kBlock == 0);
constinit std::atomic<uint64_t> next_block[static_cast<size_t>(TurnsOf::Count)]{};

// From the block that begins a lap on no turn is taken that is older than the lap before.
void begin_lap(TurnsOf whose, uint64_t turn) noexcept {
  std::atomic<uint64_t>& least = least_turn[static_cast<size_t>(whose)];
  const uint64_t from = turn - kLapTurns;
  uint64_t before = least.load(std::memory_order_relaxed);
  while (before < from && !least.compare_exchange_weak(before, from, std::memory_order_relaxed)) {
  }
}

// There is an own record, and its end is still to come; or there will be one.
bool is_in_call(uint32_t state) noexcept {
  return (state & (kOpen | kHeld)) != 0 && (state & (kOwn | kEnded)) == kOwn;
}

// Gives up the hold of an operation whose kernels were not heard of before its place is wanted: the
// record must not stay pinned. False where the place cannot be had. A late event may be about to
// give up the same hold: who takes the bit away owes the release.
bool retire(OpPlace& place) noexcept {
  if (is_in_call(place.state.load(std::memory_order_acquire))) return false;
  const uint32_t state = place.state.exchange(0, std::memory_order_acq_rel);
  if ((state & kHeld) == 0) return true;
  capture::release_op(
      {place.record.load(std::memory_order_relaxed), place.ticket.load(std::memory_order_relaxed)});
  capture::count_statistic(&SelfStatistics::plugin_recycled);
  return true;
}

}  // namespace

[[gnu::noinline]] void draw_turns(Turns& turns, TurnsOf whose) noexcept {
  // The first block is the one behind turn 0, which is nobody's. A handle has 52 bits for a turn.
  constexpr uint64_t kBlocks = (uint64_t{1} << kTurnBits) / kBlock;
  const uint64_t drawn =
      next_block[static_cast<size_t>(whose)].fetch_add(1, std::memory_order_relaxed);
  const uint64_t block = drawn % (kBlocks - 1) + 1;
  turns = {block * kBlock, block * kBlock + kBlock};
  if (turns.next % kLapTurns == 0) begin_lap(whose, turns.next);
}

}  // namespace handles_detail

int counted(uint64_t SelfStatistics::*statistic) noexcept {
  capture::count_statistic(statistic);
  return kSuccess;
}

int count_stale(const void* value) noexcept {
  return counted(handle_kind(value) == HandleKind::none ? &SelfStatistics::plugin_null
                                                        : &SelfStatistics::plugin_stale);
}

[[gnu::noinline]] Taken<OpPlace> take_op_behind(uint64_t turn) noexcept {
  using namespace handles_detail;
  for (unsigned attempt = 0; attempt < kOpPlaceAttempts; ++attempt) {
    OpPlace& place = op_places[turn % kOpPlaces];
    const uint32_t state = place.state.load(std::memory_order_acquire);
    if ((state & (kHeld | kOpen)) == 0 || retire(place)) {
      occupy(place);
      return {&place, turn};
    }
    turn = next_turn_of_place(this_plugin_thread.op_turns, TurnsOf::ops);
  }
  capture::count_statistic(&SelfStatistics::plugin_full);
  return {nullptr, 0};
}

}  // namespace rollcall::profiler
