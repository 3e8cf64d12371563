// The GPU timer where activity records tell (activity.h), not events.
#include "core/gpu/timer.h"

namespace rollcall::gpu {

void Timer::mark_region(Thread& thread, const Plan& plan, OpRecord* record, uint64_t ticket,
                        Stream stream, uint32_t group) noexcept {
  if (group != 0) {
    const bool is_in =
        thread.group != nullptr &&
        add_to_group(*thread.group, entry_of(stream, nullptr, kNoCapture, plan.device, ticket));
    if (is_in) {
      thread.ticket = ticket;
      return;
    }
  } else {
    const Activity::Part part{.span = {ticket, ticket, 0, stream}, .device = plan.device};
    thread.region = activity_->open(&part, 1);
    if (thread.region != nullptr) {
      thread.ticket = ticket;
      return;
    }
  }
  Records::note_untimed(record, stats_->gpu_untimed);
}

bool Timer::close_region(Thread& thread, OpRecord* record, bool is_launched) noexcept {
  if (is_launched && !is_stopped()) {
    activity_->leave();
    records_.await();
    return true;  // opened() lets it fly
  }
  finish_region(thread, false);
  Records::note_untimed(record, stats_->gpu_untimed);
  return false;
}

void Timer::open_group_region(Thread& thread) noexcept {
  const Group& group = *thread.group;
  Activity::Part parts[kGpuGroupStreamsMax];
  uint32_t count = 0;
  for (uint32_t i = 0; i < group.entries; ++i) {
    const Group::Entry& entry = group.entry[i];
    if (entry.capture != kNoCapture) continue;
    parts[count++] = {.span = {entry.first_ticket, entry.last_ticket, group.number, entry.stream},
                      .device = entry.device};
  }
  thread.region = activity_->open(parts, count);
}

// The thread leaves its region; true when the records of its kernels are awaited.
bool Timer::finish_region(Thread& thread, bool is_launched) noexcept {
  Region& region = *thread.region;
  thread.region = nullptr;
  const bool flies = is_launched && !is_stopped();
  if (!is_stopped()) activity_->leave();
  if (flies) {
    activity_->fly(region);
  } else {
    activity_->abandon(region);
  }
  return flies;
}

// In the relaxed mode: what the source asks of the driver must not break a capture of the job's.
void Timer::poll_activity(double ticks_per_ns, bool is_last) noexcept {
  int mode = kCaptureRelaxed;
  const bool is_relaxed = asked_.driver.exchange_capture_mode(&mode) == kSuccess;
  activity_->poll(ticks_per_ns, is_last);
  if (is_relaxed) asked_.driver.exchange_capture_mode(&mode);
}

}  // namespace rollcall::gpu
