// A table that most processes never use. Its memory is mapped when it is first wanted, and stays:
// as a part of the library it would count against the memory that a job may lock (RLIMIT_MEMLOCK,
// by which mlockall() is refused), whether it is used or not.
//
// Threads: any.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>

namespace rollcall::profiler {

// Zeroes are an entry's initial state.
template <class Entry, size_t kEntries>
class MappedTable {
 public:
  // Null until it was wanted.
  Entry* entries() const noexcept { return entries_.load(std::memory_order_acquire); }
  // Null where there is no memory.
  Entry* wanted_entries() noexcept {
    Entry* there = entries();
    return __builtin_expect(there != nullptr, 1) ? there : map();
  }

 private:
  [[gnu::noinline, gnu::cold]] Entry* map() noexcept {
    void* memory = mmap(nullptr, kEntries * sizeof(Entry), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    Entry* there = nullptr;
    auto* ours = static_cast<Entry*>(memory);
    if (entries_.compare_exchange_strong(there, ours, std::memory_order_acq_rel)) return ours;
    munmap(memory, kEntries * sizeof(Entry));  // another thread was faster
    return there;
  }

  std::atomic<Entry*> entries_{nullptr};
};

}  // namespace rollcall::profiler
