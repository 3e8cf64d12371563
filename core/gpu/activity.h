// Which kernel carried an operation out, when was it launched, when did it begin and end? Told by
// activity records of CUPTI, which are matched with the records of the operations here; where they
// come from is somebody else's business (cupti.h, or a test).
//
//   launching thread               CUPTI                         polling thread
//   ────────────────               ─────                         ──────────────
//   enter(region)
//   the NCCL call  ─ launch ─────> region ↔ correlation  ──────> calls_: correlation → region
//   leave()                        launch: correlation, time ──> launched_ticks
//                    the GPU ────> kernel: correlation, times ─> started_, finished_ticks, settled
//
// A region is a call, or the end of a group, with an external id that the launching thread has
// pushed around it. What the driver is asked to launch inside gets a correlation id; the record of
// the kernel carries it, and another record says to which region it belongs. They come in any
// order: a kernel or a launch that no region is known for waits in early_ or early_launches_.
//
// A group has one region with a part per stream. NCCL launches the work of a group on one of the
// streams of each communicator; so a part without a kernel of its own takes the times of the
// kernels of its device. All operations of a part share its times.
//
// The source hands over what is complete, so it may bring one kernel of a group and keep all
// records of another back, which hangs. As many kernels as launches prove nothing then. A part of a
// group is told of when it is one operation and has a kernel of its own, or when a kernel of a
// later operation of its stream was through. A group that gets no such proof is given up in the
// end: it is not taken for finished because time has passed. Only when the process exits are parts
// that have a kernel each taken for told.
//
// Not every operation has a kernel: copy engines, and calls of no elements. Such a region is given
// up when a later one of its stream was through, or not even a launch was told of for long.
//
// Bounded: regions, calls and names (core/base/limits.h); nothing is allocated. Times are never
// outside [called, seen].
//
// Threads: open() to abandon() from any thread, each with its own region; poll() from one at a
// time. A region is filled by the launching thread while it is `open`, and what is learned of it
// belongs to the polling thread, which alone makes it free again.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/gpu/records.h"
#include "core/gpu/witness.h"

namespace rollcall::gpu {

struct ActivityRecord {
  enum Kind : uint8_t {
    region,        // the call `correlation` was made inside `region_id`
    launch,        // the driver's call that launches: when
    outer_launch,  // the runtime's, inside of which there may be the driver's
    other_call,    // a call that launches nothing
    kernel,
    graph,
  };
  Kind kind;
  uint32_t correlation;
  uint64_t region_id;
  uint64_t start_ns;  // on the source's clock; 0: not known
  uint64_t end_ns;
  int32_t device;
  uint32_t stream_number;  // unique on its device
  const char* name;        // of the kernel; null: none
};

// One instant on our clock and on the source's.
struct ActivityInstant {
  uint64_t ticks;
  uint64_t ns;
};

// Where activity records come from. All members are there.
struct ActivitySource {
  // The launching thread is inside this region from now on, until it leaves.
  void (*enter)(uint64_t region_id) noexcept;
  void (*leave)() noexcept;
  // The source's number of a stream; false when it has none. The thread's context is current.
  bool (*number_of_stream)(Stream stream, uint32_t* number) noexcept;
  bool (*read_clock)(ActivityInstant* instant) noexcept;
  // What is asked for first. Unfinished kernels come with `everything` only, without an end, and
  // then not a second time.
  enum Asking : uint8_t { nothing, what_is_complete, everything };
  // Hands over what there is; how many records were dropped since the last time.
  using Take = void (*)(void* taker, const ActivityRecord& record) noexcept;
  uint64_t (*collect)(Asking asking, Take take, void* taker) noexcept;
  // A kernel's name was given this number.
  void (*note_name)(uint32_t number, const char* name) noexcept;
};

inline constexpr uint32_t kStreamUnnumbered = 0xffffffff;

// What one region has of one stream.
struct RegionPart {
  Span span;
  int32_t device;          // -1: unknown
  uint32_t stream_number;  // looked up where there are several parts
  // The polling thread's.
  uint64_t launched_ns;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t kernels;
  uint16_t name;
};

struct Region {
  enum State : uint32_t { free, open, in_flight, abandoned };
  std::atomic<uint32_t> state;
  uint32_t parts;
  std::atomic<uint64_t> id;  // 0: none
  uint64_t closed_ticks;
  // The polling thread's.
  uint64_t launched_ns;
  uint64_t over_ticks;  // since when a later operation of its stream is known to be through
  uint32_t launches;
  uint32_t kernels;
  RegionPart part[kGpuGroupStreamsMax];
};

class Activity {
 public:
  // The object lives in zeroed memory of its own and is never copied.
  void begin(const ActivitySource& source, Records& records) noexcept {
    source_ = source;
    records_ = &records;
    window_.store(kGpuRegionsFirst, std::memory_order_relaxed);
  }

  // --- the launching thread
  struct Part {
    Span span;
    int32_t device = -1;
  };
  // The thread is in the region from then on. Null: none is free.
  Region* open(const Part* parts, uint32_t count) noexcept;
  void leave() noexcept { source_.leave(); }
  // The thread has left it; its operations are pending.
  void fly(Region& region) noexcept;
  // Nothing was launched, or nobody will ask.
  void abandon(Region& region) noexcept;

  // --- the polling thread
  // `is_last`: every launch is told of, and what was not launched is not waited for. What was
  // launched and runs stays pending.
  void poll(double ticks_per_ns, bool is_last) noexcept;

 private:
  struct Call {
    uint32_t correlation;  // 0: free
    uint16_t part;
    bool is_counted;  // among the region's launches
    uint64_t region_id;
    uint64_t launched_ns;
  };
  static constexpr uint16_t kPartUnknown = 0xffff;
  struct EarlyLaunch {
    uint32_t correlation;  // 0: none
    bool is_counted;       // as that of Call
    uint64_t start_ns;
  };
  struct Through {  // the newest operation of a stream that was seen to be through
    Stream stream;
    int32_t device;  // of a default stream; else -1
    uint64_t ticket;
  };
  struct Name {
    uint32_t hash;
    uint32_t bytes;  // 0: free
    char text[kGpuKernelNameBytes];
  };
  static constexpr uint32_t kStreamsRemembered = 64;
  struct Times {
    uint64_t launched_ns;
    uint64_t start_ns;
    uint64_t end_ns;
    uint16_t name;
  };

  Region* take_region(uint64_t* id) noexcept;
  void take(const ActivityRecord& record) noexcept;
  Region* find_region(uint64_t id) noexcept;
  Call* find_call(uint32_t correlation) noexcept;
  Call* add_call(uint32_t correlation) noexcept;
  void enter_call(const ActivityRecord& record) noexcept;
  void note_launch(const ActivityRecord& record) noexcept;
  void keep_early(const ActivityRecord& launch) noexcept;
  void note_kernel(const ActivityRecord& record) noexcept;
  void attach(Call& call, const ActivityRecord& record) noexcept;
  uint16_t part_of(const Region& region, const ActivityRecord& record) noexcept;
  uint16_t number_of_name(const char* name) noexcept;

  void sweep(uint64_t seen_ticks, bool is_last) noexcept;
  void look_at(Region& region, uint64_t seen_ticks, bool is_last) noexcept;
  void settle(Region& region, uint64_t seen_ticks) noexcept;
  void give_up(Region& region) noexcept;
  void release(Region& region) noexcept;
  Times times_of(const Region& region, const RegionPart& part) const noexcept;
  void publish_launch(const Span& span, uint64_t launched_ns) noexcept;
  void note_through(const RegionPart& part) noexcept;
  bool is_over(const RegionPart& part) const noexcept;
  bool is_over(const Region& region) const noexcept;
  bool is_told(const RegionPart& part) const noexcept;
  uint64_t ticks_in(uint64_t ns) const noexcept;
  uint64_t ticks_of(uint64_t ns) const noexcept;
  static uint32_t place_of(Stream stream, int32_t device) noexcept;

  ActivitySource source_;
  Records* records_;
  std::atomic<uint64_t> turns_;
  std::atomic<uint32_t> window_;  // regions in use: a power of two, more as they run out
  std::atomic<uint32_t> next_place_;
  // The polling thread's.
  ActivityInstant now_;
  double ticks_per_ns_;
  uint64_t asked_ticks_;  // what was launched later may not be told of yet
  bool has_clock_;
  bool is_last_;
  Through through_[kStreamsRemembered];
  Name names_[kGpuKernelNamesMax];
  Call calls_[kGpuCallsMax];
  ActivityRecord early_[kGpuCallsMax];
  EarlyLaunch early_launches_[kGpuCallsMax];
  Region regions_[kGpuRegionsMax];
};

static_assert(Witness<Activity, Region>);

}  // namespace rollcall::gpu
