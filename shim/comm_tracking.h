// Follows communicators from the call that creates them to the call that ends them.
//
// When a creating call returns, its communicator may be ready (blocking), in progress
// (non-blocking), or not even there yet: inside a group NCCL may store the handle only in
// ncclGroupEnd. The latter are kept as pending, with the place the caller wants the handle in, and
// are looked at again when the group ends or the handle turns up. [cold]
#pragma once

#include "core/capture/recorder.h"
#include "shim/real_functions.h"

namespace rollcall::shim {

// The creating call came back. `where` is the caller's ncclComm_t, valid for as long as NCCL may
// write it.
void creation_returned(const Site& site, uint32_t index, nccl::Comm* where,
                       nccl::Result result) noexcept;

// The calling thread's outermost group has ended.
void group_returned(const Site& site, nccl::Result result) noexcept;

// NCCL is through with everything on this communicator: what was made of it has its handle, or was
// not made.
void children_arrived(uint32_t parent) noexcept;

// The index of a handle, or kCommUnknown; looks among the pending ones too.
uint32_t index_of_comm(nccl::Comm comm) noexcept;

// ncclCommGetAsyncError said that a communicator is ready; asks NCCL for size, rank and device
// once.
void became_ready(const Site& site, uint32_t index, nccl::Comm comm) noexcept;

// In the child: another thread may have held the lock.
void forget_pending_after_fork() noexcept;

// A call is about to leave this communicator in `state`. True where its handle is one that has
// ended from now on: as soon as NCCL has freed it another thread may get it anew.
bool comm_ending(nccl::Comm comm, CommState state) noexcept;
// NCCL refused that.
void comm_goes_on(nccl::Comm comm) noexcept;

}  // namespace rollcall::shim
