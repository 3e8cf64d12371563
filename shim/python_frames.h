// The Python frames of the calling thread, unless ROLLCALL_PYTHON_FRAMES=0.
//
// PyTorch has released the GIL when it calls NCCL, so nothing of Python's API that needs it may be
// called. But the thread that is inside NCCL has its own frames standing still below it: they are
// read as a debugger reads them, from the structures of the interpreters whose layout is known
// (CPython 3.9 to 3.14, not the free-threaded builds). The first call checks the layout through
// the kernel, so that an interpreter that is not what it says costs frames, not the job.
//
// Call sites are numbered, from 1, and written into the meta area once each, "frame.<number>=FILE
// :LINE FUNCTION < FILE:LINE FUNCTION …", innermost frame of the user's own code first. The key
// "frames_left_out" says that, and why, calls are without a number that would have one: to keep the
// overhead budget (shim/frame_budget.h), or because there is no room for more places.
#pragma once

namespace rollcall::shim {

// Looks for an interpreter and sets CallFlags::frame_reader. The meta key "python_frames" says
// which version is read, or why none is; "off" where nobody wants it. [cold]
void start_python_frames() noexcept;

}  // namespace rollcall::shim
