// open() for a process near its limit of descriptors: its threads hold most of theirs for a moment
// only, and a rank that gave up in that moment would leave the others waiting for it.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace emu_nccl {

inline int open_patiently(const char* path, int flags) {
  constexpr int kAttempts = 1000;
  constexpr unsigned kPauseUs = 1000;
  for (int attempt = 1;; ++attempt) {
    const int descriptor = open(path, flags | O_CLOEXEC);
    if (descriptor >= 0 || (errno != EMFILE && errno != ENFILE) || attempt == kAttempts) {
      return descriptor;
    }
    usleep(kPauseUs);
  }
}

}  // namespace emu_nccl
