// collective_loop: what an AllReduce costs, seen from the host and from the GPU.
//
//     collective_loop [ITERATIONS [BYTES...]]
//
// One process drives all GPUs it sees, with one call per GPU in a group where there are several.
// One of several processes that a launcher has started is a rank with one GPU instead, and rank 0
// prints. For each size it prints a line of four numbers: bytes, the median time in nanoseconds
// that the host spends in the call (or group), the median and the shortest time in nanoseconds that
// the GPU spends, measured by two CUDA events around the call. Exit status: 0, 2 usage, 4 a call
// failed.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "examples/launch/launch.h"
#include "examples/launch/rendezvous.h"

namespace {

using examples::Launch;

constexpr int kGpusMax = 16;
constexpr int kWarmUp = 20;

void check(bool fine, const char* call, const char* why) {
  if (fine) return;
  std::fprintf(stderr, "collective_loop: %s: %s\n", call, why);
  std::exit(4);
}
void check(ncclResult_t result, const char* call) {
  check(result == ncclSuccess, call, ncclGetErrorString(result));
}
void check(cudaError_t error, const char* call) {
  check(error == cudaSuccess, call, cudaGetErrorString(error));
}

struct Gpu {
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  void* data = nullptr;
};

struct Sample {
  long long host_ns;
  long long gpu_ns;
};

void launch(std::vector<Gpu>& gpus, size_t bytes) {
  const bool grouped = gpus.size() > 1;
  if (grouped) check(ncclGroupStart(), "ncclGroupStart");
  for (Gpu& gpu : gpus) {
    check(ncclAllReduce(gpu.data, gpu.data, bytes, ncclInt8, ncclSum, gpu.comm, gpu.stream),
          "ncclAllReduce");
  }
  if (grouped) check(ncclGroupEnd(), "ncclGroupEnd");
}

void wait_for_all(std::vector<Gpu>& gpus) {
  for (Gpu& gpu : gpus) check(cudaStreamSynchronize(gpu.stream), "cudaStreamSynchronize");
}

Sample measure(std::vector<Gpu>& gpus, size_t bytes, cudaEvent_t before, cudaEvent_t after) {
  check(cudaEventRecord(before, gpus[0].stream), "cudaEventRecord");
  const auto start = std::chrono::steady_clock::now();
  launch(gpus, bytes);
  const auto end = std::chrono::steady_clock::now();
  check(cudaEventRecord(after, gpus[0].stream), "cudaEventRecord");
  wait_for_all(gpus);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, before, after), "cudaEventElapsedTime");
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count(),
          static_cast<long long>(static_cast<double>(milliseconds) * 1e6)};
}

void measure_size(std::vector<Gpu>& gpus, size_t bytes, int iterations, bool prints) {
  cudaEvent_t before = nullptr;
  cudaEvent_t after = nullptr;
  check(cudaSetDevice(gpus[0].device), "cudaSetDevice");
  check(cudaEventCreate(&before), "cudaEventCreate");
  check(cudaEventCreate(&after), "cudaEventCreate");
  for (int i = 0; i < kWarmUp; ++i) launch(gpus, bytes);
  wait_for_all(gpus);
  std::vector<long long> host_ns;
  std::vector<long long> gpu_ns;
  for (int i = 0; i < iterations; ++i) {
    const Sample sample = measure(gpus, bytes, before, after);
    host_ns.push_back(sample.host_ns);
    gpu_ns.push_back(sample.gpu_ns);
  }
  std::sort(host_ns.begin(), host_ns.end());
  std::sort(gpu_ns.begin(), gpu_ns.end());
  if (prints) {
    std::printf("%zu %lld %lld %lld\n", bytes, host_ns[host_ns.size() / 2],
                gpu_ns[gpu_ns.size() / 2], gpu_ns.front());
  }
  check(cudaEventDestroy(before), "cudaEventDestroy");
  check(cudaEventDestroy(after), "cudaEventDestroy");
}

int count_of_gpus() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  check(count > 0, "cudaGetDeviceCount", "there is no GPU; try rollcall run --emulate");
  return count;
}

void prepare(Gpu& gpu, size_t bytes_max) {
  check(cudaSetDevice(gpu.device), "cudaSetDevice");
  check(cudaMalloc(&gpu.data, bytes_max), "cudaMalloc");
  check(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

std::vector<Gpu> open_all_gpus(size_t bytes_max) {
  std::vector<Gpu> gpus(static_cast<size_t>(std::min(count_of_gpus(), kGpusMax)));
  std::vector<ncclComm_t> comms(gpus.size());
  check(ncclCommInitAll(comms.data(), static_cast<int>(gpus.size()), nullptr), "ncclCommInitAll");
  for (size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].comm = comms[i];
    gpus[i].device = static_cast<int>(i);
    prepare(gpus[i], bytes_max);
  }
  return gpus;
}

std::vector<Gpu> open_own_gpu(const Launch& launch, size_t bytes_max) {
  std::vector<Gpu> gpus(1);
  gpus[0].device = launch.local_rank % count_of_gpus();
  prepare(gpus[0], bytes_max);
  const ncclUniqueId id = examples::exchange_unique_id(launch);
  check(ncclCommInitRank(&gpus[0].comm, launch.world_size, id, launch.rank), "ncclCommInitRank");
  return gpus;
}

void run(const Launch& launch, const std::vector<size_t>& sizes, int iterations) {
  const size_t largest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<Gpu> gpus =
      launch.world_size > 1 ? open_own_gpu(launch, largest) : open_all_gpus(largest);
  for (const size_t bytes : sizes) measure_size(gpus, bytes, iterations, launch.rank == 0);
  for (Gpu& gpu : gpus) check(ncclCommDestroy(gpu.comm), "ncclCommDestroy");
}

}  // namespace

int main(int argc, char** argv) {
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 200;
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {8, 1 << 16, 1 << 20, 1 << 24};
  if (iterations <= 0 || *std::max_element(sizes.begin(), sizes.end()) == 0) {
    std::fprintf(stderr, "usage: collective_loop [ITERATIONS [BYTES...]]\n");
    return 2;
  }
  try {
    run(examples::launch_from_environment(), sizes, iterations);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "collective_loop: %s\n", error.what());
    return 2;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "collective_loop: %s\n", error.what());
    return 4;
  }
  return 0;
}
