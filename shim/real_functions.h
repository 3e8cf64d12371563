// Where the real NCCL is, and what the shim may ask of it.
//
// A process can hold several copies of NCCL (a system one, a pip wheel's, one per dlmopen-ed
// plugin). Copy 0 is the one that ordinary calls reach: what the next object in link order, or the
// loaded libnccl.so.2, defines. Copies 1 and up were found by `dlsym` on a handle; each has its own
// set of entry points, so that a pointer handed out always leads to the copy it was asked of.
//
// Resolved once per function and copy, then one load. Nothing here loads a library.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/api_table.h"
#include "shim/call_flags.h"
#include "shim/nccl_abi.h"

namespace rollcall::shim {

enum class Function : uint8_t {
#define ROLLCALL_X(class, name, parameters, arguments) name,
  ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
inline constexpr unsigned kFunctions = static_cast<unsigned>(Function::Count);

// One for link order and three for handles: a framework's, a plugin's and one to spare. What comes
// beyond is handed out unwrapped, hence works and is not recorded.
inline constexpr unsigned kCopiesMax = 4;
inline constexpr unsigned kCopyLinked = 0;

const char* name_of(Function function) noexcept;
// Function::Count when the name is not intercepted.
Function function_of(const char* name) noexcept;

// Where a call came from and where it goes.
struct Site {
  const void* caller = nullptr;
  unsigned copy = kCopyLinked;
};

// The real function; null when this NCCL has none. `reports` on the first use of a copy writes
// version, path and coverage into the recorder's meta area. [cold, then one load by the caller]
void* resolve(unsigned copy, Function function, bool reports) noexcept;
struct RealPointers {
  // What calls load. Set by the first call through it, not by the look-up: a process that only
  // looks NCCL up has made no call and leaves no file.
  std::atomic<void*> published[kFunctions];
  // What dlsym found; the source for `published` in copies 1 and up.
  std::atomic<void*> found[kFunctions];
};
// constinit is just what the check misses. NOLINTNEXTLINE(bugprone-dynamic-static-initializers)
extern constinit RealPointers g_real_pointers[kCopiesMax] __attribute__((visibility("hidden")));

// The published pointer, null until `resolve` succeeded.
inline void* resolved(unsigned copy, Function function) noexcept {
  return g_real_pointers[copy].published[static_cast<unsigned>(function)].load(
      std::memory_order_acquire);
}
// The same before anybody but NCCL has called it.
inline void* found_before(unsigned copy, Function function) noexcept {
  return g_real_pointers[copy].found[static_cast<unsigned>(function)].load(
      std::memory_order_acquire);
}

// A function by name, intercepted or not, from this copy. Null when it has none. [cold]
void* find_in_copy(unsigned copy, const char* name) noexcept;

// The copy that `real` belongs to, taking a free one if it is new; kCopiesMax when all are taken.
// Remembers `real` as this copy's `function`. [cold]
unsigned copy_of_real(void* real, Function function) noexcept;

// True when `address` lies in the library that holds this copy: NCCL is calling itself from a
// thread of its own. [cold]
bool is_inside_copy(unsigned copy, const void* address) noexcept;

// The pointer that leads to `function` of `copy` through the recorder.
void* entry_point(unsigned copy, Function function) noexcept;

// ROLLCALL_ENABLE=0: hand every call through untouched.
bool read_disabled() noexcept;  // [cold]
inline bool disabled() noexcept {
  const int value = g_call_flags.disabled.load(std::memory_order_relaxed);
  return __builtin_expect(value >= 0, 1) ? value != 0 : read_disabled();
}

// True from the first recorded call of this process on; a forked child starts over.
bool process_has_called() noexcept;

// The queries the logic makes. Null where this NCCL has no such function.
struct Queries {
  nccl::GetVersion version = nullptr;
  nccl::GetLastError last_error = nullptr;
  nccl::CommQuery count = nullptr;
  nccl::CommQuery rank = nullptr;
  nccl::CommQuery device = nullptr;
};
const Queries& queries_of(unsigned copy) noexcept;

}  // namespace rollcall::shim
