// Marks in a CUDA graph that is being captured: nodes that write one word each. They stand beside
// the operations of a stream, not between them:
//
//   the stream   ... ──> earlier ──> operation ──> later ──> ...
//                           │            │
//   its marks         0 ──> └─> started ─┴─> finished ──> ...
//
// A mark waits for what its stream has captured so far and for the mark before it, so the word only
// grows within a replay. Nothing of the job's waits for a mark; the replay itself does, at its end.
// The first one is a node without dependencies that sets the word back to 0 when a replay begins.
//
// A mark is a memset of 4 bytes: a node that the CUDA runtime can name, and that is seen by the
// host while what comes behind it runs. On an H200 with driver 580 two marks beside each operation
// add 0.15 us of it to a replay. Two writes by cuStreamWriteValue64 in between, in the stream's own
// order, add 4.4 us (scripts/gpu_facts.py).
//
// Threads: a stream's marks are put by one thread at a time, as its captured operations are. For as
// long as one is put, the stream seems to wait for other nodes, or for none, to whoever asks.
#pragma once

#include <cstdint>

#include "core/gpu/driver.h"

namespace rollcall::gpu {

// No CUresult: the stream does not capture what it did, waits for more nodes than are looked at, or
// for more than a node can say.
inline constexpr int kMarkRefused = -1;
inline constexpr uint64_t kMarkDependenciesMax = 128;

// The word at `address` (the driver's) becomes `value` when a replay comes here. `capture` is the
// identity of the stream's capture, 0: whichever it is; `newest` the stream's newest mark in it,
// null in front of the first. Returns the CUresult of the first call that was refused; the stream
// goes on as if nothing had been asked, unless its capture is broken anyway.
int put_mark(const Driver& driver, Stream stream, uint64_t capture, uint64_t address,
             uint32_t value, Node& newest) noexcept;

}  // namespace rollcall::gpu
