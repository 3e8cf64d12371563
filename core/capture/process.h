// What is said of the process, how it ends, and what happens where the recorder itself is wrong.
// For life and threads see recorder.h. All of it is [cold].
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall::capture {

// Adds "key=value" to the meta area. Later keys win. Truncated text is counted.
void add_meta(const char* key, const char* value) noexcept;
// As add_meta(), of this process's file alone: a forked child's begins without it. False where it
// is not there: the recorder has not started, or there is no room.
bool add_file_meta(const char* key, const char* value) noexcept;
// One more way by which calls reach us: "plt", "dlsym", "plugin", "static_nccl".
void add_coverage(const char* path) noexcept;
// One more of something that the recorder counts about itself.
void count_statistic(uint64_t SelfStatistics::*statistic) noexcept;
// The number of this process, without a system call; 0 while nothing is recorded.
uint32_t process_number() noexcept;
// Ticks and CLOCK_MONOTONIC, by the anchors so far; 0 where they do not tell yet.
uint64_t ticks_of_monotonic(uint64_t monotonic_ns) noexcept;
uint64_t monotonic_of_ticks(uint64_t ticks) noexcept;
// Counts a call NCCL made to itself.
void count_nested_call() noexcept;
// Where the functions of the CUDA driver are found, for GPU timing. `lookup` answers with the
// address of a function of the driver that the job has loaded, null if there is none; it must not
// load one.
void set_gpu_symbols(void* (*lookup)(const char* name)) noexcept;
// Who knows the frames of the job's own language, of all threads: asked by the flusher when stacks
// are wanted, on its own thread, whatever the others do or hold. It must not wait for any of them.
class StackFile;
using FrameSource = void (*)(StackFile& file);
void set_frame_source(FrameSource source) noexcept;
// Writes what only the flusher would write otherwise, and marks the file as exited. Called from the
// library's destructor; idempotent; capture goes on if NCCL is called afterwards.
void flush_at_exit() noexcept;
// The process ends at once, by a way that runs no destructor: marks the file as exited, no more.
// For `_exit`, hence for signal handlers, and for whoever holds whatever lock: takes none, waits
// for nobody, starts nothing. Harmless in children, those that share the parent's memory included.
void note_immediate_exit() noexcept;

// A broken invariant inside the injected library: latches capture off, counts, leaves a CaptureOff
// event. Never returns control to a half-done record. Used through ROLLCALL_CHECK.
void fail_check(const char* file, int line, const char* text) noexcept;

}  // namespace rollcall::capture
