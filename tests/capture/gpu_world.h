// A ring, a timer and launching threads, on a driver of which the test decides what it does.
#pragma once

#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "core/gpu/timer.h"
#include "tests/capture/fake_activity.h"
#include "tests/capture/fake_gpu.h"

namespace rollcall::test {

inline constexpr uint64_t kSlots = 16'384;

// A ring, a timer and a launching thread. Ticks are nanoseconds, one more at each reading.
inline constexpr uint64_t kGraphBytes = kGraphsMax * sizeof(GraphEntry);

struct World {
  explicit World(uint32_t budget_percent = 100, uint32_t in_flight_max = 256,
                 bool has_progress = false, bool has_activity = false, bool is_on_disk = false) {
    FakeGpu::reset();
    FakeActivity::reset();
    fake_driver::current_context = 1;  // whatever the test before left
    fake_driver::capture_mode = 0;
    set_fake_clock(1'000'000'000, 1);
    records.resize(kSlots);
    words.resize(kGraphBytes / 8 + kSlots);
    timer = static_cast<gpu::Timer*>(std::calloc(1, sizeof(gpu::Timer)));
    if (has_activity) {
      activity = static_cast<gpu::Activity*>(std::calloc(1, sizeof(gpu::Activity)));
    }
    options = {.driver = fake_gpu_driver(),
               .ops = {records.data(), &next_ticket, kSlots - 1, &stepped_over},
               .stats = &stats,
               .graphs = graphs(),
               .word_bytes = words.size() * 8,
               .words_in_memory = !is_on_disk,
               .progress = has_progress ? progress() : nullptr,
               .activity = activity,
               .activity_source = fake_activity_source(),
               .in_flight_max = in_flight_max,
               .budget_percent = budget_percent};
    timer->begin(options);
  }
  ~World() {
    std::free(static_cast<void*>(timer));
    std::free(static_cast<void*>(activity));
    clear_fake_clock();
  }

  // One call as the recorder makes it; the ticket of its record.
  uint64_t launch(gpu::Thread& thread, gpu::Stream stream, uint32_t group = 0,
                  gpu::Launch outcome = gpu::Launch::done, int device = -1) {
    const auto [record, ticket] = begin(thread, stream, group, device);
    const bool awaits = timer->close(thread, record, ticket, outcome);
    ring::publish_slot(record, ticket, awaits ? Phase::gpu_pending : Phase::settled);
    if (awaits) timer->opened(thread);
    return ticket;
  }
  uint64_t launch(gpu::Stream stream, uint32_t group = 0, gpu::Launch outcome = gpu::Launch::done) {
    return launch(main_thread, stream, group, outcome);
  }
  // The first half of it: the thread is inside NCCL.
  ring::Claim<OpRecord> begin(gpu::Thread& thread, gpu::Stream stream, uint32_t group,
                              int device = -1) {
    const ring::Slots<OpRecord> slots{records.data(), &next_ticket, kSlots - 1, &stepped_over};
    CommEntry comm{};
    comm.device = device;
    gpu::Plan plan;
    timer->plan(thread, stream, group, &comm, std::exchange(next_hash, 0), plan);
    const ring::Claim<OpRecord> claim = ring::claim_slot(slots);
    if (claim.record == nullptr) std::abort();  // the ring has more slots than can be in flight
    OpRecord* record = claim.record;
    for (size_t offset = 8; offset < sizeof(OpRecord); offset += 8) {
      ring::store_word(record, offset, 0);
    }
    ring::store_word(record, offsetof(OpRecord, stream), reinterpret_cast<uintptr_t>(stream));
    ring::store_word(record, offsetof(OpRecord, group), ring::word_of(group, 0));
    ring::store_word(record, offsetof(OpRecord, graph), ring::word_of(plan.graph, 0));
    ring::store_word(record, offsetof(OpRecord, called_ticks), ticks_now());
    __atomic_store_n(&record->flags, plan.flags(), __ATOMIC_RELEASE);
    ring::publish_slot(record, claim.ticket, Phase::called);
    timer->mark(thread, plan, record, claim.ticket, stream, group);
    return claim;
  }
  // Of the main thread, with what it has kept.
  uint64_t sampled_out() {
    timer->hand_over_sampled_out(main_thread);
    return stats.gpu_sampled_out;
  }
  void end_group(uint32_t group, gpu::Launch outcome = gpu::Launch::done) {
    timer->begin_group_end(main_thread, group);
    timer->finish_group_end(main_thread, outcome);
  }
  // One call, or a group of one, that comes back before NCCL has launched.
  uint64_t launch_later(gpu::Stream stream, uint32_t group) {
    const gpu::Launch outcome = group == 0 ? gpu::Launch::in_progress : gpu::Launch::done;
    const uint64_t ticket = launch(stream, group, outcome);
    if (group != 0) end_group(group, gpu::Launch::in_progress);
    return ticket;
  }
  // The thread asks NCCL about a communicator of which this is the newest operation, and hears that
  // nothing is in progress, or that it failed.
  void ask(gpu::Thread& thread, uint64_t newest_ticket, bool is_launched = true) {
    const gpu::Timer::Asked asked = timer->open_end_of(newest_ticket);
    timer->settle(thread, asked, 0, newest_ticket, is_launched);
  }
  void ask(uint64_t newest_ticket, bool is_launched = true) {
    ask(main_thread, newest_ticket, is_launched);
  }
  void poll() { timer->poll(1.0); }

  // The areas of the file.
  GraphEntry* graphs() { return reinterpret_cast<GraphEntry*>(words.data()); }
  uint64_t* progress() { return words.data() + kGraphBytes / 8; }
  GpuMark mark_of(uint64_t ticket) {
    return rollcall::mark_of(progress()[ticket & (kSlots - 1)], ticket);
  }

  const OpRecord& record(uint64_t ticket) const { return records[ticket & (kSlots - 1)]; }
  Phase phase(uint64_t ticket) const {
    return static_cast<Phase>(phase_number_of(record(ticket).publish));
  }
  bool is_unknown(uint64_t ticket) const {
    return (record(ticket).flags & kOpGpuTimesUnknown) != 0;
  }

  std::vector<OpRecord> records;
  std::vector<uint64_t> words;
  uint64_t next_ticket = 1;
  uint64_t stepped_over = 0;
  SelfStatistics stats{};
  gpu::Timer::Options options;  // that the timer began with
  gpu::Timer* timer = nullptr;
  gpu::Activity* activity = nullptr;
  // Of the next operation of the thread; 0: none. Several threads may be in one world.
  static inline thread_local uint64_t next_hash = 0;
  gpu::Thread main_thread;
};

}  // namespace rollcall::test
