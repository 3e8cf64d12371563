// A run of the virtual cluster as the PyTorch profiler would have recorded it.
#pragma once

#include <vector>

#include "tests/slow/timed_cluster.h"
#include "trace/model.h"

namespace rollcall::timed {

// `run` after it was written as traces, one a rank, and read back. With `kernels`, by rank, they
// have those of compute as well.
trace::Run profiled(const trace::Run& run, const std::vector<std::vector<Kernel>>& kernels = {});

}  // namespace rollcall::timed
