// The calling thread in a context of the driver, for as long as the object lives. Not for others
// than core/capture.
#pragma once

#include "core/gpu/driver.h"

namespace rollcall::gpu {

// The thread is in this context and in the relaxed capture mode, in which no capture of another
// thread forbids it anything; before and after it is as it was.
class InContext {
 public:
  InContext(const Driver& driver, ContextHandle context) noexcept : driver_(driver) {
    driver_.context_get_current(&before_);
    driver_.exchange_capture_mode(&mode_);
    is_current_ = driver_.context_set_current(context) == kSuccess;
  }
  ~InContext() {
    driver_.exchange_capture_mode(&mode_);
    driver_.context_set_current(before_);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  bool is_current() const noexcept { return is_current_; }

 private:
  const Driver& driver_;
  ContextHandle before_ = nullptr;
  int mode_ = kCaptureRelaxed;
  bool is_current_ = false;
};

}  // namespace rollcall::gpu
