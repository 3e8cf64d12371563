// `_exit` and `_Exit`: the ends of a process that run no destructor, hence would leave no exit
// record, as if the process had been killed. Python's os._exit and the workers of many launchers
// end so.
//
// Both may be called from a signal handler, with any lock held, by a forked child and by one that
// shares its parent's memory. So nothing is looked up, waited for or flushed here: the recorder
// marks its file, and the process ends as it would.
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/capture/process.h"
#include "shim/loader.h"

namespace rollcall::shim {
namespace {

using ExitFunction = void (*)(int status);
constinit ExitFunction real_exit = nullptr;          // _exit
constinit ExitFunction real_capital_exit = nullptr;  // _Exit

// Behind this library there may be others that have something to do at this end. Looked up while
// the library is loaded, because a signal handler must not.
__attribute__((constructor)) void find_real_exits() {
  const DlsymFunction find = real_dlsym();
  if (find == nullptr) return;
  real_exit = reinterpret_cast<ExitFunction>(find(RTLD_NEXT, "_exit"));
  real_capital_exit = reinterpret_cast<ExitFunction>(find(RTLD_NEXT, "_Exit"));
}

[[noreturn]] void end_process(ExitFunction real, int status) {
  capture::note_immediate_exit();
  if (real != nullptr) real(status);
  // Another library's constructor ends the process before ours has run.
  for (;;) syscall(SYS_exit_group, status);
}

}  // namespace
}  // namespace rollcall::shim

extern "C" {
using namespace rollcall::shim;
__attribute__((visibility("default"))) void _exit(int status) { end_process(real_exit, status); }
__attribute__((visibility("default"))) void _Exit(int status) noexcept {
  end_process(real_capital_exit, status);
}
}
