// Turns the error codes of NCCL and CUDA into exceptions.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace mini_train {

// NCCL or CUDA said no. `main` aborts the communicators, so that the other ranks can leave too.
struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw GpuError(std::string(call) + ": " + ncclGetErrorString(result));
}

// Refused or not; NCCL may still be at it.
inline void check_started(ncclResult_t result, const char* call) {
  if (result != ncclInProgress) check(result, call);
}

// On a non-blocking communicator a call may come back before NCCL has carried it out, and the
// communicator must not be used until it has. That may take until the last rank is there: who waits
// for it should leave the processor to others.
inline void check_settled(ncclComm_t comm, ncclResult_t result, const char* call) {
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    check(ncclCommGetAsyncError(comm, &result), "ncclCommGetAsyncError");
  }
  check(result, call);
}

inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw GpuError(std::string(call) + ": " + cudaGetErrorString(error));
}

}  // namespace mini_train
