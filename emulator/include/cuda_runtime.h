/* What programs without device code need of it: the runtime's C interface, and in C++ the typed
 * forms of allocation. */
#ifndef ROLLCALL_EMULATOR_CUDA_RUNTIME_H
#define ROLLCALL_EMULATOR_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
template <typename T>
static inline cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <typename T>
static inline cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes);
}
#endif
#endif
