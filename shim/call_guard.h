// One call of an exported function: which copy of NCCL it goes to, and whether NCCL is calling
// itself.
//
// NCCL calls some of its own public functions through the PLT and so arrives here again
// (ncclBcast -> ncclBroadcast, ncclCommInitAll -> ncclGetUniqueId, ...). Those calls belong to the
// outer one: they go straight through and are only counted. The outer call leaves the address of
// its stack frame; a call whose frame is not below it proves that the outer one was left without
// returning (longjmp, an exception, pthread_cancel) and is an outer call itself.
#pragma once

#include "shim/real_functions.h"

namespace rollcall::shim {

struct ThreadCalls {
  const void* outer_frame;  // null: the thread is not inside NCCL
  unsigned copy;            // of the outer call
};
// initial-exec: one instruction to reach, no call into the loader that could allocate.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constinit says that it is not
extern thread_local constinit ThreadCalls t_calls __attribute__((tls_model("initial-exec")));

class CallGuard {
 public:
  [[gnu::always_inline]] CallGuard(unsigned copy, Function function, const void* caller,
                                   const void* frame) noexcept
      : site_{caller, copy},
        nested_(t_calls.outer_frame != nullptr && frame < t_calls.outer_frame) {
    if (__builtin_expect(nested_, 0)) {
      enter_nested(function);
      return;
    }
    real_ = resolved(copy, function);
    if (__builtin_expect(real_ == nullptr, 0)) real_ = resolve(copy, function, true);
    t_calls = {frame, copy};
  }
  ~CallGuard() {
    if (!nested_) t_calls.outer_frame = nullptr;
  }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  void* real() const { return real_; }
  const Site& site() const { return site_; }
  bool passes_through() const { return nested_ || disabled(); }

 private:
  void enter_nested(Function function) noexcept;

  Site site_;
  void* real_ = nullptr;
  bool nested_;
};

// What a call gets when there is no NCCL behind this library: the result of a library that cannot
// be used, and one line on stderr.
nccl::Result report_missing(Function function) noexcept;

}  // namespace rollcall::shim
