// In place of cupti.cpp where CUPTI's header was not found when this was built.
#include "core/gpu/cupti.h"

namespace rollcall::gpu {

bool load_cupti(const char*, int, CuptiLibrary&, TextWriter& why) noexcept {
  why.text("this build of Rollcall has no CUPTI (cupti.h was not found)");
  return false;
}

bool start_cupti(const CuptiLibrary&, ActivitySource&, TextWriter&) noexcept { return false; }

void stop_cupti() noexcept {}

void forget_cupti() noexcept {}

}  // namespace rollcall::gpu
