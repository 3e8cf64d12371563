// CUDA contexts that the job ends: around cuCtxDestroy, and around cuDevicePrimaryCtxReset or, not
// certain to end it, cuDevicePrimaryCtxRelease. Harmless where GPUs are not timed. For life and
// threads see recorder.h. All of it is [cold].
#pragma once

namespace rollcall::capture {

struct ContextEnd {
  int device = -1;
  bool holds_poller = false;
};
ContextEnd begin_context_end(void* context) noexcept;
ContextEnd begin_primary_end(int device, bool is_certain) noexcept;
void finish_context_end(ContextEnd end) noexcept;

}  // namespace rollcall::capture
