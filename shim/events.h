// What is recorded of the calls that create, end or change something, and of groups. One function
// per public function, named like it; the real function comes as an argument. [cold, but for the
// group calls and an ncclCommGetAsyncError whose answer is the same as before]
#pragma once

#include "shim/real_functions.h"

namespace rollcall::shim::logic {

#define ROLLCALL_AND(...) __VA_OPT__(, ) __VA_ARGS__
#define ROLLCALL_DECLARE_event(name, parameters) \
  nccl::Result name(const Site& site, nccl::Result(*real) parameters ROLLCALL_AND parameters);
#define ROLLCALL_DECLARE_group(name, parameters) ROLLCALL_DECLARE_event(name, parameters)
#define ROLLCALL_DECLARE_operation(name, parameters)  // operations.h
#define ROLLCALL_X(class, name, parameters, arguments) ROLLCALL_DECLARE_##class(name, parameters)
ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)
#undef ROLLCALL_X
#undef ROLLCALL_DECLARE_event
#undef ROLLCALL_DECLARE_group
#undef ROLLCALL_DECLARE_operation

}  // namespace rollcall::shim::logic
