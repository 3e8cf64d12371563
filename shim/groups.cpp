// Group calls. The nesting is the recorder's, per thread; GroupEnd is recorded as an operation
// because that is where a group reaches the streams, and where it can hang.
#include "core/capture/groups.h"

#include "core/capture/events.h"
#include "core/capture/operations.h"
#include "shim/comm_tracking.h"
#include "shim/events.h"
#include "shim/failures.h"

namespace rollcall::shim::logic {

nccl::Result ncclGroupStart(const Site& site, nccl::Result (*real)()) {
  capture::group_enter();
  const nccl::Result result = real();
  if (is_failure(result)) {
    uint32_t operations = 0;
    capture::group_leave(&operations);  // NCCL did not open it
    note_failed_call(site, "ncclGroupStart", kCommUnknown, nullptr, result);
  }
  return result;
}

nccl::Result ncclGroupEnd(const Site& site, nccl::Result (*real)()) {
  uint32_t operations = 0;
  const uint32_t group = capture::group_leave(&operations);
  if (group == 0) return real();  // an inner end launches nothing
  const capture::OpCall call{
      .kind = OpKind::GroupEnd,
      .stream = reinterpret_cast<const void*>(static_cast<uintptr_t>(operations)),
      .caller = site.caller,
      .group = group};
  const capture::OpToken token = capture::begin_op(call);
  const nccl::Result result = real();
  capture::end_op(token, result);
  group_returned(site, result);
  if (is_failure(result)) note_failed_operation(site, call, token, result);
  return result;
}

// Ends the group and launches none of it: the operations recorded in it never ran.
nccl::Result ncclGroupSimulateEnd(const Site& site, nccl::Result (*real)(nccl::SimInfo*),
                                  nccl::SimInfo* sim_info) {
  uint32_t operations = 0;
  const uint32_t group = capture::group_leave(&operations);
  if (group != 0) capture::group_simulated(group);
  const capture::EventCall call{.kind = EventKind::GroupSimulateEnd,
                                .arguments = {static_cast<int64_t>(group), operations},
                                .caller = site.caller};
  const capture::EventToken token = capture::begin_event(call);
  const nccl::Result result = real(sim_info);
  capture::end_event(token, result, is_failure(result) ? last_error_text(site, nullptr) : nullptr);
  if (group != 0) group_returned(site, result);
  return result;
}

}  // namespace rollcall::shim::logic
