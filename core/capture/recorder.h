// The recorder: what the shim and the profiler plugin call. One per process.
//
// Life: nothing happens at load time. The first NCCL call that wants a record starts the recorder:
// directory, ring file, flusher thread. Where that fails, one line goes to stderr, capture is off
// for good, and every function below is a cheap no-op. A forked child starts over with a file of
// its own at its first NCCL call; a child that never calls NCCL leaves nothing.
//
// Threads: every function may be called from any thread at any time, also concurrently with each
// other, from a forked child, and after static destructors have run. None throws, blocks on another
// rank, writes to stdout, or takes a lock on the path of an operation, but for what comes once: a
// thread's first call, the first with a communicator that was not announced, the first transfer on
// one; and for calls on communicators beyond the room of the table. Functions marked [cold] may
// lock, allocate or call the kernel; they belong to life-cycle calls.
//
// The parts by topic:
#pragma once

#include "core/capture/channels.h"
#include "core/capture/communicators.h"
#include "core/capture/contexts.h"
#include "core/capture/events.h"
#include "core/capture/graphs.h"
#include "core/capture/groups.h"
#include "core/capture/operations.h"
#include "core/capture/process.h"
