// The profiler plugin behind its seven doors (version_N.cpp): what becomes of NCCL's events.
//
// Alone it records: a CollApi or P2pApi event (up to version 4, where there are none, a Coll or P2p
// event) opens an operation record in the name of the communicator, marked kOpFromPlugin. With the
// shim in the same recorder it never opens one: the event of a call comes on the thread that is
// inside that call, so the record is at hand, and what follows carries the handle of that event.
// Nothing is ever joined by time.
//
// Threads: all functions from any thread at any time. None blocks, allocates or calls NCCL, except
// init() and finalize(), which may lock and start the recorder.
#pragma once

#include <cstdint>

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"

namespace rollcall::profiler {

// Fills NCCL's context; gives the mask of events that are wanted.
void* init(const ContextOpening& opening, uint32_t& mask) noexcept;
void finalize(void* context) noexcept;

// The handle for NCCL to keep; null where nothing more needs to be heard about the event.
void* start_event(void* context, const Event& event) noexcept;
// The same of a type that is_small() holds of. `number`: depth of a GroupApi, step of a ProxyStep.
void* start_small_event(void* context, uint32_t type, void* parent, int32_t number) noexcept;
void stop_event(void* handle) noexcept;
// `word`: the first eight bytes of the arguments, zero where NCCL gave none.
void record_state(void* handle, int state, uint64_t word) noexcept;

}  // namespace rollcall::profiler
