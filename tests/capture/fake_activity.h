// A source of activity records for tests: they come when the test says so, in any order.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/gpu/activity.h"

namespace rollcall::test {

class FakeActivity {
 public:
  using Record = gpu::ActivityRecord;

  static FakeActivity& get() {
    static FakeActivity activity;
    return activity;
  }
  static void reset() { get() = FakeActivity(); }

  // The region that the calling thread entered last.
  static uint64_t last_region() { return region_of_thread; }

  void tell_region(uint32_t correlation, uint64_t region) {
    Record record{};
    record.kind = Record::region;
    record.correlation = correlation;
    record.region_id = region;
    queue.push_back(record);
  }
  void tell_launch(uint32_t correlation, uint64_t host_ns, bool is_outer = false) {
    Record record{};
    record.kind = is_outer ? Record::outer_launch : Record::launch;
    record.correlation = correlation;
    record.start_ns = record.end_ns = at(host_ns);
    queue.push_back(record);
  }
  void tell_other_call(uint32_t correlation) {
    Record record{};
    record.kind = Record::other_call;
    record.correlation = correlation;
    queue.push_back(record);
  }
  struct Kernel {
    uint32_t correlation = 0;
    uint64_t start_ns = 0;  // on the host's clock
    uint64_t end_ns = 0;
    int32_t device = 0;
    uint32_t stream_number = 7;
    const char* name = "kernel";
  };
  void tell_kernel(const Kernel& kernel) {
    Record record{};
    record.kind = Record::kernel;
    record.correlation = kernel.correlation;
    record.start_ns = kernel.start_ns != 0 ? at(kernel.start_ns) : 0;
    record.end_ns = kernel.end_ns != 0 ? at(kernel.end_ns) : 0;
    record.device = kernel.device;
    record.stream_number = kernel.stream_number;
    record.name = kernel.name;
    queue.push_back(record);
  }
  void tell_graph(uint32_t correlation, uint64_t start_ns, uint64_t end_ns) {
    tell_kernel({.correlation = correlation, .start_ns = start_ns, .end_ns = end_ns});
    queue.back().kind = Record::graph;
    queue.back().name = nullptr;
  }
  // All that is told of a call with one kernel.
  void tell_call(uint32_t correlation, uint64_t region, uint64_t start_ns, uint64_t end_ns) {
    tell_region(correlation, region);
    tell_launch(correlation, start_ns);
    tell_kernel({.correlation = correlation, .start_ns = start_ns, .end_ns = end_ns});
  }

  // The source's clock at a time of the host's.
  uint64_t at(uint64_t host_ns) const { return host_ns + clock_offset_ns; }

  std::vector<Record> queue;
  std::vector<uint64_t> regions;  // entered so far
  uint32_t depth = 0;             // entered and not left
  uint32_t underflows = 0;        // left without having been entered
  uint64_t dropped = 0;           // since the last look
  uint32_t questions = 0;         // looks that asked for what is complete, or for everything
  uint32_t forced = 0;            // those for everything
  bool has_clock = true;
  bool numbers_streams = true;
  uint64_t clock_offset_ns = 555'000'000'000;
  std::vector<std::string> names;
  // Of all that threads share; tests with one thread need not care.
  static inline std::mutex mutex;
  static inline thread_local uint64_t region_of_thread = 0;
};

namespace fake_activity {

inline void enter(uint64_t region) noexcept {
  const std::lock_guard<std::mutex> guard(FakeActivity::mutex);
  FakeActivity::region_of_thread = region;
  FakeActivity::get().regions.push_back(region);
  ++FakeActivity::get().depth;
}
inline void leave() noexcept {
  const std::lock_guard<std::mutex> guard(FakeActivity::mutex);
  FakeActivity& activity = FakeActivity::get();
  if (activity.depth == 0) {
    ++activity.underflows;
  } else {
    --activity.depth;
  }
}
// The number of stream 0x1000 + n is n.
inline bool number_of_stream(gpu::Stream stream, uint32_t* number) noexcept {
  *number = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream) & 0xfff);
  return FakeActivity::get().numbers_streams;
}
inline bool read_clock(gpu::ActivityInstant* instant) noexcept {
  const uint64_t now = ticks_now();
  *instant = {.ticks = now, .ns = FakeActivity::get().at(now)};
  return FakeActivity::get().has_clock;
}
inline uint64_t collect(gpu::ActivitySource::Asking asking, gpu::ActivitySource::Take take,
                        void* taker) noexcept {
  const std::lock_guard<std::mutex> guard(FakeActivity::mutex);
  FakeActivity& activity = FakeActivity::get();
  activity.questions += asking != gpu::ActivitySource::nothing ? 1 : 0;
  activity.forced += asking == gpu::ActivitySource::everything ? 1 : 0;
  for (const FakeActivity::Record& record : activity.queue) take(taker, record);
  activity.queue.clear();
  const uint64_t dropped = activity.dropped;
  activity.dropped = 0;
  return dropped;
}
inline void note_name(uint32_t number, const char* name) noexcept {
  FakeActivity& activity = FakeActivity::get();
  if (activity.names.size() < number) activity.names.resize(number);
  activity.names[number - 1] = name;
}

}  // namespace fake_activity

inline gpu::ActivitySource fake_activity_source() {
  return {.enter = fake_activity::enter,
          .leave = fake_activity::leave,
          .number_of_stream = fake_activity::number_of_stream,
          .read_clock = fake_activity::read_clock,
          .collect = fake_activity::collect,
          .note_name = fake_activity::note_name};
}

}  // namespace rollcall::test
