// CUPTI as a source of activity records (activity.h), found and loaded at run time: nothing of
// it is linked. Built where its header is found; without it load_cupti() says so. Not for others
// than core/capture.
//
// CUPTI serves one client per process. Whoever subscribed first keeps it: we are refused where a
// profiler is active, and a profiler that comes later is refused because of us.
//
// CUPTI asks for a buffer on whichever thread launches, and hands it back, when everything in it is
// complete, on a thread of its own or on the one that asks. Buffers are memory of our own, mapped
// once; where none is free CUPTI drops records and counts them. Handing back is a mark on the
// buffer: it is read by the polling thread alone.
//
// CUPTI's clock is made CLOCK_MONOTONIC where it can be chosen; in any case it is read beside ours.
//
// Threads: load_cupti(), start_cupti(), stop_cupti() and forget_cupti() from one at a time, the
// last three not while collect() runs.
#pragma once

#include "core/base/text.h"
#include "core/gpu/activity.h"

namespace rollcall::gpu {

struct CuptiLibrary {
  void* handle = nullptr;
  void* (*find)(void* handle, const char* name) = nullptr;
};

// The library: the one that ROLLCALL_CUPTI names (`wanted`, null if unset) and no other; else the
// one that the process has loaded already; else one beside its CUDA runtime, of the system, or of
// a toolkit. `driver_version`: CUDA's code, 0 if not known; no CUPTI newer than it is taken. False,
// and why, when there is none. [cold]
bool load_cupti(const char* wanted, int driver_version, CuptiLibrary& library,
                TextWriter& why) noexcept;
// Subscribes and switches on what is needed; afterwards `source` may be used, in the whole process.
// Fills `source` in, but for its `note_name`, which is the caller's. False, and why, with
// everything switched off again, when CUPTI does not let us. [cold]
bool start_cupti(const CuptiLibrary& library, ActivitySource& source, TextWriter& why) noexcept;
// Everything is switched off and CUPTI is somebody else's, if it was ours. What `source` is asked
// afterwards does nothing. [cold]
void stop_cupti() noexcept;
// In a forked child: it is the parent's.
void forget_cupti() noexcept;

}  // namespace rollcall::gpu
