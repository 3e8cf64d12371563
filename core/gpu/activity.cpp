#include "core/gpu/activity.h"

#include <string.h>

#include <algorithm>

#include "core/base/clock.h"

namespace rollcall::gpu {

namespace {

constexpr uint32_t kRegionAttempts = 8;
constexpr uint32_t kCallProbes = 16;
// A time that is farther from now is nobody's: no operation is awaited that long.
constexpr int64_t kFarthestNs = int64_t{86'400} * 1'000'000'000;

uint32_t hash_of(const char* text, uint32_t bytes) noexcept {
  uint32_t hash = 0x811c9dc5;
  for (uint32_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x01000193;
  }
  return hash;
}

uint64_t earliest_of(uint64_t one, uint64_t other) noexcept {
  return one == 0 || (other != 0 && other < one) ? other : one;
}

}  // namespace

// --- the launching thread ------------------------------------------------------------------------

Region* Activity::take_region(uint64_t* id) noexcept {
  for (;;) {
    uint32_t window = window_.load(std::memory_order_acquire);
    for (uint32_t attempt = 0; attempt < kRegionAttempts; ++attempt) {
      const uint32_t place = next_place_.fetch_add(1, std::memory_order_relaxed) & (window - 1);
      uint32_t expected = Region::free;
      if (!regions_[place].state.compare_exchange_strong(expected, Region::open,
                                                         std::memory_order_acquire)) {
        continue;
      }
      // From 1 on, so that no id is 0; the place is its remainder.
      const uint64_t turn = turns_.fetch_add(1, std::memory_order_relaxed) + 1;
      *id = turn * kGpuRegionsMax + place;
      return &regions_[place];
    }
    if (window == kGpuRegionsMax) return nullptr;
    if (window_.compare_exchange_strong(window, window * 2)) {
      next_place_.store(window, std::memory_order_relaxed);  // where the fresh ones begin
    }
  }
}

Region* Activity::open(const Part* parts, uint32_t count) noexcept {
  uint64_t id = 0;
  Region* region = count != 0 ? take_region(&id) : nullptr;
  if (region == nullptr) return nullptr;
  region->parts = count;
  region->launched_ns = region->over_ticks = 0;
  region->launches = region->kernels = 0;
  for (uint32_t i = 0; i < count; ++i) {
    region->part[i] = {.span = parts[i].span,
                       .device = parts[i].device,
                       .stream_number = kStreamUnnumbered,
                       .launched_ns = 0,
                       .start_ns = 0,
                       .end_ns = 0,
                       .kernels = 0,
                       .name = 0};
    if (count == 1) break;  // every kernel is its
    uint32_t number = 0;
    if (source_.number_of_stream(parts[i].span.stream, &number)) {
      region->part[i].stream_number = number;
    }
  }
  region->id.store(id, std::memory_order_release);
  source_.enter(id);
  return region;
}

void Activity::fly(Region& region) noexcept {
  region.closed_ticks = ticks_now();
  region.state.store(Region::in_flight, std::memory_order_release);
}

void Activity::abandon(Region& region) noexcept {
  region.state.store(Region::abandoned, std::memory_order_release);
}

// --- the polling thread: what records say --------------------------------------------------------

void Activity::poll(double ticks_per_ns, bool is_last) noexcept {
  ticks_per_ns_ = ticks_per_ns;
  has_clock_ = source_.read_clock(&now_);
  is_last_ = is_last;
  const auto asking = is_last               ? ActivitySource::everything
                      : records_->is_idle() ? ActivitySource::nothing
                                            : ActivitySource::what_is_complete;
  asked_ticks_ = ticks_now();
  const uint64_t dropped = source_.collect(
      asking,
      [](void* taker, const ActivityRecord& record) noexcept {
        static_cast<Activity*>(taker)->take(record);
      },
      this);
  if (dropped != 0) add_relaxed(records_->stats().gpu_records_dropped, dropped);
  sweep(ticks_now(), is_last);
}

void Activity::take(const ActivityRecord& record) noexcept {
  switch (record.kind) {
    case ActivityRecord::region:
      return enter_call(record);
    case ActivityRecord::launch:
    case ActivityRecord::outer_launch:
      return note_launch(record);
    case ActivityRecord::other_call:
      if (Call* call = find_call(record.correlation)) call->correlation = 0;
      return;
    case ActivityRecord::kernel:
    case ActivityRecord::graph:
      return note_kernel(record);
  }
}

// Null where the region is over: the polling thread itself has freed it.
Region* Activity::find_region(uint64_t id) noexcept {
  Region& region = regions_[id & (kGpuRegionsMax - 1)];
  if (id == 0 || region.id.load(std::memory_order_acquire) != id) return nullptr;
  const uint32_t state = region.state.load(std::memory_order_acquire);
  return state == Region::open || state == Region::in_flight ? &region : nullptr;
}

Activity::Call* Activity::find_call(uint32_t correlation) noexcept {
  for (uint32_t probe = 0; probe < kCallProbes; ++probe) {
    Call& call = calls_[(correlation + probe) & (kGpuCallsMax - 1)];
    if (call.correlation == correlation && correlation != 0) return &call;
  }
  return nullptr;
}

// A place that is free, or whose region is over.
Activity::Call* Activity::add_call(uint32_t correlation) noexcept {
  if (Call* known = find_call(correlation)) return known;
  for (uint32_t probe = 0; probe < kCallProbes; ++probe) {
    Call& call = calls_[(correlation + probe) & (kGpuCallsMax - 1)];
    if (call.correlation == 0 || find_region(call.region_id) == nullptr) return &call;
  }
  return nullptr;
}

void Activity::enter_call(const ActivityRecord& record) noexcept {
  if (record.correlation == 0 || find_region(record.region_id) == nullptr) return;
  Call* call = add_call(record.correlation);
  if (call == nullptr) {
    add_relaxed(records_->stats().gpu_kernels_unmatched, uint64_t{1});
    return;
  }
  if (call->correlation == record.correlation && call->region_id == record.region_id) return;
  *call = {.correlation = record.correlation,
           .part = kPartUnknown,
           .is_counted = false,
           .region_id = record.region_id,
           .launched_ns = 0};
  EarlyLaunch& launch = early_launches_[record.correlation & (kGpuCallsMax - 1)];
  if (launch.correlation == record.correlation) {
    note_launch({.kind = launch.is_counted ? ActivityRecord::launch : ActivityRecord::outer_launch,
                 .correlation = launch.correlation,
                 .region_id = 0,
                 .start_ns = launch.start_ns,
                 .end_ns = 0,
                 .device = -1,
                 .stream_number = 0,
                 .name = nullptr});
    launch = {};
  }
  ActivityRecord& early = early_[record.correlation & (kGpuCallsMax - 1)];
  if (early.correlation != record.correlation) return;
  attach(*call, early);
  early = {};
}

// Most launches of a process are not NCCL's; the newer one takes the place. Runtime and driver may
// have one correlation: then both are kept in it.
void Activity::keep_early(const ActivityRecord& launch) noexcept {
  if (launch.correlation == 0) return;
  EarlyLaunch& early = early_launches_[launch.correlation & (kGpuCallsMax - 1)];
  if (early.correlation != launch.correlation) early = {launch.correlation, false, 0};
  early.is_counted = early.is_counted || launch.kind == ActivityRecord::launch;
  early.start_ns = earliest_of(early.start_ns, launch.start_ns);
}

void Activity::note_launch(const ActivityRecord& record) noexcept {
  Call* call = find_call(record.correlation);
  if (call == nullptr) return keep_early(record);
  Region* region = find_region(call->region_id);
  if (region == nullptr) return;
  // Whether the runtime's call and the driver's inside it have one correlation is the source's
  // affair: there is a kernel for each of the driver's.
  if (record.kind == ActivityRecord::launch && !call->is_counted) {
    call->is_counted = true;
    ++region->launches;
  }
  if (call->launched_ns != 0) return;
  call->launched_ns = record.start_ns;
  region->launched_ns = earliest_of(region->launched_ns, record.start_ns);
  if (call->part != kPartUnknown) {
    uint64_t& launched_ns = region->part[call->part].launched_ns;
    launched_ns = earliest_of(launched_ns, record.start_ns);
  }
  // Of several streams nobody knows yet which one it is.
  if (region->parts == 1) publish_launch(region->part[0].span, record.start_ns);
}

void Activity::publish_launch(const Span& span, uint64_t launched_ns) noexcept {
  const uint64_t launched = ticks_of(launched_ns);
  if (launched == 0) return;
  records_->visit(span, [&](OpRecord& record, uint64_t) {
    ring::store_word_once(&record, offsetof(OpRecord, launched_ticks),
                          std::max(launched, load_relaxed(record.called_ticks)));
  });
}

void Activity::note_kernel(const ActivityRecord& record) noexcept {
  const bool runs = is_last_ && record.end_ns == 0;
  if (record.correlation == 0 || runs) return;
  if (Call* call = find_call(record.correlation)) return attach(*call, record);
  // Most kernels of a process are not NCCL's; the newer one takes the place.
  early_[record.correlation & (kGpuCallsMax - 1)] = record;
}

void Activity::attach(Call& call, const ActivityRecord& record) noexcept {
  Region* region = find_region(call.region_id);
  if (region == nullptr) {
    call.correlation = 0;
    add_relaxed(records_->stats().gpu_kernels_unmatched, uint64_t{1});
    return;
  }
  call.part = part_of(*region, record);
  RegionPart& part = region->part[call.part];
  ++region->kernels;
  ++part.kernels;
  part.launched_ns = earliest_of(part.launched_ns, call.launched_ns);
  part.start_ns = earliest_of(part.start_ns, record.start_ns);
  part.end_ns = std::max(part.end_ns, record.end_ns);
  if (part.name == 0) part.name = number_of_name(record.name);
  // The stream of a part has come to its kernel; that of another stream says nothing of it.
  if (region->parts == 1 || part.stream_number == record.stream_number) note_through(part);
}

// By the stream, else by the device, else the first.
uint16_t Activity::part_of(const Region& region, const ActivityRecord& record) noexcept {
  uint16_t of_device = kPartUnknown;
  for (uint16_t i = 0; i < region.parts; ++i) {
    const RegionPart& part = region.part[i];
    if (part.device >= 0 && part.device != record.device) continue;
    if (part.stream_number == record.stream_number) return i;
    if (of_device == kPartUnknown) of_device = i;
  }
  return of_device != kPartUnknown ? of_device : uint16_t{0};
}

uint16_t Activity::number_of_name(const char* name) noexcept {
  if (name == nullptr) return 0;
  const auto bytes = static_cast<uint32_t>(strnlen(name, kGpuKernelNameBytes - 1));
  const uint32_t hash = hash_of(name, bytes);
  for (uint16_t i = 0; i < kGpuKernelNamesMax && bytes != 0; ++i) {
    Name& known = names_[i];
    if (known.bytes == 0) {
      known.hash = hash;
      known.bytes = bytes;
      memcpy(known.text, name, bytes);
      known.text[bytes] = '\0';
      source_.note_name(i + 1u, known.text);
    }
    const bool is_same =
        known.hash == hash && known.bytes == bytes && memcmp(known.text, name, bytes) == 0;
    if (is_same) return static_cast<uint16_t>(i + 1);
  }
  add_relaxed(records_->stats().gpu_kernels_unnamed, uint64_t{1});
  return 0;
}

// --- the polling thread: what is told of operations ----------------------------------------------

void Activity::sweep(uint64_t seen_ticks, bool is_last) noexcept {
  const uint64_t kernel_patience = is_last ? 0 : ticks_in(kGpuKernelPatienceNs);
  const uint64_t launch_patience = is_last ? 0 : ticks_in(kGpuLaunchPatienceNs);
  const uint32_t regions = window_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < regions; ++i) {
    Region& region = regions_[i];
    const uint32_t state = region.state.load(std::memory_order_acquire);
    if (state == Region::abandoned) release(region);
    if (state == Region::in_flight) look_at(region, seen_ticks, is_last);
  }
  for (uint32_t i = 0; i < regions; ++i) {
    Region& region = regions_[i];
    if (region.state.load(std::memory_order_acquire) != Region::in_flight) continue;
    if (region.over_ticks == 0 && is_over(region)) region.over_ticks = seen_ticks;
    const bool has_waited =
        region.over_ticks != 0 && seen_ticks - region.over_ticks >= kernel_patience;
    const bool was_never_launched = region.launches == 0 && region.kernels == 0 &&
                                    asked_ticks_ >= region.closed_ticks &&
                                    asked_ticks_ - region.closed_ticks >= launch_patience;
    if (has_waited && region.kernels != 0) {
      settle(region, seen_ticks);  // what was told of it is all that will be
    } else if (has_waited || was_never_launched) {
      give_up(region);
    }
  }
}

// A region with as many kernels as launches: is that all? A launch without its kernel runs.
void Activity::look_at(Region& region, uint64_t seen_ticks, bool is_last) noexcept {
  if (region.kernels == 0 || region.kernels < region.launches) return;
  bool is_all_told = true;
  bool has_kernels = true;  // every part its own
  for (uint32_t i = 0; i < region.parts; ++i) {
    is_all_told = is_all_told && is_told(region.part[i]);
    has_kernels = has_kernels && region.part[i].kernels != 0;
  }
  if (is_all_told || (is_last && has_kernels)) return settle(region, seen_ticks);
  // Where all parts have kernels the next operation of their streams will tell, whenever it comes.
  // Where one has none it may never have any, in one group after the other.
  const uint64_t patience =
      is_last ? 0 : ticks_in(has_kernels ? kGpuLaunchPatienceNs : kGpuKernelPatienceNs);
  if (seen_ticks >= region.closed_ticks + patience) give_up(region);
}

// One operation has one kernel.
bool Activity::is_told(const RegionPart& part) const noexcept {
  const bool is_one = part.span.first_ticket == part.span.last_ticket;
  return (is_one && part.kernels != 0) || is_over(part);
}

Activity::Times Activity::times_of(const Region& region, const RegionPart& part) const noexcept {
  Times times{part.launched_ns, part.start_ns, part.end_ns, part.name};
  if (part.kernels == 0) {
    for (uint32_t i = 0; i < region.parts; ++i) {
      const RegionPart& other = region.part[i];
      const bool is_near = part.device < 0 || other.device < 0 || part.device == other.device;
      if (!is_near || other.kernels == 0) continue;
      times.launched_ns = earliest_of(times.launched_ns, other.launched_ns);
      times.start_ns = earliest_of(times.start_ns, other.start_ns);
      times.end_ns = std::max(times.end_ns, other.end_ns);
      if (times.name == 0) times.name = other.name;
    }
  }
  if (times.launched_ns == 0) times.launched_ns = region.launched_ns;
  return times;
}

void Activity::settle(Region& region, uint64_t seen_ticks) noexcept {
  for (uint32_t i = 0; i < region.parts; ++i) {
    RegionPart& part = region.part[i];
    const Times times = times_of(region, part);
    note_through(part);
    const uint64_t start = ticks_of(times.start_ns);
    const uint64_t end = ticks_of(times.end_ns);
    const uint64_t launch = ticks_of(times.launched_ns);
    if (start == 0 || end == 0) {
      records_->give_up(part.span);
      continue;
    }
    records_->visit(part.span, [&](OpRecord& record, uint64_t ticket) {
      const uint64_t called = load_relaxed(record.called_ticks);
      // What was told in different looks was aligned by different readings of the clocks.
      const uint64_t earliest = std::max(called, load_relaxed(record.launched_ticks));
      const uint64_t latest = std::max(seen_ticks, earliest);
      const uint64_t started = std::clamp(start, earliest, latest);
      const uint64_t finished = std::clamp(end, started, latest);
      if (launch != 0)
        ring::store_word_once(&record, offsetof(OpRecord, launched_ticks),
                              std::clamp(launch, called, started));
      if (times.name != 0) store_release(record.kernel, times.name);
      store_release(record.started_ticks, started);
      store_release(record.finished_ticks, finished);
      records_->finish(record, ticket);
    });
  }
  release(region);
}

void Activity::give_up(Region& region) noexcept {
  for (uint32_t i = 0; i < region.parts; ++i) {
    const Span& span = region.part[i].span;
    publish_launch(span, region.launched_ns);
    records_->give_up(span);
  }
  release(region);
}

void Activity::release(Region& region) noexcept {
  region.id.store(0, std::memory_order_relaxed);
  region.state.store(Region::free, std::memory_order_release);
}

uint32_t Activity::place_of(Stream stream, int32_t device) noexcept {
  const auto word = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(stream)) +
                    static_cast<uint64_t>(device + 1) * 4;  // default streams are below 3
  return static_cast<uint32_t>(word * 0x9e3779b97f4a7c15 >> 32) & (kStreamsRemembered - 1);
}

// A default stream is named by its handle and its device; all others by the handle alone.
void Activity::note_through(const RegionPart& part) noexcept {
  const Span& span = part.span;
  const int32_t device = is_default_stream(span.stream) ? part.device : -1;
  if (is_default_stream(span.stream) && device < 0) return;
  Through& place = through_[place_of(span.stream, device)];
  if (place.stream != span.stream || place.device != device) place = {span.stream, device, 0};
  place.ticket = std::max(place.ticket, span.first_ticket);
}

bool Activity::is_over(const RegionPart& part) const noexcept {
  const Span& span = part.span;
  const int32_t device = is_default_stream(span.stream) ? part.device : -1;
  if (is_default_stream(span.stream) && device < 0) return false;
  const Through& place = through_[place_of(span.stream, device)];
  return place.stream == span.stream && place.device == device && place.ticket > span.last_ticket;
}

bool Activity::is_over(const Region& region) const noexcept {
  return std::all_of(region.part, region.part + region.parts,
                     [&](const RegionPart& part) { return is_over(part); });
}

uint64_t Activity::ticks_in(uint64_t ns) const noexcept {
  return static_cast<uint64_t>(static_cast<double>(ns) * ticks_per_ns_);
}

// 0: not known, or a time that nobody can have meant.
uint64_t Activity::ticks_of(uint64_t ns) const noexcept {
  const auto apart_ns = static_cast<int64_t>(ns - now_.ns);
  if (ns == 0 || !has_clock_ || apart_ns > kFarthestNs || apart_ns < -kFarthestNs) return 0;
  const auto distance = static_cast<int64_t>(static_cast<double>(apart_ns) * ticks_per_ns_);
  const uint64_t ticks = now_.ticks + static_cast<uint64_t>(distance);
  return distance < 0 && ticks > now_.ticks ? 0 : ticks;  // before the clock began
}

}  // namespace rollcall::gpu
