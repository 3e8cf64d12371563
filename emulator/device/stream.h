// Between the driver API and the engine: work goes to a stream, or into the graph that the stream
// is capturing.
#pragma once

#include <functional>

#include "emulator/device/context.h"
#include "emulator/device/engine.h"

namespace emu {

// Makes the operation; called once when it is put on a stream, and once per replay when it was
// captured.
using MakeOp = std::function<Op()>;

// Work of one kind for the current device's stream `handle`. Errors: not initialised, no context,
// the device's sticky error, invalid handle, an invalidated capture, an implicit wait for a
// capturing stream.
CUresult submit(CUstream handle, CUgraphNodeType type, MakeOp make);
// The same, then waits until it is done: for calls without "Async". `handle` must not capture.
CUresult submit_and_wait(CUstream handle, const MakeOp& make);

CUresult wait_event(CUstream handle, CUevent event, unsigned flags);
CUresult record_event(CUstream handle, CUevent event, unsigned flags);

Op nothing_op();
Op run_op(std::function<void()> run, bool short_run, uint64_t duration_ns);

}  // namespace emu
