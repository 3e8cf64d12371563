// The positions of the calls that a log of NCCL holds of one process, once all of it was read: by
// what the lines say of them (opCount), or by counting.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/model.h"
#include "trace/packed_calls.h"

namespace rollcall::trace {

inline constexpr uint64_t kNoHole = UINT64_MAX;

// Calls as a log has them. Their position is opCount, their track the communicator, and marked is
// one whose line says the same as the line of the communicator's call in front of it.
struct LoggedCalls {
  PackedCalls packed;
  uint64_t hole = kNoHole;  // so many calls were read before one of the process was first lost
};

// Moves the calls to `process.packed`, with their positions, without those that have none; sets
// what the model says of its communicators and of what is known.
void number_calls(LoggedCalls&& calls, Process& process);

}  // namespace rollcall::trace
