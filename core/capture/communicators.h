// Communicators: entries of the file's table, and which handle is which. For life and threads see
// recorder.h. All of it is [cold] but find_comm().
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall::capture {

struct CommOpening {
  CommOrigin origin = CommOrigin::unknown;
  CommKey key{};
  CommKey parent_key{};
  uint32_t parent_index = kCommUnknown;
  uint32_t child_number = 0;
  int32_t nranks = -1;
  int32_t rank = -1;
  int32_t device = -1;
  int32_t colour = 0;
  int32_t split_key = 0;
  bool non_blocking = false;
  const char* name = nullptr;
};
// Before the creating call: an entry in state `initialising`. kCommUnknown when the table is full.
uint32_t open_comm(const CommOpening& opening) noexcept;
// The creating call came back with a handle, maybe still in progress (state stays initialising
// until comm_ready). Binds handle -> index; an older communicator with the same handle is
// forgotten.
void bind_comm(uint32_t index, const void* handle) noexcept;
// What was learned later. Negative values and 0 hashes leave the field as it is.
void comm_ready(uint32_t index, int nranks, int rank, int device, uint64_t nccl_hash) noexcept;
// Ends it: failed, none, finalized, revoked, destroyed or aborted. destroyed and aborted unbind the
// handle.
void close_comm(uint32_t index, CommState state) noexcept;
// kCommUnknown when the handle is not bound. Lock-free.
uint32_t find_comm(const void* handle) noexcept;
// What this process has said of it (all but the counters); null when the index is not an entry. It
// is not the file's entry, which somebody may have written over.
const CommEntry* comm_entry(uint32_t index) noexcept;
// The number this parent's next child gets, counting from 0, whatever created it.
uint32_t next_child_number(uint32_t parent_index) noexcept;
// Records a changed ncclCommGetAsyncError answer; true when it differs from the last one.
bool async_state_changed(uint32_t index, int state, int* previous) noexcept;

// True when the shim watches a communicator's creation at this moment.
bool creation_is_watched() noexcept;

}  // namespace rollcall::capture
