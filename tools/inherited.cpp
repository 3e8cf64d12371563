#include "tools/inherited.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace rollcall::tools {
namespace {

// SIGPIPE is main()'s, SIGCHLD Job's.
struct Disposition {
  int number;
  struct sigaction action;
};
Disposition inherited[] = {{SIGPIPE, {}}, {SIGCHLD, {}}};
sigset_t inherited_mask;

// Two signals are the C library's own, and its sigaction() denies them. It sets a handler for the
// second when the first thread is made, and a handler becomes SIG_DFL with exec: where the parent
// ignored them, the job would be told of signals that it would not have seen.
constexpr int kLibrarySignals[] = {32, 33};
bool ignores_library_signal[2];

// As the kernel has it on every architecture that we build for.
struct KernelAction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  uint64_t mask;
};

bool ignores(int number) {
  KernelAction action{};
  return ::syscall(SYS_rt_sigaction, number, nullptr, &action, sizeof action.mask) == 0 &&
         action.handler == SIG_IGN;
}

}  // namespace

void fill_closed_descriptors() {
  for (int wanted = 0; wanted <= STDERR_FILENO; ++wanted) {
    if (::fcntl(wanted, F_GETFD) != -1 || errno != EBADF) continue;
    const int got = ::open("/dev/null", wanted == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    // The lowest free number is `wanted`, for those below are open. Without /dev/null there is
    // nothing to be done.
    if (got != wanted && got >= 0) ::close(got);
  }
}

void note_inherited_signals() {
  for (Disposition& one : inherited) ::sigaction(one.number, nullptr, &one.action);
  ::sigprocmask(SIG_SETMASK, nullptr, &inherited_mask);
  for (int i = 0; i < 2; ++i) ignores_library_signal[i] = ignores(kLibrarySignals[i]);
}

void restore_inherited_signals() {
  for (const Disposition& one : inherited) ::sigaction(one.number, &one.action, nullptr);
  const KernelAction ignored{SIG_IGN, 0, nullptr, 0};
  for (int i = 0; i < 2; ++i) {
    if (!ignores_library_signal[i]) continue;
    ::syscall(SYS_rt_sigaction, kLibrarySignals[i], &ignored, nullptr, sizeof ignored.mask);
  }
  ::sigprocmask(SIG_SETMASK, &inherited_mask, nullptr);
}

}  // namespace rollcall::tools
