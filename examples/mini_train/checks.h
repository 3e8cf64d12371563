// Turns the error codes of NCCL and CUDA into exceptions.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdexcept>
#include <string>

namespace mini_train {

// NCCL or CUDA said no. `main` aborts the communicators, so that the other ranks can leave too.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw GpuError(std::string(call) + ": " + ncclGetErrorString(result));
}

inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw GpuError(std::string(call) + ": " + cudaGetErrorString(error));
}

}  // namespace mini_train
