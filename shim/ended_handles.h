// Handles of communicators that have ended, so that a later use of one is noticed.
//
// A direct-mapped table read on every call: one load and one compare. Two handles that share a
// place push each other out, which costs a report, never a false one: a handle that comes back to
// life is taken out before the caller learns of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rollcall::shim {

class EndedHandles {
 public:
  bool has(const void* handle) const noexcept {
    return handle != nullptr && place_of(handle).load(std::memory_order_relaxed) == handle;
  }
  void add(const void* handle) noexcept {
    place_of(handle).store(handle, std::memory_order_relaxed);
  }
  void remove(const void* handle) noexcept {
    const void* expected = handle;
    place_of(handle).compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kPlaces = 256;
  static size_t index_of(const void* handle) {
    // Communicators are large allocations: the low bits say little.
    return (reinterpret_cast<uintptr_t>(handle) * 0x9e3779b97f4a7c15) >> 56;
  }
  std::atomic<const void*>& place_of(const void* handle) { return places_[index_of(handle)]; }
  const std::atomic<const void*>& place_of(const void* handle) const {
    return places_[index_of(handle)];
  }
  static_assert(kPlaces == 256, "index_of keeps eight bits");
  std::atomic<const void*> places_[kPlaces] = {};
};

// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constinit says that it is not
extern constinit EndedHandles g_ended_handles;

}  // namespace rollcall::shim
