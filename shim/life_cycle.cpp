// Calls that end or change a communicator, register memory, or ask how it is doing.
#include "core/capture/recorder.h"
#include "shim/event_call.h"
#include "shim/events.h"

namespace rollcall::shim {
namespace {

// NCCL makes some of these calls from threads of its own, where no outer call says so.
bool is_from_nccl(const Site& site) {
  if (!is_inside_copy(site.copy, site.caller)) return false;
  capture::count_nested_call();
  return true;
}

int64_t argument(uint64_t value) { return static_cast<int64_t>(value); }
int64_t argument(const void* pointer) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer));
}

capture::EventCall call_on(const Site& site, EventKind kind, nccl::Comm comm) {
  return {.kind = kind, .comm_index = index_for(site, kind, comm), .caller = site.caller};
}

// An event on an existing communicator that leaves it in `state` unless it fails.
template <typename RealCall>
nccl::Result record_end(const Site& site, EventKind kind, nccl::Comm comm, CommState state,
                        RealCall&& real) {
  const capture::EventCall call = call_on(site, kind, comm);
  // What NCCL has not launched by now it never will, and the job may destroy its streams.
  if (state == CommState::destroyed || state == CommState::aborted) {
    capture::calls_settled({}, call.comm_index, false);
  }
  // Destroying is not asked about afterwards: NCCL's last-error query takes no communicator from
  // here on, because the handle may be gone.
  const bool ends_now = comm_ending(comm, state);
  const nccl::Result result = record_event(site, call, nullptr, real);
  if (!is_failure(result)) {
    if (call.comm_index != kCommUnknown) capture::close_comm(call.comm_index, state);
  } else if (ends_now) {
    comm_goes_on(comm);
  }
  return result;
}

}  // namespace

namespace logic {

nccl::Result ncclCommFinalize(const Site& site, nccl::Result (*real)(nccl::Comm), nccl::Comm comm) {
  return record_end(site, EventKind::CommFinalize, comm, CommState::finalized,
                    [&] { return real(comm); });
}

nccl::Result ncclCommDestroy(const Site& site, nccl::Result (*real)(nccl::Comm), nccl::Comm comm) {
  if (is_from_nccl(site)) return real(comm);
  return record_end(site, EventKind::CommDestroy, comm, CommState::destroyed,
                    [&] { return real(comm); });
}

nccl::Result ncclCommAbort(const Site& site, nccl::Result (*real)(nccl::Comm), nccl::Comm comm) {
  return record_end(site, EventKind::CommAbort, comm, CommState::aborted,
                    [&] { return real(comm); });
}

nccl::Result ncclCommRevoke(const Site& site, nccl::Result (*real)(nccl::Comm, int),
                            nccl::Comm comm, int flags) {
  return record_end(site, EventKind::CommRevoke, comm, CommState::revoked,
                    [&] { return real(comm, flags); });
}

nccl::Result ncclCommSuspend(const Site& site, nccl::Result (*real)(nccl::Comm, int),
                             nccl::Comm comm, int flags) {
  capture::EventCall call = call_on(site, EventKind::CommSuspend, comm);
  call.arguments[0] = flags;
  return record_event(site, call, comm, [&] { return real(comm, flags); });
}

nccl::Result ncclCommResume(const Site& site, nccl::Result (*real)(nccl::Comm), nccl::Comm comm) {
  return record_event(site, call_on(site, EventKind::CommResume, comm), comm,
                      [&] { return real(comm); });
}

nccl::Result ncclCommRegister(const Site& site,
                              nccl::Result (*real)(const nccl::Comm, void*, size_t, void**),
                              const nccl::Comm comm, void* buffer, size_t size, void** handle) {
  if (is_from_nccl(site)) return real(comm, buffer, size, handle);
  capture::EventCall call = call_on(site, EventKind::CommRegister, comm);
  call.arguments[0] = argument(buffer);
  call.arguments[1] = argument(size);
  return record_event(site, call, comm, [&] { return real(comm, buffer, size, handle); });
}

nccl::Result ncclCommDeregister(const Site& site, nccl::Result (*real)(const nccl::Comm, void*),
                                const nccl::Comm comm, void* handle) {
  if (is_from_nccl(site)) return real(comm, handle);
  capture::EventCall call = call_on(site, EventKind::CommDeregister, comm);
  call.arguments[0] = argument(handle);
  return record_event(site, call, comm, [&] { return real(comm, handle); });
}

nccl::Result ncclCommWindowRegister(
    const Site& site, nccl::Result (*real)(nccl::Comm, void*, size_t, nccl::Window*, int),
    nccl::Comm comm, void* buffer, size_t size, nccl::Window* window, int flags) {
  if (is_from_nccl(site)) return real(comm, buffer, size, window, flags);
  capture::EventCall call = call_on(site, EventKind::CommWindowRegister, comm);
  call.arguments[0] = argument(buffer);
  call.arguments[1] = argument(size);
  call.arguments[2] = flags;
  return record_event(site, call, comm, [&] { return real(comm, buffer, size, window, flags); });
}

nccl::Result ncclCommWindowDeregister(const Site& site,
                                      nccl::Result (*real)(nccl::Comm, nccl::Window),
                                      nccl::Comm comm, nccl::Window window) {
  if (is_from_nccl(site)) return real(comm, window);
  capture::EventCall call = call_on(site, EventKind::CommWindowDeregister, comm);
  call.arguments[0] = argument(window);
  return record_event(site, call, comm, [&] { return real(comm, window); });
}

nccl::Result ncclRedOpCreatePreMulSum(const Site& site,
                                      nccl::Result (*real)(nccl::RedOp*, void*, nccl::DataType,
                                                           nccl::ScalarResidence, nccl::Comm),
                                      nccl::RedOp* op, void* scalar, nccl::DataType datatype,
                                      nccl::ScalarResidence residence, nccl::Comm comm) {
  capture::EventCall call = call_on(site, EventKind::RedOpCreatePreMulSum, comm);
  call.arguments[0] = datatype;
  call.arguments[1] = residence;
  return record_event(site, call, comm,
                      [&] { return real(op, scalar, datatype, residence, comm); });
}

nccl::Result ncclRedOpDestroy(const Site& site, nccl::Result (*real)(nccl::RedOp, nccl::Comm),
                              nccl::RedOp op, nccl::Comm comm) {
  capture::EventCall call = call_on(site, EventKind::RedOpDestroy, comm);
  call.arguments[0] = op;
  return record_event(site, call, comm, [&] { return real(op, comm); });
}

nccl::Result ncclMemAlloc(const Site& site, nccl::Result (*real)(void**, size_t), void** pointer,
                          size_t size) {
  if (is_from_nccl(site)) return real(pointer, size);
  const capture::EventCall call{
      .kind = EventKind::MemAlloc, .arguments = {argument(size)}, .caller = site.caller};
  return record_event(site, call, nullptr, [&] { return real(pointer, size); });
}

nccl::Result ncclMemFree(const Site& site, nccl::Result (*real)(void*), void* pointer) {
  if (is_from_nccl(site)) return real(pointer);
  const capture::EventCall call{
      .kind = EventKind::MemFree, .arguments = {argument(pointer)}, .caller = site.caller};
  return record_event(site, call, nullptr, [&] { return real(pointer); });
}

nccl::Result ncclSetEncryption(const Site& site,
                               nccl::Result (*real)(const nccl::EncryptionConfig*),
                               const nccl::EncryptionConfig* config) {
  // That it was called, and nothing of what is in it: the key is a secret.
  const capture::EventCall call{.kind = EventKind::SetEncryption, .caller = site.caller};
  return record_event(site, call, nullptr, [&] { return real(config); });
}

nccl::Result ncclDevCommCreate(const Site& site,
                               nccl::Result (*real)(nccl::Comm, const nccl::DevCommRequirements*,
                                                    nccl::DevComm*),
                               nccl::Comm comm, const nccl::DevCommRequirements* requirements,
                               nccl::DevComm* dev_comm) {
  if (is_from_nccl(site)) return real(comm, requirements, dev_comm);
  return record_event(site, call_on(site, EventKind::DevCommCreate, comm), comm,
                      [&] { return real(comm, requirements, dev_comm); });
}

nccl::Result ncclDevCommDestroy(const Site& site,
                                nccl::Result (*real)(nccl::Comm, const nccl::DevComm*),
                                nccl::Comm comm, const nccl::DevComm* dev_comm) {
  if (is_from_nccl(site)) return real(comm, dev_comm);
  return record_event(site, call_on(site, EventKind::DevCommDestroy, comm), comm,
                      [&] { return real(comm, dev_comm); });
}

// Polled by watchdogs, some thousand times a second: an answer that is the same as the last one
// costs a look-up.
nccl::Result ncclCommGetAsyncError(const Site& site,
                                   nccl::Result (*real)(nccl::Comm, nccl::Result*), nccl::Comm comm,
                                   nccl::Result* async_error) {
  const uint32_t index = index_of_comm(comm);
  const capture::AskedCalls asked = capture::before_asking(index);
  const nccl::Result result = real(comm, async_error);
  if (result != nccl::kSuccess || async_error == nullptr) {
    if (is_failure(result))
      note_failed_call(site, "ncclCommGetAsyncError", index_for(site, EventKind::AsyncError, comm),
                       nullptr, result);
    return result;
  }
  const nccl::Result state = *async_error;
  if (index == kCommUnknown) return result;
  if (state == nccl::kSuccess) {
    became_ready(site, index, comm);
    children_arrived(index);
  }
  if (state != nccl::kInProgress) capture::calls_settled(asked, index, state == nccl::kSuccess);
  int previous = nccl::kSuccess;
  const bool changed = capture::async_state_changed(index, state, &previous);
  // Success and InProgress alternate with every call on a non-blocking communicator: no news.
  if (!changed || (!is_failure(state) && !is_failure(previous))) return result;
  const capture::EventCall call{.kind = EventKind::AsyncError,
                                .comm_index = index,
                                .arguments = {previous, state},
                                .text = is_failure(state) ? last_error_text(site, comm) : nullptr,
                                .caller = site.caller};
  capture::note_event(call, result);
  return result;
}

}  // namespace logic
}  // namespace rollcall::shim
