// Files of /proc and /sys that fit a buffer.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/open_file.h"

namespace rollcall {

// The bytes read; 0 on any failure.
inline size_t read_small_file(const char* path, std::span<char> to) noexcept {
  const int descriptor = open_file(path, O_RDONLY);
  if (descriptor < 0) return 0;
  ssize_t bytes = 0;
  do {
    bytes = read(descriptor, to.data(), to.size());
  } while (bytes < 0 && errno == EINTR);
  close(descriptor);
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

}  // namespace rollcall
