// collective_loop: what an AllReduce costs, seen from the host and from the GPU.
//
//     collective_loop [ITERATIONS [BYTES...]]
//
// One process drives all GPUs it sees, with one call per GPU in a group where there are several.
// For each size it prints a line of four numbers: bytes, the median time in nanoseconds that the
// host spends in the call (or group), the median and the shortest time in nanoseconds that the GPU
// spends, measured by two CUDA events around the call. Exit status: 0, 2 usage, 4 a call failed.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

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

void measure_size(std::vector<Gpu>& gpus, size_t bytes, int iterations) {
  cudaEvent_t before = nullptr;
  cudaEvent_t after = nullptr;
  check(cudaSetDevice(0), "cudaSetDevice");
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
  std::printf("%zu %lld %lld %lld\n", bytes, host_ns[host_ns.size() / 2], gpu_ns[gpu_ns.size() / 2],
              gpu_ns.front());
  check(cudaEventDestroy(before), "cudaEventDestroy");
  check(cudaEventDestroy(after), "cudaEventDestroy");
}

std::vector<Gpu> open_gpus(size_t bytes_max) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::vector<Gpu> gpus(static_cast<size_t>(std::min(count, kGpusMax)));
  std::vector<ncclComm_t> comms(gpus.size());
  check(ncclCommInitAll(comms.data(), static_cast<int>(gpus.size()), nullptr), "ncclCommInitAll");
  for (size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].comm = comms[i];
    check(cudaSetDevice(static_cast<int>(i)), "cudaSetDevice");
    check(cudaMalloc(&gpus[i].data, bytes_max), "cudaMalloc");
    check(cudaStreamCreateWithFlags(&gpus[i].stream, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
  }
  return gpus;
}

}  // namespace

int main(int argc, char** argv) {
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 200;
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {8, 1 << 16, 1 << 20, 1 << 24};
  const size_t largest = *std::max_element(sizes.begin(), sizes.end());
  if (iterations <= 0 || largest == 0) {
    std::fprintf(stderr, "usage: collective_loop [ITERATIONS [BYTES...]]\n");
    return 2;
  }
  std::vector<Gpu> gpus = open_gpus(largest);
  for (const size_t bytes : sizes) measure_size(gpus, bytes, iterations);
  for (Gpu& gpu : gpus) check(ncclCommDestroy(gpu.comm), "ncclCommDestroy");
  return 0;
}
