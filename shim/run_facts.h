// What the meta area says about the NCCL and CUDA this process uses.
#pragma once

namespace rollcall::shim {

// Version and path of the copy `real` belongs to, whether it is the emulator's, CUDA's versions
// where CUDA is loaded already (it is never loaded or initialised here), and one more kind of
// coverage. [cold]
void report_run_facts(unsigned copy, const void* real, const char* coverage) noexcept;

}  // namespace rollcall::shim
