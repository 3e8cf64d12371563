// Leaves main with work on a stream that never finishes and a host function that never returns. The
// process must end by itself, with its own status; ctest's time limit is the check.
#include <cstdio>
#include <thread>

#include "cuda_runtime_api.h"
#include "tests/emulator/device_gate.h"

int main() {
  static Gate gate;
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  if (cudaStreamCreate(&stream) != cudaSuccess || cudaStreamCreate(&other) != cudaSuccess) return 1;
  gate.put_on(stream);
  static std::atomic<bool> entered{false};
  cudaLaunchHostFunc(
      other,
      [](void*) {
        entered = true;
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      nullptr);
  while (!entered) std::this_thread::yield();
  std::puts("leaving with hung work");
  return 0;
}
