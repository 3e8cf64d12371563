#include "profiler_plugin/phases.h"

#include "core/capture/process.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/mapped_table.h"
#include "profiler_plugin/settings.h"

namespace rollcall::profiler {
namespace {

// Of the operation that has the place of the same turn; written by the thread that brings its
// KernelCh events. Beside OpPlace, which every operation touches.
struct alignas(64) PhasePlace {
  std::atomic<uint64_t> turn;
  std::atomic<uint64_t> start_ns;               // of the phase in progress; 0: none, or unknown
  std::atomic<uint64_t> ns[kKernelPhaseCount];  // ended so far, on all channels
  std::atomic<uint32_t> open;                   // detail of the phase in progress, plus 1; 0: none
  std::atomic<uint32_t> told;                   // phases that ended
  std::atomic<uint32_t> spoiled;                // 1: some time of it cannot be true
};
static_assert(sizeof(PhasePlace) == 64);
constinit MappedTable<PhasePlace, kOpPlaces> phase_places{};

constexpr unsigned kPhaseShift = 6;
static_assert(kKernelPhaseCount <= 1u << (8 - kPhaseShift), "the detail of a handle has 8 bits");

uint8_t detail_of(uint8_t channel, uint8_t phase) noexcept {
  return static_cast<uint8_t>(phase << kPhaseShift | (channel & ((1u << kPhaseShift) - 1)));
}

// The place, cleared where it was another operation's.
PhasePlace& place_of(PhasePlace* places, uint64_t turn) noexcept {
  PhasePlace& place = places[turn % kOpPlaces];
  if (place.turn.load(std::memory_order_relaxed) == turn) return place;
  place.start_ns.store(0, std::memory_order_relaxed);
  for (std::atomic<uint64_t>& ns : place.ns) ns.store(0, std::memory_order_relaxed);
  place.open.store(0, std::memory_order_relaxed);
  place.told.store(0, std::memory_order_relaxed);
  place.spoiled.store(0, std::memory_order_relaxed);
  place.turn.store(turn, std::memory_order_relaxed);
  return place;
}

// Of a phase that was started and whose operation still has its place; null, and counted, else.
PhasePlace* find_counted(const void* value) noexcept {
  PhasePlace* places = phase_places.entries();
  PhasePlace* place = places != nullptr ? &places[handle_turn(value) % kOpPlaces] : nullptr;
  const bool is_ours =
      place != nullptr && place->turn.load(std::memory_order_relaxed) == handle_turn(value);
  if (is_ours && find_op(handle_turn(value)) != nullptr) return place;
  count_stale(value);
  return nullptr;
}

int spoil(PhasePlace& place) noexcept {
  place.spoiled.store(1, std::memory_order_relaxed);
  return counted(&SelfStatistics::plugin_kernel_lost);
}

}  // namespace

void* start_phase(const Event& event) noexcept {
  if ((wanted_events() & kKernelPhase) == 0 || event.phase >= kKernelPhaseCount) {
    capture::count_statistic(&SelfStatistics::plugin_unwanted);
    return nullptr;
  }
  // The parent is null where this plugin wanted nothing of the KernelCh.
  const HandleKind parent = handle_kind(event.parent);
  if (parent == HandleKind::none) return nullptr;
  const uint64_t turn = handle_turn(event.parent);
  const OpPlace* op = parent == HandleKind::kernel_ch ? find_op(turn) : nullptr;
  const uint8_t channel = handle_detail(event.parent);
  const uint64_t bit = uint64_t{1} << (channel % 64);
  if (op == nullptr || (op->open_channels.load(std::memory_order_relaxed) & bit) == 0) {
    count_stale(event.parent);
    return nullptr;
  }
  PhasePlace* places = phase_places.wanted_entries();
  if (places == nullptr) {
    capture::count_statistic(&SelfStatistics::plugin_full);
    return nullptr;
  }
  PhasePlace& place = place_of(places, turn);
  const uint8_t detail = detail_of(channel, event.phase);
  place.start_ns.store(event.timer_ns, std::memory_order_relaxed);
  place.open.store(uint32_t{detail} + 1, std::memory_order_relaxed);
  const bool is_early = event.timer_ns < op->kernel_start_ns.load(std::memory_order_relaxed);
  if (event.timer_ns != 0 && is_early) spoil(place);
  return pack({.kind = HandleKind::kernel_phase, .detail = detail, .turn = turn});
}

int record_phase_stop(const void* value, uint64_t timer_ns) noexcept {
  PhasePlace* place = find_counted(value);
  if (place == nullptr) return kSuccess;
  const uint64_t start_ns = place->start_ns.load(std::memory_order_relaxed);
  if (place->open.load(std::memory_order_relaxed) != uint32_t{handle_detail(value)} + 1 ||
      start_ns == 0) {
    return count_stale(value);
  }
  place->start_ns.store(0, std::memory_order_relaxed);
  if (timer_ns < start_ns) return spoil(*place);
  place->ns[handle_detail(value) >> kPhaseShift].fetch_add(timer_ns - start_ns,
                                                           std::memory_order_relaxed);
  place->told.fetch_add(1, std::memory_order_relaxed);
  return kSuccess;
}

int stop_phase(const void* value) noexcept {
  PhasePlace* place = find_counted(value);
  if (place == nullptr) return kSuccess;
  if (place->open.load(std::memory_order_relaxed) != uint32_t{handle_detail(value)} + 1) {
    return counted(&SelfStatistics::plugin_stopped_twice);
  }
  place->open.store(0, std::memory_order_relaxed);
  return kSuccess;
}

void keep_phases(const OpPlace& op, uint64_t turn, uint32_t channels) noexcept {
  const PhasePlace* places = phase_places.entries();
  if (places == nullptr || channels == 0) return;
  const PhasePlace& place = places[turn % kOpPlaces];
  if (place.turn.load(std::memory_order_relaxed) != turn) return;
  const bool is_told = place.told.load(std::memory_order_relaxed) != 0;
  if (!is_told || place.spoiled.load(std::memory_order_relaxed) != 0) return;
  capture::OpPhases phases;
  uint64_t sum_ns = 0;
  for (size_t i = 0; i < kKernelPhaseCount; ++i) {
    phases.ns[i] = place.ns[i].load(std::memory_order_relaxed) / channels;
    sum_ns += phases.ns[i];
  }
  const uint64_t start_ns = op.kernel_start_ns.load(std::memory_order_relaxed);
  const uint64_t stop_ns = op.kernel_stop_ns.load(std::memory_order_relaxed);
  // Longer than the kernel: read from a place of NCCL's ring that another operation had written.
  if (start_ns == 0 || stop_ns < start_ns || sum_ns > stop_ns - start_ns) {
    capture::count_statistic(&SelfStatistics::plugin_kernel_lost);
    return;
  }
  capture::keep_op_phases(token_of(op, turn), phases);
}

}  // namespace rollcall::profiler
