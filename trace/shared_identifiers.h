// Communicators that the profiler plugin alone, or a log of NCCL, cannot tell apart.
//
// NCCL 2.23 makes the identifier of a split communicator of its parent's and of the colour: two
// splits of one parent have communicators of the same identifier, with other members. Which of them
// a process is in nobody tells, so their keys are forgotten: an unknown communicator is compared
// with none. Logs of NCCL up to 2.15 name no identifier, those without INIT lines none at all, and
// 2.23 no number of a split: where more processes claim a communicator than it has ranks, or one
// claims it twice, it is several.
#pragma once

#include "trace/model.h"

namespace rollcall::trace {

void forget_shared_identifiers(Run& run);

}  // namespace rollcall::trace
