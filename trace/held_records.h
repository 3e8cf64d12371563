// The operations of a process's segments while these are read: each ticket once, and no more of
// them than a bound, of which the newest stay.
//
// A few bytes of a compressed segment can claim thousands of operations, and the same ones over and
// over. The bound is what such a file costs; honest ones never reach it.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/format/ring_layout.h"

namespace rollcall::trace {

// What any process may have.
inline constexpr uint64_t kHeldRecordsMin = 1u << 18;
// And for each byte that its files take on the disk, or that they have where that is less.
// `rollcall pack` brings a synthetic run, whose times have no noise, to 0.12 bytes a call, a real
// one to 1.
inline constexpr uint64_t kHeldRecordsPerByte = 16;

class HeldRecords {
 public:
  // Room for so many more.
  void allow(uint64_t records) { max_ += records; }
  // For so many and no more, whatever is allowed.
  void limit(uint64_t records) { limit_ = records; }

  // Of one ticket the first that comes stays.
  void add(const OpRecord& record);
  // By ticket; the object is empty then.
  std::vector<OpRecord> take();
  // Records that had no room; 0: everything was held that was added.
  uint64_t left_out() const { return left_out_; }

 private:
  void sift();

  // Segments are written in the order of the tickets, but for a few.
  std::vector<OpRecord> rising_;
  std::vector<OpRecord> others_;
  uint64_t max_ = kHeldRecordsMin;
  uint64_t limit_ = UINT64_MAX;
  size_t sift_at_ = 1 << 16;
  uint64_t left_out_ = 0;
};

}  // namespace rollcall::trace
