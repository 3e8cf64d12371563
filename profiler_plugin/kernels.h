// KernelCh events: when the GPU began and ended an operation, channel by channel.
//
// NCCL reports the GPU's own clock (%globaltimer), which gpu_clock.h puts on the host's.
//
// NCCL's device writes the times into a ring of 64 per channel and the host reads late: where 64
// other kernels came between, the time read belongs to another operation. Such times are not used,
// and counted (plugin_kernel_lost), as are those that end before they begin.
//
// The host finds a kernel's place in the ring by counting the kernels of the channel. NCCL 2.31
// does not count those that it does not tell of, as a Broadcast's, while the device does: from
// then on every time that it reads is that of an earlier kernel. (From 2.26 to 2.30 it counts all.)
// So behind a Broadcast that was called and not told of no more times of its communicator are
// used; nor behind a kernel that would have started before it was launched, whatever the reason.
#pragma once

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/handles.h"

namespace rollcall::profiler {

inline constexpr uint64_t kKernelRing = 64;
// The interface since which NCCL counts only the kernels that it tells of.
inline constexpr uint32_t kCountsToldKernels = 7;
// A time of a GPU may be told so much too early (gpu_clock.h), with room for what is worse than
// NTP.
inline constexpr uint64_t kClockDoubtNs = 1'000'000;

void* start_kernel(Context& context, const Event& event) noexcept;
// State KernelChStop; the stop event follows at once.
int record_kernel_stop(const void* value, uint64_t timer_ns) noexcept;
int stop_kernel(const void* value) noexcept;

// The group of a call with kAwaitsTelling has ended, and its operation was not told of; or, in the
// end, it is.
[[gnu::cold]] void note_untold_kernels(OpPlace& place) noexcept;
[[gnu::cold]] void note_told_kernels(OpPlace& place) noexcept;

}  // namespace rollcall::profiler
