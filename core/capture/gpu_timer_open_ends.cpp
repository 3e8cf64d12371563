// Calls that come back before NCCL launches them (gpu_open_ends.h).
#include <algorithm>

#include "core/base/clock.h"
#include "core/capture/gpu_timer.h"

namespace rollcall::capture {

GpuEndName GpuTimer::end_name_of(uint64_t ticket) const noexcept {
  const uint32_t group = records_.group_of(ticket);
  return group != 0 ? end_name_of_group(group) : end_name_of_call(ticket);
}

// --- the launching thread ------------------------------------------------------------------------

// A captured operation is not awaited: nothing runs yet.
bool GpuTimer::keep_open(GpuThread& thread, OpRecord* record, uint64_t ticket) noexcept {
  GpuOpenEnd* end = open_ends_.take(end_name_of_call(ticket));
  if (end == nullptr) {
    if (thread.pair != nullptr) GpuRecords::note_untimed(record, stats_->gpu_untimed);
    abandon_call(thread);
    return false;
  }
  end->context = thread.context;
  end->pair = thread.pair;
  end->lane = thread.lane;
  end->lane_stream = thread.lane_stream;
  const GpuStream stream = thread.pair != nullptr ? thread.pair->stream : thread.lane_stream;
  end->is_launchers.store(is_default_stream(stream), std::memory_order_relaxed);
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
void GpuTimer::open_filled(GpuThread& thread) noexcept {
  GpuOpenEnd& end = *thread.filled_end;
  thread.filled_end = nullptr;
  open_call(thread, end, end.pair->first_ticket);
}

// From the moment it is open the end may be finished, and its place another's.
void GpuTimer::open_call(GpuThread& thread, GpuOpenEnd& end, uint64_t ticket) noexcept {
  const uint32_t comm_index = records_.comm_of(ticket);
  thread.open_end = end_name_of_call(ticket);
  GpuOpenEnds::open(end, thread.open_end);
  if (open_ends_.is_told(comm_index, ticket)) give_up_open_end(thread);
}

void GpuTimer::keep_group_open(GpuThread& thread) noexcept {
  GpuGroup& group = *thread.group;
  thread.group = nullptr;
  GpuOpenEnd* end = open_ends_.take(end_name_of_group(group.number));
  if (end == nullptr) return finish_group(group, false, false);
  end->group = &group;
  const uint32_t number = group.number;
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (uint32_t i = 0; i < group.entries; ++i) {
    const GpuGroup::Entry& entry = group.entry[i];
    first = std::min(first, entry.first_ticket);
    last = std::max(last, entry.last_ticket);
    if (is_default_stream(entry.stream)) end->is_launchers.store(true, std::memory_order_relaxed);
  }
  thread.open_end = end_name_of_group(number);
  GpuOpenEnds::open(*end, thread.open_end);
  for (uint64_t ticket = first; ticket <= last; ++ticket) {
    if (records_.is_in_group(ticket, number) &&
        open_ends_.is_told(records_.comm_of(ticket), ticket)) {
      return give_up_open_end(thread);
    }
  }
}

void GpuTimer::give_up_open_end(GpuThread& thread) noexcept {
  const GpuEndName name = thread.open_end;
  thread.open_end = 0;
  GpuOpenEnd* end = open_ends_.find(name);
  if (end != nullptr && open_ends_.close(*end, name)) finish_end(*end, false);
}

// --- the thread that asks ------------------------------------------------------------------------

GpuTimer::Asked GpuTimer::open_end_of(uint64_t newest_ticket) noexcept {
  if (open_ends_.is_empty()) return {};
  const GpuEndName name = end_name_of(newest_ticket);
  return {open_ends_.find(name), name};
}

void GpuTimer::settle(GpuThread& thread, const Asked& asked, uint32_t comm_index,
                      uint64_t newest_ticket, bool is_launched) noexcept {
  GpuOpenEnd* end = asked.end;
  GpuEndName name = asked.name;
  if (end == nullptr) {
    open_ends_.note_told(comm_index, newest_ticket);
    if (open_ends_.is_empty()) return;
    name = end_name_of(newest_ticket);
    end = open_ends_.find(name);
    if (end == nullptr) return;
  }
  const bool is_own = thread.open_end == name;
  // Read of another end, if this one is finished by now: then there is nothing left to do.
  if (!is_own && end->is_launchers.load(std::memory_order_relaxed)) return;
  if (is_own) thread.open_end = 0;
  if (!open_ends_.close(*end, name)) return;
  const uint64_t before = ticks_now();
  finish_end(*end, is_launched && asked.end != nullptr);
  thread.mark_ticks += ticks_now() - before;
}

// --- either --------------------------------------------------------------------------------------

void GpuTimer::finish_end(GpuOpenEnd& end, bool is_launched) noexcept {
  if (end.group == nullptr) {
    finish_call(end, is_launched);
  } else {
    if (is_launched) leave_unreachable(*end.group);
    finish_group(*end.group, is_launched, false);
  }
  open_ends_.release(end);
}

void GpuTimer::finish_call(const GpuOpenEnd& end, bool is_launched) noexcept {
  if (end.lane.position != nullptr && is_launched) {
    write_word(end.lane_stream, *end.lane.position, end.lane.finished());
  }
  if (end.pair == nullptr) return;
  GpuPair& pair = *end.pair;
  if (is_launched) note_launch(pair.span());
  const bool is_markable = is_launched && !is_stopped() && is_reachable(*end.context, pair.stream);
  if (is_markable) {
    write_progress(pair.stream, pair.first_ticket, GpuMark::finished);
    if (ask<&GpuDriver::event_record>(pair.end, pair.stream) == kGpuSuccess) {
      return fly(*end.context, pair);
    }
  }
  records_.give_up(pair.span());
  give_back(pair);
}

// The launching thread may have gone to another device meanwhile.
void GpuTimer::leave_unreachable(GpuGroup& group) noexcept {
  for (uint32_t i = 0; i < group.entries; ++i) {
    GpuGroup::Entry& entry = group.entry[i];
    if (entry.pair != nullptr && !is_reachable(*entry.context, entry.stream)) {
      give_back(*entry.pair);
      entry.pair = nullptr;
    }
    note_launch({entry.first_ticket, entry.last_ticket, group.number, entry.stream});
  }
}

void GpuTimer::note_launch(const GpuSpan& span) noexcept {
  const uint64_t now = ticks_now();
  records_.visit(span, [&](OpRecord& record, uint64_t) {
    if (load_relaxed(record.launched_ticks) == 0) store_release(record.launched_ticks, now);
  });
}

}  // namespace rollcall::capture
