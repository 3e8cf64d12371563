// What programs asked the stand-ins for and the stand-ins do not do.
//
// No lock: a stub may be called from any thread, in a forked child, and from under a recorder.
#include <atomic>
#include <cstdio>
#include <cstring>

#include "emulator/device/device.h"

namespace {

using Listener = void (*)(const char* function);

// Programs that run here ask for a handful; what is beyond is not named.
constexpr size_t kAbsentMax = 64;
std::atomic<const char*> absent[kAbsentMax];
std::atomic<Listener> listener;

// False when it is known already, or one too many.
bool is_new(const char* function) {
  for (std::atomic<const char*>& slot : absent) {
    const char* known = nullptr;
    if (slot.compare_exchange_strong(known, function)) return true;
    if (std::strcmp(known, function) == 0) return false;
  }
  return false;
}

}  // namespace

extern "C" {

void emu_not_emulated(const char* function, const char* answer) {
  if (!is_new(function)) return;
  if (emu_quiet() == 0) {
    std::fprintf(stderr, "rollcall emulator: %s is not emulated: %s\n", function, answer);
  }
  if (const Listener told = listener.load()) told(function);
}

void emu_kernel_skipped(void) {
  static std::atomic<bool> is_known;
  if (is_known.load(std::memory_order_relaxed) || is_known.exchange(true)) return;
  constexpr const char* kKernels = "kernels";
  if (!is_new(kKernels)) return;
  if (const Listener told = listener.load()) told(kKernels);
}

// The listener is there before the names are walked, and a name before the listener is asked for:
// none is missed, and one may be told twice.
void rollcall_emulated_listen(void (*told)(const char* function)) {
  listener.store(told);
  if (told == nullptr) return;
  for (const std::atomic<const char*>& slot : absent) {
    if (const char* const function = slot.load()) told(function);
  }
}

}  // extern "C"
