// The GPU timer where activity records tell (gpu_activity.h), not events.
#include "core/capture/gpu_timer.h"

namespace rollcall::capture {

void GpuTimer::mark_region(GpuThread& thread, const GpuPlan& plan, OpRecord* record,
                           uint64_t ticket, GpuStream stream, uint32_t group) noexcept {
  if (group != 0) {
    const bool is_in =
        thread.group != nullptr &&
        add_to_group(*thread.group, entry_of(stream, nullptr, kNoCapture, plan.device, ticket));
    if (is_in) {
      thread.ticket = ticket;
      return;
    }
  } else {
    const GpuActivity::Part part{.span = {ticket, ticket, 0, stream}, .device = plan.device};
    thread.region = activity_->open(&part, 1);
    if (thread.region != nullptr) {
      thread.ticket = ticket;
      return;
    }
  }
  GpuRecords::note_untimed(record, stats_->gpu_untimed);
}

bool GpuTimer::close_region(GpuThread& thread, OpRecord* record, bool is_launched) noexcept {
  if (is_launched && !is_stopped()) {
    activity_->leave();
    records_.await();
    return true;  // opened() lets it fly
  }
  finish_region(thread, false);
  GpuRecords::note_untimed(record, stats_->gpu_untimed);
  return false;
}

void GpuTimer::open_group_region(GpuThread& thread) noexcept {
  const GpuGroup& group = *thread.group;
  GpuActivity::Part parts[kGpuGroupStreamsMax];
  uint32_t count = 0;
  for (uint32_t i = 0; i < group.entries; ++i) {
    const GpuGroup::Entry& entry = group.entry[i];
    if (entry.capture != kNoCapture) continue;
    parts[count++] = {.span = {entry.first_ticket, entry.last_ticket, group.number, entry.stream},
                      .device = entry.device};
  }
  thread.region = activity_->open(parts, count);
}

// The thread leaves its region; true when the records of its kernels are awaited.
bool GpuTimer::finish_region(GpuThread& thread, bool is_launched) noexcept {
  GpuRegion& region = *thread.region;
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
void GpuTimer::poll_activity(double ticks_per_ns, bool is_last) noexcept {
  int mode = kGpuCaptureRelaxed;
  const bool is_relaxed = driver_.exchange_capture_mode(&mode) == kGpuSuccess;
  activity_->poll(ticks_per_ns, is_last);
  if (is_relaxed) driver_.exchange_capture_mode(&mode);
}

}  // namespace rollcall::capture
