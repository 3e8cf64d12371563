// Ranks of one job of which each process runs several, a GPU each: as JAX does, and programs that
// call ncclCommInitAll.
//
//     several_gpus GPUS threads | group | calls [FAULT]
//
// `threads`: a thread for each GPU; `group`: one thread, and a group for each step; `calls`: one
// thread, and a group for each call of all GPUs. One GPU of the second process, its last but one,
// breaks step in step 7 by FAULT: missing, count, exit or stick.
// RANK and WORLD_SIZE as torchrun gives them; the ranks meet in $SEVERAL_GPUS_ID, a file's name.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSteps = 20;
constexpr int kCalls = 3;  // of a step
constexpr int kFaultyStep = 7;
constexpr int kFaultyProcess = 1;

void check(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "several_gpus: %s failed\n", what);
  std::_Exit(9);
}
#define CHECK_NCCL(call) check((call) == ncclSuccess, #call)
#define CHECK_CUDA(call) check((call) == cudaSuccess, #call)

int number_of(const char* name) {
  const char* text = std::getenv(name);
  check(text != nullptr, name);
  return std::atoi(text);
}

// The first process writes it; a rename makes it appear as a whole.
ncclUniqueId meet(int process, const std::string& path) {
  ncclUniqueId id{};
  if (process == 0) {
    CHECK_NCCL(ncclGetUniqueId(&id));
    const std::string unfinished = path + ".new";
    std::FILE* file = std::fopen(unfinished.c_str(), "wb");
    check(file != nullptr && std::fwrite(&id, sizeof id, 1, file) == 1, "writing the id");
    std::fclose(file);
    check(std::rename(unfinished.c_str(), path.c_str()) == 0, "rename");
    return id;
  }
  std::FILE* file = nullptr;
  while ((file = std::fopen(path.c_str(), "rb")) == nullptr) usleep(1000);
  check(std::fread(&id, sizeof id, 1, file) == 1, "reading the id");
  std::fclose(file);
  return id;
}

class Gpus {
 public:
  Gpus(int count, std::string fault)
      : process_(number_of("RANK")), fault_(std::move(fault)), gpus_(static_cast<size_t>(count)) {
    const ncclUniqueId id = meet(process_, std::getenv("SEVERAL_GPUS_ID"));
    const int ranks = number_of("WORLD_SIZE") * count;
    CHECK_NCCL(ncclGroupStart());
    for (int gpu = 0; gpu < count; ++gpu) {
      select(gpu);
      CHECK_NCCL(ncclCommInitRank(&at(gpu).comm, ranks, id, first_device() + gpu));
    }
    CHECK_NCCL(ncclGroupEnd());
    for (int gpu = 0; gpu < count; ++gpu) {
      select(gpu);
      CHECK_CUDA(cudaStreamCreateWithFlags(&at(gpu).stream, cudaStreamNonBlocking));
      CHECK_CUDA(cudaMalloc(&at(gpu).data, 1 << 20));
    }
  }

  void run_threads() {
    std::vector<std::thread> threads;
    for (int gpu = 0; gpu < count(); ++gpu) {
      threads.emplace_back([this, gpu] {
        for (int step = 0; step < kSteps; ++step) {
          for (int number = 0; number < kCalls; ++number) call(step, gpu, number);
          CHECK_CUDA(cudaStreamSynchronize(at(gpu).stream));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void run_groups(int calls_each) {
    for (int step = 0; step < kSteps; ++step) {
      for (int number = 0; number < kCalls; number += calls_each) {
        call_together(step, number, number + calls_each);
      }
      for (int gpu = 0; gpu < count(); ++gpu) {
        select(gpu);
        CHECK_CUDA(cudaStreamSynchronize(at(gpu).stream));
      }
    }
  }

  void destroy() {
    for (Gpu& gpu : gpus_) CHECK_NCCL(ncclCommDestroy(gpu.comm));
  }

 private:
  struct Gpu {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    void* data = nullptr;
  };

  Gpu& at(int gpu) { return gpus_[static_cast<size_t>(gpu)]; }
  int count() const { return static_cast<int>(gpus_.size()); }
  int first_device() const { return process_ * count(); }
  void select(int gpu) const { CHECK_CUDA(cudaSetDevice(first_device() + gpu)); }

  bool breaks(const char* fault, int step, int gpu) const {
    return fault_ == fault && process_ == kFaultyProcess && step == kFaultyStep &&
           gpu == count() - 2;
  }

  void call_together(int step, int first, int end) {
    CHECK_NCCL(ncclGroupStart());
    for (int gpu = 0; gpu < count(); ++gpu) {
      for (int number = first; number < end; ++number) call(step, gpu, number);
    }
    CHECK_NCCL(ncclGroupEnd());
  }

  void call(int step, int gpu, int number) {
    select(gpu);
    auto& [comm, stream, data] = at(gpu);
    if (number == 0) CHECK_NCCL(ncclAllGather(data, data, 100, ncclFloat32, comm, stream));
    if (number == 1) reduce(step, gpu);
    if (number == 2) CHECK_NCCL(ncclBroadcast(data, data, 100, ncclFloat32, 0, comm, stream));
  }

  void reduce(int step, int gpu) {
    auto& [comm, stream, data] = at(gpu);
    const size_t elements = breaks("count", step, gpu) ? 999 : 1000;
    if (!breaks("missing", step, gpu)) {
      CHECK_NCCL(ncclAllReduce(data, data, elements, ncclFloat32, ncclSum, comm, stream));
    }
    if (breaks("exit", step, gpu)) std::_Exit(9);
    if (breaks("stick", step, gpu)) pause();
  }

  const int process_;
  const std::string fault_;
  std::vector<Gpu> gpus_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4 || std::getenv("SEVERAL_GPUS_ID") == nullptr) {
    std::fprintf(stderr,
                 "usage: SEVERAL_GPUS_ID=FILE several_gpus GPUS threads|group|calls [FAULT]\n");
    return 2;
  }
  Gpus gpus(std::atoi(argv[1]), argc > 3 ? argv[3] : "");
  const std::string style = argv[2];
  if (style == "threads") {
    gpus.run_threads();
  } else {
    gpus.run_groups(style == "group" ? kCalls : 1);
  }
  gpus.destroy();
  return 0;
}
