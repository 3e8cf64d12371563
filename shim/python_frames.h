// The Python frames of the calling thread, for ROLLCALL_PYTHON_FRAMES=1.
//
// PyTorch has released the GIL when it calls NCCL, so nothing of Python's API that needs it may be
// called. But the thread that is inside NCCL has its own frames standing still below it: they are
// read as a debugger reads them, from the structures of the interpreters whose layout is known
// (CPython 3.9 to 3.14, not the free-threaded builds). The first call checks the layout through
// the kernel, so that an interpreter that is not what it says costs frames, not the job.
//
// Call sites are numbered, from 1, and written into the meta area once each, "frame.<number>=FILE
// :LINE FUNCTION < FILE:LINE FUNCTION …", innermost frame of the user's own code first.
#pragma once

namespace rollcall::shim {

// Looks for an interpreter and sets CallFlags::frame_reader. The meta key "python_frames" says
// which version is read, or why none is. [cold]
void start_python_frames() noexcept;

}  // namespace rollcall::shim
