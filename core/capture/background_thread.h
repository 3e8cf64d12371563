// A thread of the recorder in somebody else's process.
#pragma once

namespace rollcall::capture {

// Starts a detached thread that blocks all signals, so that none of the job's handlers ever runs on
// it. False when it cannot be had. [cold]
bool start_background_thread(const char* name, void* (*run)(void*), void* argument) noexcept;

}  // namespace rollcall::capture
