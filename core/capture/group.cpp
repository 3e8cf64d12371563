// ncclGroupStart/End nesting, per thread; numbers of outermost groups, per process.
#include <atomic>

#include "core/capture/live.h"
#include "core/capture/tickets.h"

namespace rollcall::capture {

namespace {
// Numbers that a thread draws at once: a locked instruction for each group would be the tenth part
// of what a small group costs.
constexpr uint32_t kGroupBlock = 64;
constinit std::atomic<uint32_t> next_block{0};

// None of the thread's next operations has a lower ticket.
uint64_t first_ticket_behind(const ThreadState& thread) noexcept {
  const bool is_current = thread.incarnation == live.incarnation.load(std::memory_order_acquire);
  const ThreadTickets& own = thread.tickets;
  if (is_current && own.next != own.end) return own.next;
  return live.ops.next_ticket != nullptr ? load_relaxed(*live.ops.next_ticket) : 1;
}

}  // namespace

uint32_t next_group_number() noexcept {
  ThreadGroups& numbers = this_thread.group_numbers;
  if (numbers.next == numbers.end) {
    numbers.next = next_block.fetch_add(kGroupBlock, std::memory_order_relaxed);
    numbers.end = numbers.next + kGroupBlock;
    // 0 means "no group"; it comes round again after 2^32 numbers.
    if (numbers.next == 0) numbers.next = 1;
  }
  return numbers.next++;
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
  gpu::Timer* timer = live.gpu.load(std::memory_order_relaxed);
  if (timer != nullptr) timer->abandon_group(this_thread.gpu);
}

uint32_t current_group() noexcept { return this_thread.group; }

void reset_groups() noexcept {
  next_block.store(0, std::memory_order_relaxed);
  this_thread.group_numbers = {};  // of a forked child this is the only thread
}

}  // namespace rollcall::capture
