#include "profiler_plugin/exports.h"

#include <atomic>

namespace rollcall::profiler {

constinit const char kName[] = "rollcall\0" ROLLCALL_VERSION;

namespace {
constinit std::atomic<bool> switched_off{false};
}

void* const* exported_profilers() noexcept {
  static void* const all[kVersions] = {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
                                       &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6,
                                       &ncclProfiler_v7};
  return all;
}

void switch_off() noexcept { switched_off.store(true, std::memory_order_relaxed); }
bool is_switched_off() noexcept { return switched_off.load(std::memory_order_relaxed); }

}  // namespace rollcall::profiler
