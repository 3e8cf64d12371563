// The flusher: a thread that moves records from the ring into history while the job runs.
//
// It is the only part that touches the run directory, and it acts at its own pace: it wakes
// every kFlushPeriodMs, takes what the policy says, and goes back to sleep. It blocks all signals,
// so none of the job's handlers ever runs on it. Its first work is to open the ring
// (core/capture/ring_opening.h); where that came to lie elsewhere, it keeps a copy in the run
// directory (core/ring/mirror.h). Where the thread cannot be created the ring still records.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ring/ring_file.h"

namespace rollcall::capture {

// ColdLock held. Opens the ring: its thread in the run directory, or where that does not answer in
// time or is not local, the caller in the local place. `stem` is the ring's, or empty where the
// copy of it will have one later. False: `error` says why not, and where.
struct OpenedRing {
  ring::RingFile file;
  std::string_view stem;
  ring::RingError error;
  const char* place = nullptr;  // of the error
};
bool open_ring(const ring::Incarnation& incarnation, const RingGeometry& geometry,
               OpenedRing& opened) noexcept;
// The recorder is ready: the thread goes on with its work. Where there is no thread, or nothing for
// it to do, live.has_flusher becomes false; what there is to write is then written at an orderly
// exit only.
void start_flusher() noexcept;
// The recorder will not be.
void cancel_flusher() noexcept;
// Has everything written that is settled by now. The flusher does it, and is waited for two seconds
// at most: a disk that hangs must not keep the job from exiting. Without a thread the caller does
// it himself, for as long as the disk takes.
void flush_now() noexcept;
// In a forked child: there is no thread, and nothing to continue.
void forget_flusher() noexcept;

}  // namespace rollcall::capture
