#include "tools/inherited.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace rollcall::tools {
namespace {

// SIGPIPE is main()'s, SIGCHLD Job's.
struct Disposition {
  int number;
  struct sigaction action;
};
Disposition inherited[] = {{SIGPIPE, {}}, {SIGCHLD, {}}};
sigset_t inherited_mask;

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
}

void restore_inherited_signals() {
  for (const Disposition& one : inherited) ::sigaction(one.number, &one.action, nullptr);
  ::sigprocmask(SIG_SETMASK, &inherited_mask, nullptr);
}

}  // namespace rollcall::tools
