// Assertions that stay on. Two policies, chosen by what is linked:
//   * injected libraries (ROLLCALL_INJECTED defined): capture goes off, is counted, the job goes
//   on;
//     the macro's value is false and the caller leaves by its no-op path.
//   * tools and tests: the message goes to stderr and the process aborts.
//
//     if (!ROLLCALL_CHECK(slot < slots)) return {};
//
// static_assert is preferred where the compiler can know. `maybe(x)` documents "either is fine".
#pragma once

#if defined(ROLLCALL_INJECTED)
namespace rollcall::capture {
void fail_check(const char* file, int line, const char* text) noexcept;
}
#define ROLLCALL_CHECK_FAILED(text) ::rollcall::capture::fail_check(__FILE__, __LINE__, text)
#else
namespace rollcall {
[[noreturn]] void abort_check(const char* file, int line, const char* text) noexcept;
}
#define ROLLCALL_CHECK_FAILED(text) ::rollcall::abort_check(__FILE__, __LINE__, text)
#endif

#define ROLLCALL_CHECK(condition) \
  (__builtin_expect(static_cast<bool>(condition), 1) || (ROLLCALL_CHECK_FAILED(#condition), false))

namespace rollcall {
constexpr void maybe(bool) {}
}  // namespace rollcall
