// A thread of the recorder in somebody else's process.
#pragma once

namespace rollcall::capture {

// Starts a detached thread that blocks all signals, so that none of the job's handlers ever runs on
// it. False when it cannot be had. It has begun when this returns, or a second has passed: what the
// C library asks of the kernel for a new thread is behind it, and a filter of system calls that the
// job sets next (seccomp) does not meet it half born. `name` is a literal. [cold]
bool start_background_thread(const char* name, void* (*run)(void*), void* argument) noexcept;

}  // namespace rollcall::capture
