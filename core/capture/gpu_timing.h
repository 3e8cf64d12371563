// GPU timing of this process: finds the driver, owns the timer (core/gpu/timer.h) and the
// thread that polls it. Not for others than core/capture.
//
// The driver is looked for at the first operation on a communicator, when the job has certainly
// loaded it, and only through the look-up that the shim has given (recorder.h): this library never
// loads it. The thread is not the flusher: a driver that is stuck in a call of the job's must not
// stop the heartbeat.
#pragma once

#include "core/gpu/timer.h"

namespace rollcall::capture {

// Called while live.wants_gpu. Sets live.gpu, or gives up after some attempts. [cold]
void start_gpu_timing() noexcept;
// At an orderly exit: where no driver was found until then, the file says why.
void end_search_for_gpu() noexcept;
// In a forked child: the driver is the parent's.
void forget_gpu_timing() noexcept;

}  // namespace rollcall::capture
