// What every call looks at before anything else, in one line of memory: between two calls a job has
// used its caches for itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace rollcall::shim {

// The number of the call site of the calling thread in the job's own language, from 1; 0 none. The
// recorder's meta holds "frame.<number>" for it.
using FrameReader = uint32_t (*)() noexcept;

struct alignas(64) CallFlags {
  std::atomic<int> disabled{-1};               // ROLLCALL_ENABLE=0; -1: not read yet
  std::atomic<bool> has_ended_handles{false};  // ended_handles.h
  // Set once, when the first call was resolved, by whoever can read that language's frames
  // (python_frames.cpp); null where nobody can, or where nobody asked.
  std::atomic<FrameReader> frame_reader{nullptr};
};
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constinit says that it is not
extern constinit CallFlags g_call_flags __attribute__((visibility("hidden")));

}  // namespace rollcall::shim
