// What the CUDA driver is asked to do with graphs, and which contexts end. The driver's functions
// are always looked up by name: the CUDA runtime, linked dynamically or into the program, asks
// dlsym for cuGetProcAddress and that for everything else. So `dlsym` (symbol_hook.h) leads here,
// and nothing is exported.
//
// Only where GPUs are timed; with ROLLCALL_GPU_TIMING=off every look-up passes through.
#pragma once

namespace rollcall::shim {

bool watches_driver() noexcept;

// The function to hand out in place of `real`, found under `name`; `real` itself where it is not
// one of ours to watch. Any thread.
void* watched_driver_function(const char* name, void* real) noexcept;

// All of what every other lookup pays.
inline bool is_driver_name(const char* name) noexcept {
  return name != nullptr && name[0] == 'c' && name[1] == 'u' &&
         (name[2] == 'G' || name[2] == 'S' || name[2] == 'C' || name[2] == 'D');
}

}  // namespace rollcall::shim
