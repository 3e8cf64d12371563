// The Python frames of all threads of the process, for `rollcall stacks`: what the flusher's thread
// reads while the others do whatever they do.
//
// No lock is taken and no function of Python's is called that takes one: a thread may hold the GIL
// for ever. Everything is read through the kernel, which answers with an error where a pointer
// leads nowhere, and every frame is judged by the type of its code object. A thread that runs is
// read twice, and marked where both differ. CPython 3.9 to 3.14, not the free-threaded builds.
//
// Into the file of stacks (core/capture/stack_file.h): "python" is the version, or why there are no
// frames; then for each thread of Python's "python_thread" (its number), "holds_gil", "moving" and
// "frame"s, innermost first, as FILE:LINE FUNCTION.
#pragma once

namespace rollcall::shim {

// Looks for an interpreter, and offers its frames to the recorder. [cold]
void start_python_stacks() noexcept;

}  // namespace rollcall::shim
