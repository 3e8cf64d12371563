// The exported functions: a guard, then the logic. Nothing else may be put here.
//
// Each function of the table gets one entry point per copy of NCCL (real_functions.h); copy 0's is
// exported under NCCL's own name, the others are what `dlsym` hands out.
#include <atomic>

#include "core/base/text.h"
#include "core/capture/process.h"
#include "core/capture/warning.h"
#include "shim/call_guard.h"
#include "shim/events.h"
#include "shim/operations.h"
#include "shim/real_functions.h"

namespace rollcall::shim {

thread_local constinit ThreadCalls t_calls = {nullptr, kCopyLinked};

void CallGuard::enter_nested(Function function) noexcept {
  // NCCL's call to itself arrives at the exported name whatever copy it comes from.
  if (site_.copy == kCopyLinked) site_.copy = t_calls.copy;
  real_ = found_before(site_.copy, function);
  if (real_ == nullptr) real_ = resolve(site_.copy, function, false);
  if (!disabled()) capture::count_nested_call();
}

nccl::Result report_missing(Function function) noexcept {
  static std::atomic<bool> said{false};
  if (!said.exchange(true, std::memory_order_relaxed)) {
    TextBuffer<256> sentence;
    sentence.text(name_of(function))
        .text(
            " was called, but no loaded NCCL has it; the call returns ncclSystemError. Is "
            "libnccl.so.2 installed?");
    capture::write_warning(1, sentence.view());
  }
  return nccl::kSystemError;
}

#define ROLLCALL_AND_ARGUMENTS(...) __VA_OPT__(, ) __VA_ARGS__
// A list of parameters in parentheses of its own is no expression.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ROLLCALL_BODY(copy, name, parameters, arguments)                                          \
  CallGuard guard(copy, Function::name, __builtin_return_address(0), __builtin_frame_address(0)); \
  const auto real = reinterpret_cast<nccl::Result(*) parameters>(guard.real());                   \
  if (__builtin_expect(real == nullptr, 0)) return report_missing(Function::name);                \
  if (__builtin_expect(guard.passes_through(), 0)) return real arguments;                         \
  return logic::name(guard.site(), real ROLLCALL_AND_ARGUMENTS arguments);
// NOLINTEND(bugprone-macro-parentheses)

#define ROLLCALL_X(class, name, parameters, arguments) \
  template <unsigned kCopy>                            \
  static nccl::Result entry_##name parameters {        \
    ROLLCALL_BODY(kCopy, name, parameters, arguments)  \
  }
ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)
#undef ROLLCALL_X

}  // namespace rollcall::shim

extern "C" {
using namespace rollcall;
using namespace rollcall::shim;
#define ROLLCALL_X(class, name, parameters, arguments)                  \
  __attribute__((visibility("default"))) nccl::Result name parameters { \
    ROLLCALL_BODY(kCopyLinked, name, parameters, arguments)             \
  }
ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)
#undef ROLLCALL_X
}

namespace rollcall::shim {

void* entry_point(unsigned copy, Function function) noexcept {
  static void* const entries[][kFunctions] = {
#define ROLLCALL_X(class, name, parameters, arguments) reinterpret_cast<void*>(&::name),
      {ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)},
#undef ROLLCALL_X
#define ROLLCALL_X(class, name, parameters, arguments) reinterpret_cast<void*>(&entry_##name<1>),
      {ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)},
#undef ROLLCALL_X
#define ROLLCALL_X(class, name, parameters, arguments) reinterpret_cast<void*>(&entry_##name<2>),
      {ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)},
#undef ROLLCALL_X
#define ROLLCALL_X(class, name, parameters, arguments) reinterpret_cast<void*>(&entry_##name<3>),
      {ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)},
#undef ROLLCALL_X
  };
  static_assert(sizeof(entries) / sizeof(entries[0]) == kCopiesMax);
  return entries[copy][static_cast<unsigned>(function)];
}

}  // namespace rollcall::shim
