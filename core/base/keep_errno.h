// The calling thread's errno is what it was, when the object goes. For every way out of the path of
// an operation that may call the kernel, the loader or a library: what the job finds in errno
// behind a call that succeeded is none of ours.
#pragma once

#include <errno.h>

namespace rollcall {

class KeepErrno {
 public:
  KeepErrno() noexcept : value_(errno) {}
  ~KeepErrno() { errno = value_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int value_;
};

}  // namespace rollcall
