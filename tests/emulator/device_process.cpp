#include <sys/wait.h>
#include <unistd.h>

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
