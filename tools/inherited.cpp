#include "tools/inherited.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace rollcall::tools {

void fill_closed_descriptors() {
  for (int wanted = 0; wanted <= STDERR_FILENO; ++wanted) {
    if (::fcntl(wanted, F_GETFD) != -1 || errno != EBADF) continue;
    const int got = ::open("/dev/null", wanted == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    // The lowest free number is `wanted`, for those below are open. Without /dev/null there is
    // nothing to be done.
    if (got != wanted && got >= 0) ::close(got);
  }
}

}  // namespace rollcall::tools
