#include <sys/wait.h>
#include <unistd.h>

#include "cuda.h"
#include "cuda_runtime_api.h"
#include "tests/catch.h"

TEST_CASE("a child forked after the driver was initialised cannot use it") {
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    void* memory = nullptr;
    int count = -1;
    if (cudaMalloc(&memory, 4096) != cudaErrorInitializationError) _exit(1);
    if (cudaDeviceSynchronize() != cudaErrorInitializationError) _exit(2);
    if (cudaGetDeviceCount(&count) != cudaErrorInitializationError) _exit(3);
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

namespace {

struct Handles {
  CUstream stream = nullptr;
  CUevent event = nullptr;
};

Handles recorded_event() {
  Handles handles;
  REQUIRE(cuStreamCreate(&handles.stream, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&handles.event, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(handles.event, handles.stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(handles.stream) == CUDA_SUCCESS);
  REQUIRE(cuEventQuery(handles.event) == CUDA_SUCCESS);
  return handles;
}

}  // namespace

TEST_CASE("a device that is reset takes its events and streams along") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const Handles old = recorded_event();
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  CHECK(cuEventQuery(old.event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamQuery(old.stream) == CUDA_ERROR_INVALID_HANDLE);
  int active = 1;
  REQUIRE(cuDevicePrimaryCtxGetState(0, nullptr, &active) == CUDA_SUCCESS);
  CHECK(active == 0);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  recorded_event();
}

TEST_CASE("a primary context goes with the last of its users") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const Handles kept = recorded_event();
  CUcontext context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(cuEventQuery(kept.event) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);  // the runtime's own
  CHECK(cuEventQuery(kept.event) == CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  recorded_event();
}
