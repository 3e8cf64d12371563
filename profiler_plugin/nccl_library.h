// Which NCCL uses the plugin, for the meta area.
#pragma once

namespace rollcall::profiler {

// Once per process, where the shim has not told it: `caller` is an address in NCCL. A NCCL that is
// part of the program, and does not export ncclGetVersion, keeps its version to itself. [cold]
void note_nccl_library(const void* caller) noexcept;

}  // namespace rollcall::profiler
