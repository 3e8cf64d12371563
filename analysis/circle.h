// A circle of waits: a deadlock, or a slip that shows as one. Who of its members slipped is decided
// by holding each member's calls, across all its communicators, against those of its peers.
#pragma once

#include "analysis/judge.h"

namespace rollcall::analysis {

// `root` is an index into roots() and is a circle.
Draft draft_circle(const Case& the_case, uint32_t root);

}  // namespace rollcall::analysis
