// The library as such: what happens when it is loaded, and at an orderly exit.
//
// Loading does nothing at all: the recorder starts with the first NCCL call, and whatever is
// needed before that (the real dlsym, ROLLCALL_ENABLE) is found on first use, because other
// libraries' constructors may come first.
#include "core/capture/recorder.h"
#include "shim/real_functions.h"
#include "shim/static_nccl.h"

namespace rollcall::shim {
namespace {

__attribute__((destructor)) void at_exit() {
  if (disabled()) return;
  if (!process_has_called() && !has_reported_static_nccl())
    return;  // nothing was recorded; start nothing now
  capture::note_event({.kind = EventKind::ProcessExit}, 0);
  capture::flush_at_exit();
}

}  // namespace
}  // namespace rollcall::shim
