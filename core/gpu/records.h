// The records of operations that the GPU is awaited for: who may be awaited, which ones a mark is
// about, and how they are told what was learned. Shared by those who learn it: events (events.h)
// and activity records (activity.h).
//
// An awaited record is pinned in its slot until finish() or give_up(), so its slot is its own.
// Threads: any, each record by one at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/base/atomic_word.h"
#include "core/format/ring_layout.h"
#include "core/gpu/driver.h"
#include "core/ring/slot.h"

namespace rollcall::gpu {

// Operations of one call or one group on one stream, by their tickets, both included. Between them
// lie others, too.
struct Span {
  uint64_t first_ticket;
  uint64_t last_ticket;
  uint32_t group;  // 0: one operation
  Stream stream;
};

class Records {
 public:
  struct Options {
    ring::Slots<OpRecord> ops;
    SelfStatistics* stats = nullptr;
    // Who else holds a record, one count per slot (recorder.h, hold_op); null: nobody does.
    std::atomic<uint32_t>* holds = nullptr;
    uint32_t in_flight_max = kGpuOpsInFlightMax;
  };
  // Zeroes are its initial state.
  void begin(const Options& options) noexcept {
    ops_ = options.ops;
    stats_ = options.stats;
    holds_ = options.holds;
    in_flight_max_ = std::min(options.in_flight_max, static_cast<uint32_t>((ops_.mask + 1) / 4));
  }

  bool has_room() const noexcept {
    return in_flight_.load(std::memory_order_relaxed) < in_flight_max_;
  }
  bool is_idle() const noexcept { return in_flight_.load(std::memory_order_relaxed) == 0; }
  // One more is awaited.
  void await() noexcept { in_flight_.fetch_add(1, std::memory_order_relaxed); }

  SelfStatistics& stats() noexcept { return *stats_; }
  uint64_t slot_of(uint64_t ticket) const noexcept { return ticket & ops_.mask; }

  // A GPU time was wanted of this record and will not come; `reason` is the statistic.
  static void note_untimed(OpRecord* record, uint64_t& reason) noexcept {
    __atomic_fetch_or(&record->flags, kOpGpuTimesUnknown, __ATOMIC_RELEASE);
    add_relaxed(reason, uint64_t{1});
  }

  // True for one of the records of that group, which are still there, and lie at most a lap apart.
  template <class Holds>
  bool any_in_group(uint64_t first_ticket, uint64_t last_ticket, uint32_t group,
                    Holds&& holds) const noexcept {
    const uint64_t others = std::min(last_ticket - first_ticket, ops_.mask);
    for (uint64_t i = 0; i <= others; ++i) {
      const OpRecord& record = ops_.records[slot_of(first_ticket + i)];
      const uint64_t ticket = ticket_of(load_acquire(record.publish));
      if (ticket < first_ticket || ticket > last_ticket) continue;
      if (load_relaxed(record.group) == group && holds(load_relaxed(record.comm_index)))
        return true;
    }
    return false;
  }

  // Its group; 0 where it has none, or its record is not there any more.
  uint32_t group_of(uint64_t ticket) const noexcept {
    const OpRecord& record = ops_.records[slot_of(ticket)];
    return ticket_of(load_acquire(record.publish)) == ticket ? load_relaxed(record.group) : 0;
  }
  uint32_t comm_of(uint64_t ticket) const noexcept {
    return load_relaxed(ops_.records[slot_of(ticket)].comm_index);
  }

  // Those that are still awaited: visit(record, ticket).
  template <class Visit>
  void visit(const Span& span, Visit&& visit) noexcept {
    const auto look_at = [&](OpRecord& record, uint64_t ticket) {
      if (load_acquire(record.publish) != publish_word(ticket, Phase::gpu_pending)) return;
      const bool is_mine = span.group == 0 || (load_relaxed(record.group) == span.group &&
                                               load_relaxed(record.stream) ==
                                                   reinterpret_cast<uintptr_t>(span.stream));
      if (is_mine) visit(record, ticket);
    };
    if (span.last_ticket - span.first_ticket <= ops_.mask) {
      for (uint64_t i = 0; i <= span.last_ticket - span.first_ticket; ++i) {
        look_at(ops_.records[slot_of(span.first_ticket + i)], span.first_ticket + i);
      }
      return;
    }
    // More than a lap apart: by slots. The counter of tickets is in the file, and the job may have
    // written a number over it that no walk comes to the end of.
    for (uint64_t slot = 0; slot <= ops_.mask; ++slot) {
      OpRecord& record = ops_.records[slot];
      const uint64_t ticket = ticket_of(load_acquire(record.publish));
      if (ticket >= span.first_ticket && ticket <= span.last_ticket) look_at(record, ticket);
    }
  }

  // Nothing more is awaited of it.
  void finish(OpRecord& record, uint64_t ticket) noexcept {
    const bool is_last =
        holds_ == nullptr || holds_[slot_of(ticket)].fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (is_last) ring::publish_slot(&record, ticket, Phase::settled);
    in_flight_.fetch_sub(1, std::memory_order_relaxed);
  }
  void give_up(const Span& span) noexcept {
    visit(span, [&](OpRecord& record, uint64_t ticket) {
      note_untimed(&record, stats_->gpu_untimed);
      finish(record, ticket);
    });
  }

 private:
  ring::Slots<OpRecord> ops_;
  SelfStatistics* stats_;
  std::atomic<uint32_t>* holds_;
  uint32_t in_flight_max_;
  std::atomic<uint32_t> in_flight_;
};

}  // namespace rollcall::gpu
