#include "core/base/check.h"

#if !defined(ROLLCALL_INJECTED)
#include <cstdio>
#include <cstdlib>

namespace rollcall {

void abort_check(const char* file, int line, const char* text) noexcept {
  std::fprintf(stderr, "rollcall: %s:%d: broken invariant: %s\n", file, line, text);
  std::abort();
}

}  // namespace rollcall
#endif
