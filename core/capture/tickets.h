// A thread's tickets for the ring of operations.
//
// All threads draw from one counter. Drawn one by one, its cache line goes from core to core with
// every call of every thread, which costs more than the rest of the record. So a thread that finds
// itself in a rush with others draws a block, and spends it call by call.
//
// Invariants:
//   * A thread's tickets ascend. Those of different threads order their calls as long as nobody
//     rushes, and to within kBlockTicks where somebody does.
//   * A ticket is spent, or given up and counted as stepped over: no record will ever bear it. What
//     a thread holds when it dies or goes to sleep stands in its ThreadEntry (open_block), so that
//     a reader takes it for unspent, not for lost.
//   * A thread alone, or one that calls less than once per kRushTicks, draws one by one.
//
// Threads: each its own.
#pragma once

#include <cstdint>

#include "core/capture/live.h"

namespace rollcall::capture {

// Between two draws of a thread in a rush: one or two microseconds of a TSC, four of a clock that
// counts nanoseconds. Calls that NCCL only queues (those inside a group) come closer than that.
inline constexpr uint64_t kRushTicks = 4096;
// What is left of a block that was drawn longer ago is given up.
inline constexpr uint64_t kBlockTicks = kTicketBlock * kRushTicks;
// Draws in a rush, one behind the other, before the first block: two threads that meet by chance
// stay in order.
inline constexpr uint32_t kRushesBeforeBlock = 8;

// Gives up what the thread holds: the tickets it draws next are newer than all that others hold.
inline void give_up_tickets(ThreadState& thread) noexcept {
  ThreadTickets& tickets = thread.tickets;
  if (__builtin_expect(tickets.next == tickets.end, 1)) return;
  add_relaxed(*live.ops.stepped_over, tickets.end - tickets.next);
  tickets.next = tickets.end;
}

[[gnu::noinline]] inline uint64_t draw_tickets(ThreadState& thread, uint64_t now_ticks) noexcept {
  ThreadTickets& tickets = thread.tickets;
  give_up_tickets(thread);
  const bool in_blocks = tickets.rushes == kRushesBeforeBlock;
  const bool in_rush = now_ticks - tickets.drawn_ticks < (in_blocks ? kBlockTicks : kRushTicks);
  const bool wants_block = in_blocks && in_rush && thread.index != kThreadUnknown;
  const uint32_t drawn = wants_block ? kTicketBlock : 1;
  const uint64_t first = add_relaxed(*live.ops.next_ticket, uint64_t{drawn});
  const bool is_alone = first == tickets.end;
  if (!in_rush || is_alone) {
    tickets.rushes = 0;
  } else if (!in_blocks) {
    ++tickets.rushes;
  }
  tickets.next = first + 1;
  tickets.end = first + drawn;
  tickets.drawn_ticks = now_ticks;
  if (wants_block || tickets.drawn != 1) {
    const uint64_t open_block = wants_block ? tickets.end : 0;
    store_relaxed(live.threads[thread.index].open_block, static_cast<uint32_t>(open_block));
  }
  tickets.drawn = drawn;
  return first;
}

// `now_ticks`: when the call was made.
inline uint64_t next_ticket(ThreadState& thread, uint64_t now_ticks) noexcept {
  ThreadTickets& tickets = thread.tickets;
  const bool holds_some = tickets.next != tickets.end;
  if (holds_some && now_ticks - tickets.drawn_ticks < kBlockTicks) return tickets.next++;
  return draw_tickets(thread, now_ticks);
}

}  // namespace rollcall::capture
