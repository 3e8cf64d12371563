// ncclGroupStart/End nesting, per thread; numbers of outermost groups, per process.
#include <atomic>

#include "core/capture/live.h"

namespace rollcall::capture {

namespace {
constinit std::atomic<uint32_t> last_group{0};
}

uint32_t group_enter() noexcept {
  ThreadState& thread = this_thread;
  if (thread.group_depth++ == 0) {
    uint32_t number = last_group.fetch_add(1, std::memory_order_relaxed) + 1;
    // 0 means "no group"; after 2^32 groups it is skipped.
    if (number == 0) number = last_group.fetch_add(1, std::memory_order_relaxed) + 1;
    thread.group = number;
    thread.group_operations = 0;
  }
  return thread.group;
}

uint32_t group_leave(uint32_t* operations) noexcept {
  ThreadState& thread = this_thread;
  if (operations != nullptr) *operations = thread.group_operations;
  if (thread.group_depth == 0) return 0;  // an end without a start: NCCL will say so itself
  if (--thread.group_depth != 0) return 0;
  const uint32_t number = thread.group;
  thread.group = 0;
  return number;
}

void group_abandoned() noexcept {
  GpuTimer* timer = live.gpu.load(std::memory_order_relaxed);
  if (timer != nullptr) timer->abandon_group(this_thread.gpu);
}

uint32_t current_group() noexcept { return this_thread.group; }

void reset_groups() noexcept { last_group.store(0, std::memory_order_relaxed); }

}  // namespace rollcall::capture
