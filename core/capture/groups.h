// Groups of the calling thread, and the operations of the one that it has just ended. Thread-local,
// cheap. For life and threads see recorder.h.
#pragma once

#include <cstdint>

#include "core/capture/operations.h"
#include "core/format/ring_layout.h"

namespace rollcall::capture {

// Depth of ncclGroupStart nesting of the calling thread. group_enter returns the number of the
// outermost group (a new one at depth 0 -> 1).
uint32_t group_enter() noexcept;
// The group number that ends, 0 when this was an inner end or there was no group. `operations` gets
// the number of operations recorded in it.
uint32_t group_leave(uint32_t* operations) noexcept;
// The group that group_leave() ended launches nothing, because it is simulated: its operations are
// marked, and their positions are those of the next calls again. Where another thread has called on
// one of the communicators meanwhile, they stay spent there. [cold]
void group_simulated(uint32_t group) noexcept;
uint32_t current_group() noexcept;
// A number no other group has, for groups that are told of as events.
uint32_t next_group_number() noexcept;

// The record of an operation of the group that the calling thread has just ended, by what its call
// said: for NCCL versions whose events do not come inside the call. The oldest that fits and was
// not found before; empty when none does.
struct OpSignature {
  OpKind kind = OpKind::AllReduce;
  uint64_t count = 0;  // compared in bytes, where the record's datatype is known
  // 0 where nobody tells it: that is a datatype of one byte, as NCCL has no name for ncclUint8.
  uint32_t element_bytes = 0;
  const void* send = nullptr;
  const void* recv = nullptr;
  uint32_t comm_index = kCommUnknown;  // kCommUnknown: any
  int32_t peer = -1;                   // -1: any
};
OpToken find_in_ended_group(const OpSignature& signature) noexcept;
// From now on, in the whole process, operations inside a group are held until the group's end has
// returned, so that find_in_ended_group can serve.
void hold_groups() noexcept;

}  // namespace rollcall::capture
