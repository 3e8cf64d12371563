// mpi_allreduce: NCCL in a program that MPI launches. Each rank brings a vector of its own,
// AllReduce adds them up, every rank checks every element.
//
//     mpirun -np 4 rollcall run --emulate -- mpi_allreduce [ITERATIONS [ELEMENTS]]
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
};

// A rank that cannot go on takes the whole job down: the others would wait for it for ever.
void check(bool fine, const char* call, const char* why) {
  if (fine) return;
  std::fprintf(stderr, "mpi_allreduce: %s: %s\n", call, why);
  MPI_Abort(MPI_COMM_WORLD, 4);
}
void check(ncclResult_t result, const char* call) {
  check(result == ncclSuccess, call, ncclGetErrorString(result));
}
void check(cudaError_t error, const char* call) {
  check(error == cudaSuccess, call, cudaGetErrorString(error));
}

World join_world() {
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &world.local_rank);
  MPI_Comm_free(&node);
  return world;
}

ncclComm_t make_communicator(const World& world) {
  ncclUniqueId id{};
  if (world.rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, world.size, id, world.rank), "ncclCommInitRank");
  return comm;
}

// Small whole numbers: their sum is exact in float32 in whatever order NCCL adds.
float element(int rank, int iteration, size_t index) {
  return static_cast<float>(
      (static_cast<size_t>(rank) * 13 + index + static_cast<size_t>(iteration)) % 31);
}

// Returns how many elements were wrong.
size_t all_reduce_once(const World& world, ncclComm_t comm, cudaStream_t stream, void* data,
                       size_t count, int iteration) {
  std::vector<float> host(count);
  for (size_t i = 0; i < count; ++i) host[i] = element(world.rank, iteration, i);
  const size_t bytes = count * sizeof(float);
  check(cudaMemcpyAsync(data, host.data(), bytes, cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  check(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream), "ncclAllReduce");
  check(cudaMemcpyAsync(host.data(), data, bytes, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < world.size; ++rank) sum += element(rank, iteration, i);
    if (host[i] != sum) ++wrong;
  }
  return wrong;
}

int run(int iterations, size_t count) {
  const World world = join_world();
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  check(devices > 0, "cudaGetDeviceCount", "there is no GPU; try rollcall run --emulate");
  check(cudaSetDevice(world.local_rank % devices), "cudaSetDevice");
  ncclComm_t comm = make_communicator(world);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  void* data = nullptr;
  check(cudaMalloc(&data, count * sizeof(float)), "cudaMalloc");
  size_t wrong = 0;
  for (int i = 0; i < iterations; ++i) {
    wrong += all_reduce_once(world, comm, stream, data, count, i);
  }
  check(cudaFree(data), "cudaFree");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  if (wrong > 0) {
    std::fprintf(stderr, "mpi_allreduce: rank %d: %zu elements were wrong\n", world.rank, wrong);
    return 1;
  }
  std::printf("rank %d of %d: %d AllReduce of %zu elements were right\n", world.rank, world.size,
              iterations, count);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 5;
  const int count = argc > 2 ? std::atoi(argv[2]) : 1000;
  if (iterations < 1 || count < 1) {
    std::fprintf(stderr, "usage: mpi_allreduce [ITERATIONS [ELEMENTS]], both at least 1\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  const int status = run(iterations, static_cast<size_t>(count));
  MPI_Finalize();
  return status;
}
