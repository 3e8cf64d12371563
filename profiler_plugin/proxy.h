// Proxy operations and their steps: what the network threads did, and what they wait for. Summed up
// per channel, peer and direction in the file's table of channels, so that the cost in the file
// does not grow with the number of steps.
#pragma once

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/handles.h"

namespace rollcall::profiler {

// True, and counted, for a ProxyOp that another process issued: this one only serves it.
bool is_foreign(const Event& event) noexcept;

void* start_proxy_op(Context& context, const Event& event) noexcept;
void stop_proxy_op(Handle handle) noexcept;
void* start_proxy_step(void* parent, int32_t number) noexcept;
// A step enters a wait; `bytes` of the step as far as NCCL knows them, 0 if not.
void record_step_state(Handle handle, int state, uint64_t bytes) noexcept;
void stop_proxy_step(Handle handle) noexcept;

}  // namespace rollcall::profiler
