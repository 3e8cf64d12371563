// Group calls, calls and the operations that NCCL makes of them: what opens, enriches and settles
// operation records. Order of the events of one collective since NCCL 2.28, on one thread:
//
//   GroupApi start, state 23, CollApi start, CollApi stop, state 24,
//   KernelLaunch start, stop, Group start, Coll start, Coll stop, Group stop, GroupApi stop
//
// KernelCh and ProxyOp follow on other threads, also long after. In a group the calls come first
// and then everything else once; before 2.28 there are only Group, Coll and P2p.
#pragma once

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/handles.h"

namespace rollcall::profiler {

void* start_group_api(Context& context, int32_t depth) noexcept;
void begin_group_end(Handle handle) noexcept;
void stop_group_api(Handle handle) noexcept;

// CollApi, P2pApi.
void* start_call(Context& context, void* context_value, const Event& event) noexcept;
void stop_call(Handle handle) noexcept;

// KernelLaunch: the thread launches a kernel; the operations whose Coll or P2p follow are in it.
void note_launch() noexcept;

// Coll, P2p.
void* start_operation(Context& context, void* context_value, const Event& event) noexcept;
void stop_operation(Handle handle) noexcept;
// CeColl: a collective by copies instead of a kernel.
void* start_copy_engine(Context& context, const Event& event) noexcept;

// Releases the record when the host is done with the operation and no kernel time is awaited.
void settle_if_due(OpPlace& place, uint64_t turn) noexcept;

}  // namespace rollcall::profiler
