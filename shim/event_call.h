// How a call that is an event is recorded: published before the real call, completed after it.
// [cold]
#pragma once

#include "core/capture/events.h"
#include "shim/comm_tracking.h"
#include "shim/ended_handles.h"
#include "shim/failures.h"

namespace rollcall::shim {

inline const char* api_name(EventKind kind) {
  return kEventNames[static_cast<size_t>(kind)].data();
}

template <typename RealCall>
nccl::Result record_event(const Site& site, const capture::EventCall& call, nccl::Comm comm,
                          RealCall&& real) {
  const capture::EventToken token = capture::begin_event(call);
  const nccl::Result result = real();
  if (is_failure(result)) {
    capture::end_event(token, result, last_error_text(site, comm));
    note_failed_call(site, api_name(call.kind), call.comm_index, comm, result);
  } else {
    capture::end_event(token, result);
  }
  return result;
}

// The index for a call on an existing communicator; one that has ended is reported on the way.
inline uint32_t index_for(const Site& site, EventKind kind, nccl::Comm comm) {
  if (g_ended_handles.has(comm)) note_use_after_end(site, api_name(kind), comm);
  return index_of_comm(comm);
}

}  // namespace rollcall::shim
