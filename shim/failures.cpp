#include "shim/failures.h"

#include <cstdio>

#include "core/base/keep_errno.h"
#include "core/capture/communicators.h"
#include "core/capture/events.h"
#include "shim/ended_handles.h"

namespace rollcall::shim {

constinit EndedHandles g_ended_handles;
constinit CallFlags g_call_flags{};

namespace {

nccl::Comm comm_of(const capture::OpCall& call) {
  return static_cast<nccl::Comm>(const_cast<void*>(call.comm_handle));
}

void note_failure(const Site& site, int64_t kind, uint64_t ticket, uint32_t comm_index,
                  const char* name, const char* error, nccl::Result result) {
  char text[kEventTextBytes];
  snprintf(text, sizeof(text), "%s%s%s", name, *error != 0 ? ": " : "", error);
  capture::EventCall event{.kind = EventKind::CallFailed,
                           .comm_index = comm_index,
                           .arguments = {kind, static_cast<int64_t>(ticket)},
                           .text = text,
                           .caller = site.caller};
  capture::note_event(event, result);
}

}  // namespace

const char* last_error_text(const Site& site, nccl::Comm comm) noexcept {
  const KeepErrno keep;
  const nccl::GetLastError query = queries_of(site.copy).last_error;
  const char* text = query != nullptr ? query(comm) : nullptr;
  return text != nullptr ? text : "";
}

void note_failed_operation(const Site& site, const capture::OpCall& call, capture::OpToken token,
                           nccl::Result result) noexcept {
  char name[32] = "nccl";
  snprintf(name, sizeof(name), "nccl%s", name_of(call.kind).data());
  note_failure(site, static_cast<int64_t>(call.kind), token.ticket,
               capture::find_comm(call.comm_handle), name, last_error_text(site, comm_of(call)),
               result);
}

void note_failed_call(const Site& site, const char* name, uint32_t comm_index, nccl::Comm comm,
                      nccl::Result result) noexcept {
  note_failure(site, -1, 0, comm_index, name, last_error_text(site, comm), result);
}

void note_use_after_end(const Site& site, const capture::OpCall& call) noexcept {
  char name[32];
  snprintf(name, sizeof(name), "nccl%s", name_of(call.kind).data());
  note_use_after_end(site, name, comm_of(call));
}

void note_use_after_end(const Site& site, const char* name, nccl::Comm comm) noexcept {
  capture::EventCall event{.kind = EventKind::UseAfterDestroy,
                           .arguments = {static_cast<int64_t>(reinterpret_cast<uintptr_t>(comm))},
                           .text = name,
                           .caller = site.caller};
  capture::note_event(event, nccl::kSuccess);
}

}  // namespace rollcall::shim
