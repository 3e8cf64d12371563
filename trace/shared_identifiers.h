// Communicators that the profiler plugin alone cannot tell apart.
//
// NCCL 2.23 makes the identifier of a split communicator of its parent's and of the colour: two
// splits of one parent have communicators of the same identifier, with other members. Which of them
// a process is in nobody tells, so their keys are forgotten: an unknown communicator is compared
// with none.
#pragma once

#include "trace/model.h"

namespace rollcall::trace {

void forget_shared_identifiers(Run& run);

}  // namespace rollcall::trace
