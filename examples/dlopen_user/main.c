/* dlopen_user: loads NCCL and the CUDA runtime as language bindings do, with dlopen and dlsym, and
 * drives several GPUs from one process.
 *
 *     rollcall run --emulate=2 -- dlopen_user [ITERATIONS]
 *
 * Exit status: 0 all right, 1 a wrong result, 2 usage, 4 a library or a call failed. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { kGpusMax = 8, kElements = 1000 };

/* The functions of both libraries, by name: one table, so that none can be forgotten. */
#define NCCL_FUNCTIONS(X) \
  X(ncclGetVersion)       \
  X(ncclGetErrorString)   \
  X(ncclCommInitAll)      \
  X(ncclGroupStart)       \
  X(ncclGroupEnd)         \
  X(ncclAllReduce)        \
  X(ncclCommDestroy)
#define CUDA_FUNCTIONS(X)      \
  X(cudaGetErrorString)        \
  X(cudaGetDeviceCount)        \
  X(cudaSetDevice)             \
  X(cudaMalloc)                \
  X(cudaFree)                  \
  X(cudaMemcpy)                \
  X(cudaStreamCreateWithFlags) \
  X(cudaStreamSynchronize)     \
  X(cudaStreamDestroy)

#define DECLARE(name) __typeof__(name)* name##_;
static struct {
  NCCL_FUNCTIONS(DECLARE)
  CUDA_FUNCTIONS(DECLARE)
} api;

static void* open_first(const char* first, const char* second) {
  void* library = dlopen(first, RTLD_NOW | RTLD_LOCAL);
  if (!library && second) library = dlopen(second, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "dlopen_user: %s\n", dlerror());
    exit(4);
  }
  return library;
}

/* dlsym returns an object pointer; POSIX promises that this copy of it is the function. */
static void find(void* library, const char* name, void** function) {
  *function = dlsym(library, name);
  if (!*function) {
    fprintf(stderr, "dlopen_user: %s\n", dlerror());
    exit(4);
  }
}

static void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "dlopen_user: %s: %s\n", call, api.ncclGetErrorString_(result));
  exit(4);
}

static void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "dlopen_user: %s: %s\n", call, api.cudaGetErrorString_(error));
  exit(4);
}

struct Gpu {
  ncclComm_t comm;
  cudaStream_t stream;
  void* data;
};

static float element(int gpu, int iteration, int index) {
  return (float)((gpu * 13 + iteration + index) % 31);
}

static void load(struct Gpu* gpus, int count, int iteration) {
  float host[kElements];
  for (int gpu = 0; gpu < count; ++gpu) {
    for (int i = 0; i < kElements; ++i) host[i] = element(gpu, iteration, i);
    check_cuda(api.cudaSetDevice_(gpu), "cudaSetDevice");
    check_cuda(api.cudaMemcpy_(gpus[gpu].data, host, sizeof host, cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
}

static void all_reduce(struct Gpu* gpus, int count) {
  /* One thread calls for all its GPUs: without the group, the first call would wait for the rest.
   */
  check_nccl(api.ncclGroupStart_(), "ncclGroupStart");
  for (int gpu = 0; gpu < count; ++gpu) {
    check_nccl(api.ncclAllReduce_(gpus[gpu].data, gpus[gpu].data, kElements, ncclFloat32, ncclSum,
                                  gpus[gpu].comm, gpus[gpu].stream),
               "ncclAllReduce");
  }
  check_nccl(api.ncclGroupEnd_(), "ncclGroupEnd");
}

/* Returns how many elements were wrong. */
static int verify(struct Gpu* gpus, int count, int iteration) {
  float host[kElements];
  int wrong = 0;
  for (int gpu = 0; gpu < count; ++gpu) {
    check_cuda(api.cudaSetDevice_(gpu), "cudaSetDevice");
    check_cuda(api.cudaStreamSynchronize_(gpus[gpu].stream), "cudaStreamSynchronize");
    check_cuda(api.cudaMemcpy_(host, gpus[gpu].data, sizeof host, cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    for (int i = 0; i < kElements; ++i) {
      float sum = 0;
      for (int other = 0; other < count; ++other) sum += element(other, iteration, i);
      if (host[i] != sum) ++wrong;
    }
  }
  return wrong;
}

static int run(int iterations) {
  struct Gpu gpus[kGpusMax] = {0};
  ncclComm_t comms[kGpusMax];
  int count = 0;
  check_cuda(api.cudaGetDeviceCount_(&count), "cudaGetDeviceCount");
  if (count > kGpusMax) count = kGpusMax;
  if (count < 1) {
    fprintf(stderr, "dlopen_user: there is no GPU; try rollcall run --emulate\n");
    return 4;
  }
  int version = 0;
  check_nccl(api.ncclGetVersion_(&version), "ncclGetVersion");
  check_nccl(api.ncclCommInitAll_(comms, count, NULL), "ncclCommInitAll");
  for (int gpu = 0; gpu < count; ++gpu) {
    gpus[gpu].comm = comms[gpu];
    check_cuda(api.cudaSetDevice_(gpu), "cudaSetDevice");
    check_cuda(api.cudaStreamCreateWithFlags_(&gpus[gpu].stream, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    check_cuda(api.cudaMalloc_(&gpus[gpu].data, kElements * sizeof(float)), "cudaMalloc");
  }
  int wrong = 0;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    load(gpus, count, iteration);
    all_reduce(gpus, count);
    wrong += verify(gpus, count, iteration);
  }
  for (int gpu = 0; gpu < count; ++gpu) {
    check_cuda(api.cudaSetDevice_(gpu), "cudaSetDevice");
    check_cuda(api.cudaFree_(gpus[gpu].data), "cudaFree");
    check_cuda(api.cudaStreamDestroy_(gpus[gpu].stream), "cudaStreamDestroy");
    check_nccl(api.ncclCommDestroy_(gpus[gpu].comm), "ncclCommDestroy");
  }
  printf("%d GPUs, %d AllReduce of %d elements, %d wrong\n", count, iterations, kElements, wrong);
  return wrong ? 1 : 0;
}

int main(int argc, char** argv) {
  const int iterations = argc > 1 ? atoi(argv[1]) : 5;
  if (iterations < 1) {
    fprintf(stderr, "usage: dlopen_user [ITERATIONS], at least 1\n");
    return 2;
  }
  void* cuda = open_first("libcudart.so.13", "libcudart.so.12");
  void* nccl = open_first("libnccl.so.2", NULL);
#define FIND(name) find(library, #name, (void**)&api.name##_);
  void* library = nccl;
  NCCL_FUNCTIONS(FIND)
  library = cuda;
  CUDA_FUNCTIONS(FIND)
  const int status = run(iterations);
  dlclose(nccl);
  dlclose(cuda);
  return status;
}
