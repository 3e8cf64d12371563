// Ranks of a virtual cluster that one process runs, a GPU and a thread for each, as JAX does.
#pragma once

#include "tests/sim/cluster.h"

namespace rollcall::sim {

// Puts every `gpus` ranks in a row into one process. Its ranks must have ended, stand or live
// alike: they are one process, which does that as a whole. With `one_thread` all calls of a process
// come from one thread.
void run_together(Outcome& outcome, size_t gpus, bool one_thread = false);

}  // namespace rollcall::sim
