// Which entry a handle of NCCL's is bound to: an open-addressed table that only ever gains keys, so
// that a look-up takes no lock. Those who change it hold the ColdLock (comm_table.cpp). Not for
// others than core/capture.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/format/ring_layout.h"

namespace rollcall::capture {

struct CommHandle {
  std::atomic<const void*> handle;  // null: free; never changes afterwards
  std::atomic<uint32_t> index;      // kCommUnknown: unbound
};

// Twice kCommsMax: each key is inserted once and stays, and at most kCommsMax handles are ever
// bound, so there is always a free place and probes end.
inline constexpr uint32_t kCommHandles = 2 * kCommsMax;
static_assert((kCommHandles & (kCommHandles - 1)) == 0);
extern constinit CommHandle comm_handles[kCommHandles] __attribute__((visibility("hidden")));

inline uint32_t place_of_handle(const void* handle) noexcept {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  return static_cast<uint32_t>((bits >> 4) * 0x9e3779b97f4a7c15 >> 40) & (kCommHandles - 1);
}

// Where nearly all handles are; kCommUnknown: it is not bound, or stands behind another one.
inline uint32_t find_in_first_place(const void* handle) noexcept {
  const CommHandle& place = comm_handles[place_of_handle(handle)];
  return place.handle.load(std::memory_order_acquire) == handle
             ? place.index.load(std::memory_order_relaxed)
             : kCommUnknown;
}

}  // namespace rollcall::capture
