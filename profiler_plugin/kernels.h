// KernelCh events: when the GPU began and ended an operation, channel by channel.
//
// NCCL reports the GPU's own clock (%globaltimer). The distance between it and the host's clock is
// not known, but each event bounds it: the start is reported after it happened, and the kernel was
// launched before it started. The tightest bounds seen so far give the alignment, and their width
// its error.
//
// NCCL's device writes the times into a ring of 64 per channel and the host reads late: where 64
// other kernels came between, the time read belongs to another operation. Such times are not used,
// and counted (plugin_kernel_lost), as are those that end before they begin.
#pragma once

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/handles.h"

namespace rollcall::profiler {

inline constexpr uint64_t kKernelRing = 64;

void* start_kernel(Context& context, const Event& event) noexcept;
// State KernelChStop; the stop event follows at once.
int record_kernel_stop(const void* value, uint64_t timer_ns) noexcept;
int stop_kernel(const void* value) noexcept;

}  // namespace rollcall::profiler
