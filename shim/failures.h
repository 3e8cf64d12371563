// What is recorded when a call fails or is made on a communicator that has ended. [cold]
#pragma once

#include "core/capture/operations.h"
#include "shim/real_functions.h"

namespace rollcall::shim {

// ncclInProgress is how a non-blocking communicator says "accepted".
constexpr bool is_failure(nccl::Result result) {
  return result != nccl::kSuccess && result != nccl::kInProgress;
}

// NCCL's own words for the last failure; empty before 2.13. The text is NCCL's buffer.
const char* last_error_text(const Site& site, nccl::Comm comm) noexcept;

// A CallFailed event with the operation's kind and ticket.
void note_failed_operation(const Site& site, const capture::OpCall& call, capture::OpToken token,
                           nccl::Result result) noexcept;
// The same for a call that is an event. `name` leads the text.
void note_failed_call(const Site& site, const char* name, uint32_t comm_index, nccl::Comm comm,
                      nccl::Result result) noexcept;

void note_use_after_end(const Site& site, const capture::OpCall& call) noexcept;
void note_use_after_end(const Site& site, const char* name, nccl::Comm comm) noexcept;

}  // namespace rollcall::shim
