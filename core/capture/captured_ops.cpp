#include "core/capture/captured_ops.h"

#include "core/base/check.h"

namespace rollcall::capture {

void CapturedOps::begin(uint32_t time_shift) noexcept { block_.begin(time_shift); }

void CapturedOps::observe(const OpRecord& op) noexcept {
  if (!is_captured(op)) return;
  // It fitted the history's block, and was valid there.
  (void)ROLLCALL_CHECK(block_.add(op));
}

}  // namespace rollcall::capture
