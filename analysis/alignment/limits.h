// How far the analysis looks from a call that may be wrong. What has a bound for reasons of its own
// has it where it is used.
#pragma once

#include <cstdint>

namespace rollcall::analysis {

// Calls before it, of one process or one channel, that tell what it should have been. A step must
// be in there twice to be a habit, and few steps have a thousand calls; a rank's ring holds more,
// but to look through them is what most of the analysis costs where many ranks are in doubt.
inline constexpr uint64_t kCallsBeforeMax = 2048;
// Calls from it on that tell how it was wrong. If these agree under one explanation, more would,
// too; and a job that stands has seldom called so many behind what stopped it.
inline constexpr uint64_t kCallsBehindMax = 64;
// A longer slip is believed only where a whole group or step explains it: by as many calls more one
// has to know what should have come.
inline constexpr uint32_t kSlipMax = 4;

}  // namespace rollcall::analysis
