// ncclGroupStart/End nesting, per thread; numbers of outermost groups, per process.
#include <atomic>

#include "core/capture/live.h"
#include "core/capture/tickets.h"

namespace rollcall::capture {

namespace {
constinit std::atomic<uint32_t> last_group{0};

// None of the thread's next operations has a lower ticket.
uint64_t first_ticket_behind(const ThreadState& thread) noexcept {
  const bool is_current = thread.incarnation == live.incarnation.load(std::memory_order_acquire);
  const ThreadTickets& own = thread.tickets;
  if (is_current && own.next != own.end) return own.next;
  return live.ops.next_ticket != nullptr ? load_relaxed(*live.ops.next_ticket) : 1;
}

}  // namespace

uint32_t next_group_number() noexcept {
  const uint32_t number = last_group.fetch_add(1, std::memory_order_relaxed) + 1;
  // 0 means "no group"; after 2^32 groups it is skipped.
  return number != 0 ? number : last_group.fetch_add(1, std::memory_order_relaxed) + 1;
}

uint32_t group_enter() noexcept {
  ThreadState& thread = this_thread;
  if (thread.group_depth++ == 0) {
    thread.group = next_group_number();
    thread.group_operations = 0;
    thread.group_first_ticket = first_ticket_behind(thread);
    thread.group_cursor = thread.group_first_ticket;
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
