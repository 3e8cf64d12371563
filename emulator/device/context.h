// What a driver call starts with: is the driver initialised in this process (and not in its
// parent), which context is current on this thread, has the device failed.
#pragma once

#include "emulator/include/cuda.h"

// What a CUcontext points to. Contexts are labels: everything belongs to the device.
struct CUctx_st {
  int device = 0;
  bool primary = false;
};

namespace emu {

// Thread's own state.
struct ThreadState {
  CUcontext stack[16] = {};  // the last one is current
  int depth = 0;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

ThreadState& thread_state();

// CUDA_SUCCESS once cuInit succeeded. A forked child of an initialised process gets
// CUDA_ERROR_NOT_INITIALIZED for ever, as with the real driver.
CUresult check_initialised();
CUresult initialise();
// The same, and a context is current: its device goes to *device.
CUresult enter(int* device);
// For the stand-ins' own entry points, which threads reach that never called CUDA: initialises, and
// makes device 0 current where nothing is, as the runtime would.
CUresult ensure_context();
// The same as enter(), and the device has not failed.
CUresult enter_healthy(int* device);

CUcontext primary_context(int device);
bool valid_device(int device);

}  // namespace emu
