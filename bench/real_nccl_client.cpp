// Two ranks of one process that call AllReduce in groups, as a framework with one process for
// several GPUs does, and say what a call takes of the calling thread.
//
//   real_nccl_client CALLS
//
// Prints the nanoseconds of the calling thread's processor time that a call takes: of the fastest
// tenth of the batches, the middle one, and all of them on average.
#include <cuda_runtime.h>
#include <nccl.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kRanks = 2;
constexpr size_t kCount = 256;
// Connections, buffers and the first pages of everything are made by then.
constexpr int kWarmUpCalls = 2000;
// So many are queued before the stream is waited for: its queue stays short, as a job's does.
constexpr int kBatchCalls = 400;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "real_nccl_client: %s failed\n", what);
  std::exit(1);
}

double processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Rank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;
};

// What one of a batch takes. The stream is waited for behind it.
double batch_ns(const Rank* ranks) {
  const double began_ns = processor_ns();
  for (int call = 0; call < kBatchCalls; call += kRanks) {
    ncclResult_t failed = ncclGroupStart();
    for (int i = 0; i < kRanks; ++i) {
      const Rank& rank = ranks[i];
      if (failed == ncclSuccess) {
        failed = ncclAllReduce(rank.data, rank.data, kCount, ncclFloat32, ncclSum, rank.comm,
                               rank.stream);
      }
    }
    if (failed == ncclSuccess) failed = ncclGroupEnd();
    expect(failed == ncclSuccess, "a call of NCCL's");
  }
  const double spent_ns = processor_ns() - began_ns;
  for (int i = 0; i < kRanks; ++i) {
    expect(cudaStreamSynchronize(ranks[i].stream) == cudaSuccess, "cudaStreamSynchronize");
  }
  return spent_ns / kBatchCalls;
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 40'000;
  expect(calls >= kBatchCalls, "reading the number of calls, 400 or more,");
  Rank ranks[kRanks];
  ncclComm_t comms[kRanks] = {};
  expect(ncclCommInitAll(comms, kRanks, nullptr) == ncclSuccess, "ncclCommInitAll");
  for (int i = 0; i < kRanks; ++i) {
    ranks[i].comm = comms[i];
    expect(cudaSetDevice(i) == cudaSuccess, "cudaSetDevice");
    expect(cudaStreamCreateWithFlags(&ranks[i].stream, cudaStreamNonBlocking) == cudaSuccess,
           "cudaStreamCreateWithFlags");
    expect(
        cudaMalloc(reinterpret_cast<void**>(&ranks[i].data), kCount * sizeof(float)) == cudaSuccess,
        "cudaMalloc");
  }
  for (int made = 0; made < kWarmUpCalls; made += kBatchCalls) batch_ns(ranks);
  std::vector<double> batches(static_cast<size_t>(calls / kBatchCalls));
  double sum = 0;
  for (double& batch : batches) sum += batch = batch_ns(ranks);
  std::sort(batches.begin(), batches.end());
  std::printf("%.1f %.1f %.1f\n", batches[batches.size() / 10], batches[batches.size() / 2],
              sum / static_cast<double>(batches.size()));
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  return 0;
}
