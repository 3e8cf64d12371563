// Which code of the job's own language issued a call. Set once, when the first call was resolved,
// by whoever can read that language's frames (python_frames.cpp); null where nobody can, or where
// nobody asked, and then a call costs one load more.
#pragma once

#include <atomic>
#include <cstdint>

namespace rollcall::shim {

// The number of the call site of the calling thread, from 1; 0 none. The recorder's meta holds
// "frame.<number>" for it.
using FrameReader = uint32_t (*)() noexcept;
inline constinit std::atomic<FrameReader> g_frame_reader{nullptr};

}  // namespace rollcall::shim
