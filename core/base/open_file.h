// Opening files in somebody else's process.
//
// The numbers 0 to 2 are the job's, also where it has closed them: what it prints would go into a
// file of ours that got one of them. So nothing is opened under these numbers, not even for a
// moment.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rollcall {

inline constexpr int kStandardDescriptors = 3;

// While an object lives, those of the numbers that are closed are taken, by descriptors through
// which nothing can be read or written: to a thread of the job that tries they look closed.
class StandardDescriptorsTaken {
 public:
  StandardDescriptorsTaken() noexcept {
    for (int number = 0; number < kStandardDescriptors; ++number) {
      if (fcntl(number, F_GETFD) >= 0) continue;
      const int taken = open("/", O_PATH | O_CLOEXEC);
      if (taken >= kStandardDescriptors) close(taken);  // somebody else was faster
      if (taken >= 0 && taken < kStandardDescriptors) is_taken_[taken] = true;
    }
  }
  ~StandardDescriptorsTaken() {
    const int saved_errno = errno;
    for (int number = 0; number < kStandardDescriptors; ++number) {
      if (is_taken_[number]) close(number);
    }
    errno = saved_errno;
  }
  StandardDescriptorsTaken(const StandardDescriptorsTaken&) = delete;
  StandardDescriptorsTaken& operator=(const StandardDescriptorsTaken&) = delete;

 private:
  bool is_taken_[kStandardDescriptors] = {};
};

// As open(), with O_CLOEXEC; -1 with EMFILE where there is no number but the job's.
inline int open_file(const char* path, int flags, mode_t mode = 0) noexcept {
  const StandardDescriptorsTaken taken;
  const int descriptor = open(path, flags | O_CLOEXEC, mode);
  if (descriptor < 0 || descriptor >= kStandardDescriptors) return descriptor;
  close(descriptor);
  errno = EMFILE;
  return -1;
}

}  // namespace rollcall
