// The floor every recorder is held against: what no record can do without. Two TSC reads, two
// uncontended atomic read-modify-writes, one 64-byte store into a mapped file.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/clock.h"

namespace rollcall::bench {

// Of the machine that the goals in nanoseconds were set on: elsewhere a goal over this is the same
// goal in floors.
inline constexpr double kReferenceFloorNs = 17;

class Floor {
 public:
  // Maps and reserves a file of a ring's size in `directory`.
  explicit Floor(const std::string& directory);
  ~Floor();
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;
  bool usable() const { return base_ != nullptr; }

  void once() {
    const uint64_t entered = ticks_now();
    const uint64_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
    total_.fetch_add(1, std::memory_order_acq_rel);
    uint64_t line[8] = {ticket, entered, ticket, entered, ticket, entered, ticket, 0};
    line[7] = ticks_now();
    std::memcpy(base_ + (ticket & kLineMask) * 64, line, sizeof line);
    asm volatile("" ::: "memory");
  }

 private:
  static constexpr uint64_t kLines = 65536;  // 4 MiB, the default ring
  static constexpr uint64_t kLineMask = kLines - 1;
  char* base_ = nullptr;
  alignas(64) std::atomic<uint64_t> next_{0};
  alignas(64) std::atomic<uint64_t> total_{0};
};

}  // namespace rollcall::bench
