// Calls that come back before NCCL launches them (open_ends.h).
#include <algorithm>

#include "core/base/clock.h"
#include "core/gpu/in_context.h"
#include "core/gpu/timer.h"

namespace rollcall::gpu {
namespace {

bool is_launchers_alone(const Group::Entry& entry) {
  return entry.capture != kNoCapture || is_default_stream(entry.stream);
}

}  // namespace

EndName Timer::end_name_of(uint64_t ticket) const noexcept {
  const uint32_t group = records_.group_of(ticket);
  return group != 0 ? end_name_of_group(group) : end_name_of_call(ticket);
}

// --- the launching thread ------------------------------------------------------------------------

// A captured operation is not awaited: nothing runs yet.
bool Timer::keep_open(Thread& thread, OpRecord* record, uint64_t ticket) noexcept {
  note_cost(thread, 0, kMeasuredMarks);
  OpenEnd* end = open_ends_.take(end_name_of_call(ticket));
  if (end == nullptr) {
    if (thread.pair != nullptr) Records::note_untimed(record, stats_->gpu_untimed);
    give_marks_up(thread.lane);
    abandon_call(thread);
    return false;
  }
  end->pair = thread.pair;
  end->lane = thread.lane;
  end->lane_stream = thread.lane_stream;
  const bool is_launchers = thread.pair == nullptr || is_default_stream(thread.pair->stream);
  end->is_launchers.store(is_launchers, std::memory_order_release);
  thread.pair = nullptr;
  thread.lane = {};
  thread.ticket = 0;
  if (end->pair == nullptr) {
    open_call(thread, *end, ticket);
    return false;
  }
  end->pair->group = 0;
  end->pair->first_ticket = end->pair->last_ticket = ticket;
  records_.await();
  thread.filled_end = end;
  return true;
}

// Its record is published: whoever finishes it finds it awaited.
void Timer::open_filled(Thread& thread) noexcept {
  OpenEnd& end = *thread.filled_end;
  thread.filled_end = nullptr;
  open_call(thread, end, end.pair->first_ticket);
}

// From the moment it is announced the end may be finished, and its place another's. What is marked
// by the launching thread alone is safe, whatever others were told.
void Timer::open_call(Thread& thread, OpenEnd& end, uint64_t ticket) noexcept {
  const uint32_t comm_index = records_.comm_of(ticket);
  const bool is_launchers = end.is_launchers.load(std::memory_order_relaxed);
  thread.open_end = end_name_of_call(ticket);
  OpenEnds::announce(end, thread.open_end);
  if (!is_launchers && open_ends_.is_told_since(comm_index, thread.answers)) {
    return give_up_open_end(thread);
  }
  OpenEnds::open(end, thread.open_end);
}

void Timer::keep_group_open(Thread& thread) noexcept {
  Group& group = *thread.group;
  thread.group = nullptr;
  note_cost(thread, 0, 1);
  const uint32_t number = group.number;
  OpenEnd* end = open_ends_.take(end_name_of_group(number));
  if (end == nullptr) return finish_group(group, false, false, true);
  end->group = &group;
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  bool is_launchers = true;
  for (uint32_t i = 0; i < group.entries; ++i) {
    const Group::Entry& entry = group.entry[i];
    first = std::min(first, entry.first_ticket);
    last = std::max(last, entry.last_ticket);
    is_launchers = is_launchers && is_launchers_alone(entry);
  }
  end->is_launchers.store(is_launchers, std::memory_order_release);
  thread.open_end = end_name_of_group(number);
  OpenEnds::announce(*end, thread.open_end);
  const auto is_told = [&](uint32_t comm_index_untrusted) {
    return open_ends_.is_told_since(comm_index_untrusted, thread.answers);
  };
  if (!is_launchers && records_.any_in_group(first, last, number, is_told)) {
    return give_up_open_end(thread);
  }
  OpenEnds::open(*end, thread.open_end);
}

void Timer::give_up_open_end(Thread& thread) noexcept {
  const EndName name = thread.open_end;
  thread.open_end = 0;
  OpenEnd* end = open_ends_.find(name, OpenEnd::announced);
  if (end != nullptr && open_ends_.close(*end, name)) finish_end(*end, false, true);
}

// --- the thread that asks ------------------------------------------------------------------------

Timer::Asked Timer::open_end_of(uint64_t newest_ticket) noexcept {
  if (open_ends_.is_empty()) return {};
  const EndName name = end_name_of(newest_ticket);
  return {open_ends_.find(name, OpenEnd::open), name};
}

void Timer::settle(Thread& thread, const Asked& asked, uint32_t comm_index, uint64_t newest_ticket,
                   bool is_launched) noexcept {
  if (asked.end != nullptr && settle_end(thread, *asked.end, asked.name, is_launched, true)) return;
  open_ends_.note_told(comm_index);
  if (open_ends_.is_empty()) return;
  const EndName name = end_name_of(newest_ticket);
  if (asked.end != nullptr && name == asked.name) return;  // that is finished
  OpenEnd* end = open_ends_.find(name, OpenEnd::announced);
  if (end != nullptr) settle_end(thread, *end, name, is_launched, false);
}

// `is_sure`: the answer is about this end. False: another thread has finished it.
bool Timer::settle_end(Thread& thread, OpenEnd& end, EndName name, bool is_launched,
                       bool is_sure) noexcept {
  const bool is_own = thread.open_end == name;
  const bool is_launchers = end.is_launchers.load(std::memory_order_acquire);
  if (!OpenEnds::is_there(end, name, OpenEnd::announced))
    return false;  // that was read of another end
  if (!is_own && is_launched && is_launchers) return true;
  if (is_own) thread.open_end = 0;
  if (!open_ends_.close(end, name)) return false;
  const uint64_t before = ticks_now();
  finish_end(end, is_launched && is_sure, is_own);
  if (is_own) thread.mark_ticks += ticks_now() - before;
  return true;
}

// --- either --------------------------------------------------------------------------------------

void Timer::finish_end(OpenEnd& end, bool is_launched, bool is_own) noexcept {
  if (end.group == nullptr) {
    finish_call(end, is_launched, is_own);
  } else {
    if (is_launched) leave_unreachable(*end.group, is_own);
    finish_group(*end.group, is_launched, false, is_own);
  }
  open_ends_.release(end);
}

void Timer::finish_call(const OpenEnd& end, bool is_launched, bool is_own) noexcept {
  if (end.lane.position != nullptr) {
    if (!is_launched) return give_marks_up(end.lane);
    return put_mark(end.lane_stream, end.lane, end.lane.finished());
  }
  Pair& pair = *end.pair;
  if (is_launched) {
    note_launch(pair.span());
    if (events_.is_reachable(*pair.context, pair.stream) &&
        record_end(pair, pair.first_ticket, is_own)) {
      return events_.fly(pair);
    }
  }
  records_.give_up(pair.span());
  events_.abandon(pair);
}

// The launching thread may have gone to another device meanwhile; another thread has other default
// streams, and no business in a capture.
void Timer::leave_unreachable(Group& group, bool is_own) noexcept {
  for (uint32_t i = 0; i < group.entries; ++i) {
    Group::Entry& entry = group.entry[i];
    const bool is_out_of_reach = !is_own && is_launchers_alone(entry);
    if (is_out_of_reach) {
      give_marks_up(entry.lane);
      entry.lane = {};
    }
    if (entry.pair != nullptr &&
        (is_out_of_reach || !events_.is_reachable(*entry.context, entry.stream))) {
      events_.abandon(*entry.pair);
      entry.pair = nullptr;
    }
    note_launch({entry.first_ticket, entry.last_ticket, group.number, entry.stream});
  }
}

// The mark in front is in the graph, the one behind will not be: no replay would seem to end.
void Timer::give_marks_up(const LaneMark& lane) noexcept {
  if (lane.position == nullptr) return;
  captures_.give_marks_up(lane.capture);
  add_relaxed(stats_->graph_unmarked, uint64_t{1});
}

// Of operations that have no marks the positions behind them would name others.
void Timer::give_marks_up(const Group::Entry& entry) noexcept {
  give_marks_up(entry.lane);
  captures_.give_marks_up(entry.capture);
}

bool Timer::record_end(const Pair& pair, uint64_t first_ticket, bool is_own) noexcept {
  if (is_stopped()) return false;
  if (!is_own) {  // whatever context it is in, or none
    const InContext inside(asked_.driver, pair.context->handle);
    return inside.is_current() && record_end(pair, first_ticket, true);
  }
  write_progress(pair.stream, first_ticket, GpuMark::finished);
  return events_.close(pair);
}

void Timer::note_launch(const Span& span) noexcept {
  const uint64_t now = ticks_now();
  records_.visit(span, [&](OpRecord& record, uint64_t) {
    if (load_relaxed(record.launched_ticks) == 0) store_release(record.launched_ticks, now);
  });
}

}  // namespace rollcall::gpu
