// The library as such: what happens when it is loaded, and at an exit that runs destructors. Of the
// others: immediate_exit.cpp.
//
// Loading records nothing: the recorder starts with the first NCCL call, and whatever is
// needed before that (the real dlsym, ROLLCALL_ENABLE) is found on first use, because other
// libraries' constructors may come first.
#include "core/capture/process.h"
#include "shim/real_functions.h"
#include "shim/static_nccl.h"

namespace rollcall::shim {
namespace {

__attribute__((destructor)) void at_exit() {
  if (disabled()) return;
  const bool was_called = process_has_called() || has_reported_static_nccl();
  // Also without a call: NCCL may have used this library as its profiler plugin.
  if (!was_called && capture::process_number() == 0) return;  // nothing was recorded; start nothing
  capture::flush_at_exit();
}

}  // namespace
}  // namespace rollcall::shim
