// A thread's tickets for the ring of operations.
//
// All threads draw from one counter. Drawn one by one, its cache line goes from core to core with
// every call of every thread, which costs more than the rest of the record. So a thread that finds
// itself in a rush with others draws a block, and spends it call by call.
//
// Invariants:
//   * The tickets of a thread ascend, and so do those of a communicator: a thread gives up what it
//     holds where another one has used the communicator since. Between different threads on
//     different communicators tickets are in order to within kBlockTicks; a reader that wants more
//     goes by the time of the call (FileHeader::ticket_block says that it must).
//   * A ticket is spent, or given up and counted: no record will ever bear it. What a thread holds
//     when it dies or goes to sleep stands in its ThreadEntry (open_block), so that a reader takes
//     it for unspent, not for lost.
//   * A thread alone, or one that calls as often as NCCL launches, draws one by one. So do all
//     where the GPU is timed: what the GPU went past on a stream is told by the tickets on it, and
//     two calls to the driver cost more than the counter.
//   * A thread that gave up a block must be in a rush four times as long before the next one. Of
//     many draws few are given up, whatever the pattern: they take room in the ring, and in the
//     flusher's list of operations to look at later.
//
// Threads: each its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/limits.h"
#include "core/capture/live.h"

namespace rollcall::capture {

// Between two draws of a thread in a rush: one or two microseconds of a TSC, four of a clock that
// counts nanoseconds. Calls that NCCL only queues (those inside a group) come closer than that.
inline constexpr uint64_t kRushTicks = 4096;
// What is left of a block that was drawn longer ago is given up.
inline constexpr uint64_t kBlockTicks = kTicketBlock * kRushTicks;
inline constexpr uint32_t kRushesWantedMax = 4096;

// Gives up what the thread holds: the tickets it draws next are newer than all that others hold.
[[gnu::noinline, gnu::cold]] inline void give_up_block(ThreadState& thread) noexcept {
  ThreadTickets& tickets = thread.tickets;
  // A reader looks at the open blocks first: it may take these for unspent as well as for given up,
  // but not for lost.
  add_relaxed(live.stats->given_up, tickets.end - tickets.next);
  store_release(live.threads[thread.index].open_block, uint32_t{0});
  tickets.next = tickets.end;
  tickets.rushes = 0;
  tickets.rushes_wanted = std::min(4 * tickets.rushes_wanted, kRushesWantedMax);
}
inline void give_up_tickets(ThreadState& thread) noexcept {
  if (thread.tickets.next != thread.tickets.end) give_up_block(thread);
}

inline void close_block(ThreadState& thread) noexcept {
  ThreadTickets& tickets = thread.tickets;
  store_relaxed(live.threads[thread.index].open_block, uint32_t{0});
  tickets.rushes_wanted =
      std::max(tickets.rushes_wanted - tickets.rushes_wanted / 8, kRushesWantedMin);
}

inline void open_block(ThreadState& thread) noexcept {
  store_relaxed(live.threads[thread.index].open_block, static_cast<uint32_t>(thread.tickets.end));
}

[[gnu::noinline]] inline uint64_t draw_tickets(ThreadState& thread, uint64_t now_ticks) noexcept {
  ThreadTickets& tickets = thread.tickets;
  give_up_tickets(thread);
  const uint64_t rush_ticks = tickets.drawn == 1 ? kRushTicks : kBlockTicks;
  const bool in_rush = now_ticks - tickets.drawn_ticks < rush_ticks;
  const bool takes_block = in_rush && tickets.rushes >= tickets.rushes_wanted &&
                           thread.index != kThreadUnknown &&
                           live.gpu.load(std::memory_order_relaxed) == nullptr;
  if (takes_block && load_relaxed(live.header->ticket_block) == 0) {
    store_relaxed(live.header->ticket_block, kTicketBlock);
  }
  const uint32_t drawn = takes_block ? kTicketBlock : 1;
  const uint64_t first = add_relaxed(*live.ops.next_ticket, uint64_t{drawn});
  const bool is_alone = first == tickets.end;  // nobody else has drawn since
  // Once alone is not alone: of two that draw blocks side by side one is a little ahead.
  const uint32_t rushes =
      is_alone ? tickets.rushes / 2 : std::min(tickets.rushes + 1, 2 * tickets.rushes_wanted);
  tickets.rushes = in_rush ? rushes : 0;
  tickets.next = first + 1;
  tickets.end = first + drawn;
  tickets.drawn_ticks = now_ticks;
  tickets.drawn = drawn;
  if (takes_block) open_block(thread);
  return first;
}

// Where the GPU is timed.
inline uint64_t next_single_ticket(ThreadState& thread) noexcept {
  give_up_tickets(thread);
  return add_relaxed(*live.ops.next_ticket, uint64_t{1});
}

// `now_ticks`: when the call was made. `newest_on_comm`: the newest ticket of its communicator.
inline uint64_t next_ticket(ThreadState& thread, uint64_t now_ticks,
                            uint64_t newest_on_comm) noexcept {
  ThreadTickets& tickets = thread.tickets;
  const bool holds_some = tickets.next != tickets.end;
  if (!holds_some || newest_on_comm >= tickets.next ||
      now_ticks - tickets.drawn_ticks >= kBlockTicks) {
    return draw_tickets(thread, now_ticks);
  }
  const uint64_t ticket = tickets.next++;
  if (tickets.next == tickets.end) close_block(thread);
  return ticket;
}

}  // namespace rollcall::capture
