// The flusher: a thread that moves records from the ring into history while the job runs.
//
// It is the only part that writes files after the start, and it acts at its own pace: it wakes
// every kFlushPeriodMs, takes what the policy says, and goes back to sleep. It blocks all signals,
// so none of the job's handlers ever runs on it. Where it cannot be created the ring still records.
#pragma once

#include <cstdint>

namespace rollcall::capture {

// ColdLock held. False: no thread; history is then written at an orderly exit only.
bool start_flusher() noexcept;
// Has everything written that is settled by now. The flusher does it, and is waited for two seconds
// at most: a disk that hangs must not keep the job from exiting. Without a thread the caller does
// it himself, for as long as the disk takes.
void flush_now() noexcept;
// In a forked child: there is no thread, and nothing to continue.
void forget_flusher() noexcept;

}  // namespace rollcall::capture
