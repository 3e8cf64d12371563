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

namespace rollcall::profiler {

// Fills NCCL's context; gives the mask of events that are wanted.
void* init(const ContextOpening& opening, uint32_t& mask) noexcept;
void finalize(void* context) noexcept;

// What starts no event: it names no open context, or nobody asked for its type. Null, and counted.
[[gnu::cold]] int start_without_context(void** handle) noexcept;
void* start_unknown(uint32_t type) noexcept;

}  // namespace rollcall::profiler
