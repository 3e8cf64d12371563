// KernelPhase events (NCCL 2.31): how long the kernel of an operation waited for its peers at its
// begin, worked, and waited at its end.
//
// They come on the thread that brings the KernelCh, between its start and its stop, on the same
// clock, up to three per channel. A phase that took no time is not told of. Their times are summed
// up over the channels and kept when the operation's last KernelCh has stopped. Times that
// contradict the kernel's own are not used, and counted (plugin_kernel_lost).
#pragma once

#include "profiler_plugin/event.h"
#include "profiler_plugin/handles.h"

namespace rollcall::profiler {

void* start_phase(const Event& event) noexcept;
// State KernelPhaseStop; the stop event follows at once.
int record_phase_stop(const void* value, uint64_t timer_ns) noexcept;
int stop_phase(const void* value) noexcept;

// The kernel of the operation is over on all of its `channels`.
void keep_phases(const OpPlace& place, uint64_t turn, uint32_t channels) noexcept;

}  // namespace rollcall::profiler
