// What every runtime call does: make sure that the driver is initialised and a device current, call
// the driver, and remember the error. Errors have the same numbers in driver and runtime.
#pragma once

#include "emulator/include/cuda.h"
#include "emulator/include/cuda_runtime_api.h"

namespace emu {

// Device 0's primary context becomes current where the thread has none, as with the real runtime.
cudaError_t runtime_ready();
// The thread's last error becomes `error`, unless that is success; returns it.
cudaError_t remember(cudaError_t error);
// The same, and says so (emu_not_emulated).
int not_emulated(const char* function);

template <typename Call>
cudaError_t runtime_call(Call call) {
  if (const cudaError_t status = runtime_ready(); status != cudaSuccess) return remember(status);
  return remember(static_cast<cudaError_t>(call()));
}

// A function of the driver as cuGetProcAddress hands it out; null when there is none. The real
// runtime asks for all of them so, and that is where tools step in between: whoever watches a call
// of the driver's watches it here, too.
void* driver_function(const char* name);

// The driver's name for a kernel's host stub: any address that is not null will do, kernels do
// nothing.
inline CUfunction function_of(const void* stub) {
  return reinterpret_cast<CUfunction>(const_cast<void*>(stub));
}
inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace emu
