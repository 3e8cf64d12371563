#include "trace/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace rollcall::trace {
namespace {

// In case the name stands for something else by now: nothing waits, nothing becomes our terminal.
constexpr int kCautiously = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// 0, or the errno negated that says why `status` is not wanted.
int objection_to(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return 0;
  if (S_ISLNK(status.st_mode)) return -ELOOP;
  return S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;
}

// Where there is no /proc: what is opened must be what was looked at.
int open_by_name(int directory, const std::string& path, int flags, const struct stat& seen) {
  const int file = ::openat(directory, path.c_str(), flags);
  if (file < 0) return -errno;
  struct stat status {};
  const bool is_it = ::fstat(file, &status) == 0 && status.st_dev == seen.st_dev &&
                     status.st_ino == seen.st_ino && S_ISREG(status.st_mode);
  if (is_it) return file;
  ::close(file);
  return -EINVAL;
}

}  // namespace

int open_regular(int directory, const std::string& path, int access, Links links) {
  const int no_link = links == Links::refused ? O_NOFOLLOW : 0;
  const int place = ::openat(directory, path.c_str(), O_PATH | O_CLOEXEC | no_link);
  if (place < 0) return -errno;
  struct stat status {};
  int result = ::fstat(place, &status) != 0 ? -errno : objection_to(status);
  if (result == 0) {
    result = ::open(fmt::format("/proc/self/fd/{}", place).c_str(), access | kCautiously);
    if (result < 0) result = -errno;
    if (result == -ENOENT) {
      result = open_by_name(directory, path, access | kCautiously | no_link, status);
    }
  }
  ::close(place);
  return result;
}

int open_regular(const std::string& path) { return open_regular(AT_FDCWD, path, O_RDONLY); }

}  // namespace rollcall::trace
