// How communicators come and go.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <set>
#include <thread>

#include "tests/catch.h"
#include "tests/emulator/nccl_world.h"

using namespace nccl_world;

namespace {

// One int32 AllReduce; every rank contributes rank + 1.
// What NCCL says of a communicator in the end, where a call on it came back before that.
ncclResult_t settled(ncclComm_t comm, ncclResult_t result) {
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &result));
  }
  return result;
}

// NCCL says so, and takes no other call.
void expect_in_progress(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
  EXPECT(state == ncclInProgress);
  int buffer = 0;
  EXPECT(ncclAllReduce(&buffer, &buffer, 1, ncclInt32, ncclSum, comm, nullptr) ==
         ncclInvalidArgument);
}

ncclComm_t join_without_blocking(const Rank& self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = self.unique_id();
  EXPECT_NCCL(settled(comm, ncclCommInitRankConfig(&comm, self.ranks, id, self.rank, &config)));
  return comm;
}

int* on_gpu(int value) {
  int* memory = nullptr;
  EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory), sizeof(int)));
  EXPECT_CUDA(cudaMemcpy(memory, &value, sizeof(int), cudaMemcpyHostToDevice));
  return memory;
}

int value_of(const int* memory) {
  int value = 0;
  EXPECT_CUDA(cudaMemcpy(&value, memory, sizeof(int), cudaMemcpyDeviceToHost));
  return value;
}

int sum_of_ranks(ncclComm_t comm, cudaStream_t stream) {
  int rank = 0;
  EXPECT_NCCL(ncclCommUserRank(comm, &rank));
  int* const buffer = on_gpu(rank + 1);
  EXPECT_NCCL(settled(comm, ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, comm, stream)));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  const int sum = value_of(buffer);
  EXPECT_CUDA(cudaFree(buffer));
  return sum;
}

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  DIR* const directory = opendir("/dev/shm");
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) names.insert(entry->d_name);
  closedir(directory);
  return names;
}

}  // namespace

TEST_CASE("ranks in processes of their own meet, compute and part", "[nccl]") {
  for (const int ranks : {1, 2, 5}) {
    CHECK(run(ranks, 60, [](const Rank& self) {
            const ncclComm_t comm = self.join();
            int value = -1;
            EXPECT_NCCL(ncclCommCount(comm, &value));
            EXPECT(value == self.ranks);
            EXPECT_NCCL(ncclCommUserRank(comm, &value));
            EXPECT(value == self.rank);
            EXPECT_NCCL(ncclCommCuDevice(comm, &value));
            EXPECT(value == self.rank);
            EXPECT(sum_of_ranks(comm, nullptr) == self.ranks * (self.ranks + 1) / 2);
            EXPECT_NCCL(ncclCommFinalize(comm));
            EXPECT_NCCL(ncclCommDestroy(comm));
          }) == kAllWell);
  }
}

TEST_CASE("sixteen processes are together within a minute", "[nccl]") {
  CHECK(run(16, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          EXPECT(sum_of_ranks(comm, nullptr) == 136);
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("sixty-four processes work together", "[nccl]") {
  CHECK(run(64, 120, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          EXPECT(sum_of_ranks(comm, nullptr) == 64 * 65 / 2);
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("one process holds all ranks of a clique", "[nccl]") {
  CHECK(run(1, 60, [](const Rank&) {
          ncclComm_t comms[4];
          EXPECT_NCCL(ncclCommInitAll(comms, 4, nullptr));
          int* buffers[4];
          EXPECT_NCCL(ncclGroupStart());
          for (int i = 0; i < 4; ++i) {
            EXPECT_CUDA(cudaSetDevice(i));
            EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&buffers[i]), 4));
            const int own = i + 1;
            EXPECT_CUDA(cudaMemcpy(buffers[i], &own, 4, cudaMemcpyHostToDevice));
            EXPECT_NCCL(
                ncclAllReduce(buffers[i], buffers[i], 1, ncclInt32, ncclProd, comms[i], nullptr));
          }
          EXPECT_NCCL(ncclGroupEnd());
          for (int i = 0; i < 4; ++i) {
            EXPECT_CUDA(cudaSetDevice(i));
            EXPECT_CUDA(cudaDeviceSynchronize());
            int product = 0;
            EXPECT_CUDA(cudaMemcpy(&product, buffers[i], 4, cudaMemcpyDeviceToHost));
            EXPECT(product == 24);
            EXPECT_NCCL(ncclCommDestroy(comms[i]));
          }
        }) == kAllWell);
}

TEST_CASE("several ranks per process join in one group, next to other processes", "[nccl]") {
  CHECK(run(3, 60, [](const Rank& self) {
          const ncclUniqueId id = self.unique_id();
          ncclComm_t comms[2];
          EXPECT_NCCL(ncclGroupStart());
          for (int i = 0; i < 2; ++i) {
            EXPECT_CUDA(cudaSetDevice(self.rank * 2 + i));
            EXPECT_NCCL(ncclCommInitRank(&comms[i], 6, id, self.rank * 2 + i));
          }
          EXPECT_NCCL(ncclGroupEnd());
          std::thread other([&] {
            cudaSetDevice(self.rank * 2);
            if (sum_of_ranks(comms[0], nullptr) != 21) _exit(3);
          });
          EXPECT(sum_of_ranks(comms[1], nullptr) == 21);
          other.join();
          EXPECT_NCCL(ncclCommDestroy(comms[0]));
          EXPECT_NCCL(ncclCommDestroy(comms[1]));
        }) == kAllWell);
}

TEST_CASE("a non-blocking communicator says in progress until all ranks came", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
          config.blocking = 0;
          const ncclUniqueId id = self.unique_id();
          if (self.rank == 1) self.await(0, 1);
          ncclComm_t comm = nullptr;
          EXPECT(ncclCommInitRankConfig(&comm, 2, id, self.rank, &config) == ncclInProgress);
          EXPECT(comm != nullptr);
          if (self.rank == 0) {
            expect_in_progress(comm);
            self.raise(0);
          }
          EXPECT_NCCL(settled(comm, ncclInProgress));
          EXPECT(sum_of_ranks(comm, nullptr) == 3);
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("a group of a non-blocking communicator is in progress when its end comes back",
          "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = join_without_blocking(self);
          int* const sum = on_gpu(1);
          for (int step = 0; step < 3; ++step) {
            EXPECT_NCCL(ncclGroupStart());
            EXPECT_NCCL(ncclAllReduce(sum, sum, 1, ncclInt32, ncclSum, comm, nullptr));
            EXPECT(ncclGroupEnd() == ncclInProgress);
            EXPECT_NCCL(settled(comm, ncclInProgress));
          }
          EXPECT_CUDA(cudaDeviceSynchronize());
          EXPECT(value_of(sum) == 8);
          EXPECT_NCCL(settled(comm, ncclCommFinalize(comm)));
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("blocking and non-blocking communicators are refused in one group", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t one = join_without_blocking(self);
          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
          config.blocking = 1;
          ncclComm_t other = nullptr;
          EXPECT_NCCL(ncclCommSplit(one, 0, self.rank, &other, &config));
          EXPECT_NCCL(settled(one, ncclInProgress));
          int buffer = 0;
          EXPECT_NCCL(ncclGroupStart());
          EXPECT_NCCL(ncclAllReduce(&buffer, &buffer, 1, ncclInt32, ncclSum, one, nullptr));
          EXPECT_NCCL(ncclAllReduce(&buffer, &buffer, 1, ncclInt32, ncclSum, other, nullptr));
          EXPECT(ncclGroupEnd() == ncclInvalidArgument);
          EXPECT_NCCL(ncclCommDestroy(one));
          EXPECT_NCCL(ncclCommDestroy(other));
        }) == kAllWell);
}

TEST_CASE("a part of a non-blocking communicator has a handle when that one is through with it",
          "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = join_without_blocking(self);
          if (self.rank == 1) self.await(0, 1);
          ncclComm_t part = comm;
          EXPECT_NCCL(ncclCommSplit(comm, 0, self.rank, &part, nullptr));
          if (self.rank == 0) {
            EXPECT(part == nullptr);
            expect_in_progress(comm);
            self.raise(0);
          }
          EXPECT_NCCL(settled(comm, ncclInProgress));
          EXPECT(part != nullptr && part != comm);
          EXPECT_NCCL(settled(part, ncclInProgress));
          EXPECT(sum_of_ranks(part, nullptr) == 3);
          EXPECT_NCCL(ncclCommDestroy(part));
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("what a non-blocking communicator launches in a capture is in the graph", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = join_without_blocking(self);
          cudaStream_t stream = nullptr;
          EXPECT_CUDA(cudaStreamCreate(&stream));
          int* const sum = on_gpu(1);
          EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
          EXPECT_NCCL(settled(comm, ncclAllReduce(sum, sum, 1, ncclInt32, ncclSum, comm, stream)));
          cudaGraph_t graph = nullptr;
          cudaGraphExec_t executable = nullptr;
          EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
          EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
          for (int replay = 0; replay < 3; ++replay)
            EXPECT_CUDA(cudaGraphLaunch(executable, stream));
          EXPECT_CUDA(cudaStreamSynchronize(stream));
          EXPECT(value_of(sum) == 8);
          EXPECT_CUDA(cudaGraphExecDestroy(executable));
          EXPECT_CUDA(cudaGraphDestroy(graph));
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("an initialisation that waits for a rank that never comes can be aborted", "[nccl]") {
  CHECK(run(1, 60, [](const Rank& self) {
          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
          config.blocking = 0;
          ncclComm_t comm = nullptr;
          EXPECT(ncclCommInitRankConfig(&comm, 2, self.unique_id(), 0, &config) == ncclInProgress);
          EXPECT_NCCL(ncclCommAbort(comm));
          ncclResult_t state = ncclSuccess;
          EXPECT(ncclCommGetAsyncError(comm, &state) == ncclInvalidArgument);
        }) == kAllWell);
}

TEST_CASE("ranks that disagree about the number of ranks wait for ever", "[nccl]") {
  Shared* shared = nullptr;
  const std::vector<int> processes = start(2, &shared, [](const Rank& self) {
    const ncclUniqueId id = self.unique_id();
    self.barrier();
    self.raise(0);
    ncclComm_t comm = nullptr;
    ncclCommInitRank(&comm, 2 + self.rank, id, self.rank);
    self.raise(1);
  });
  while (shared->flags[0].load() < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(shared->flags[1].load() == 0);
  kill_and_reap(processes);
}

TEST_CASE("two ranks on one GPU are refused unless it is allowed", "[nccl]") {
  const auto body = [](const Rank& self) {
    EXPECT_CUDA(cudaSetDevice(0));
    const ncclUniqueId id = self.unique_id();
    ncclComm_t comm = nullptr;
    const ncclResult_t result = ncclCommInitRank(&comm, 2, id, self.rank);
    self.shared->numbers[self.rank].store(result);
    EXPECT(result ==
           (getenv("NCCL_MULTI_RANK_GPU_ENABLE") != nullptr ? ncclSuccess : ncclInvalidUsage));
  };
  CHECK(run(2, 60, body) == kAllWell);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  CHECK(run(2, 60, body) == kAllWell);
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST_CASE("split orders by key, leaves out ranks without colour, and can be repeated", "[nccl]") {
  CHECK(run(6, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          for (int round = 0; round < 3; ++round) {
            // Ranks 0 and 5 stay out; even and odd apart, in reverse order.
            const bool out = self.rank == 0 || self.rank == 5;
            ncclComm_t child = comm;
            EXPECT_NCCL(ncclCommSplit(comm, out ? NCCL_SPLIT_NOCOLOR : self.rank % 2, -self.rank,
                                      &child, nullptr));
            EXPECT(out == (child == nullptr));
            if (out) continue;
            int value = -1;
            EXPECT_NCCL(ncclCommCount(child, &value));
            EXPECT(value == 2);
            EXPECT_NCCL(ncclCommUserRank(child, &value));
            EXPECT(value == (self.rank >= 3 ? 0 : 1));
            EXPECT(sum_of_ranks(child, nullptr) == 3);
            EXPECT_NCCL(ncclCommDestroy(child));
          }
          EXPECT(sum_of_ranks(comm, nullptr) == 21);
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("a split waits for every rank of the parent", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          if (self.rank == 1) {
            self.await(0, 1);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            EXPECT(self.shared->flags[1].load() == 0);
            self.raise(2);
          } else {
            self.raise(0);
          }
          ncclComm_t child = nullptr;
          EXPECT_NCCL(ncclCommSplit(comm, 0, 0, &child, nullptr));
          if (self.rank == 0) self.raise(1);
          EXPECT(self.shared->flags[2].load() == 1);
          EXPECT(sum_of_ranks(child, nullptr) == 3);
        }) == kAllWell);
}

TEST_CASE("shrink goes on with the ranks that remain after one died", "[nccl]") {
  CHECK(run(3, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          if (self.rank == 1) _exit(0);
          int excluded[] = {1};
          ncclComm_t smaller = nullptr;
          EXPECT_NCCL(ncclCommShrink(comm, excluded, 1, &smaller, nullptr, NCCL_SHRINK_ABORT));
          int value = -1;
          EXPECT_NCCL(ncclCommUserRank(smaller, &value));
          EXPECT(value == (self.rank == 0 ? 0 : 1));
          EXPECT(sum_of_ranks(smaller, nullptr) == 3);
          EXPECT_NCCL(ncclCommDestroy(smaller));
          EXPECT_NCCL(ncclCommAbort(comm));
        }) == kAllWell);
}

TEST_CASE("grow takes new ranks in", "[nccl]") {
  CHECK(run(3, 60, [](const Rank& self) {
          // Ranks 0 and 1 are there first.
          ncclComm_t comm = nullptr;
          const ncclUniqueId id = self.unique_id();
          if (self.rank < 2) EXPECT_NCCL(ncclCommInitRank(&comm, 2, id, self.rank));
          static_assert(sizeof(ncclUniqueId) <= sizeof(self.shared->messages[0]));
          ncclUniqueId grow_id;
          char* const mailbox = self.shared->messages[63];
          if (self.rank == 0) {
            EXPECT_NCCL(ncclCommGetUniqueId(comm, &grow_id));
            std::memcpy(mailbox, &grow_id, sizeof(grow_id));
            self.raise(0);
          }
          if (self.rank == 2) {
            self.await(0, 1);
            std::memcpy(&grow_id, mailbox, sizeof(grow_id));
          }
          ncclComm_t larger = nullptr;
          EXPECT_NCCL(ncclCommGrow(comm, 3, self.rank == 1 ? nullptr : &grow_id,
                                   self.rank == 2 ? 2 : -1, &larger, nullptr));
          EXPECT(sum_of_ranks(larger, nullptr) == 6);
        }) == kAllWell);
}

TEST_CASE("a communicator does not end before the graphs that hold its kernels", "[nccl]") {
  for (const auto end : {ncclCommFinalize, ncclCommDestroy, ncclCommAbort}) {
    CHECK(run(2, 60, [end](const Rank& self) {
            const ncclComm_t comm = self.join();
            void* buffer = nullptr;
            EXPECT_CUDA(cudaMalloc(&buffer, 4));
            cudaStream_t stream;
            EXPECT_CUDA(cudaStreamCreate(&stream));
            cudaGraph_t graph;
            cudaGraphExec_t exec;
            EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
            EXPECT_NCCL(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, comm, stream));
            EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
            EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
            EXPECT_CUDA(cudaGraphLaunch(exec, stream));
            EXPECT_CUDA(cudaStreamSynchronize(stream));
            auto ended = std::async(std::launch::async, end, comm);
            const auto has_ended = [&] {
              return ended.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
            };
            EXPECT(!has_ended());
            EXPECT_CUDA(cudaGraphDestroy(graph));
            EXPECT(!has_ended());
            EXPECT_CUDA(cudaGraphExecDestroy(exec));
            EXPECT_NCCL(ended.get());
          }) == kAllWell);
  }
}

TEST_CASE("handles that are gone, null or foreign are refused, not followed", "[nccl]") {
  CHECK(run(1, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          int value = 0;
          EXPECT(ncclCommCount(nullptr, &value) == ncclInvalidArgument);
          EXPECT(ncclCommCount(reinterpret_cast<ncclComm_t>(&value), &value) ==
                 ncclInvalidArgument);
          EXPECT(ncclCommCount(comm, nullptr) == ncclInvalidArgument);
          EXPECT_NCCL(ncclCommDestroy(comm));
          EXPECT(ncclCommCount(comm, &value) == ncclInvalidArgument);
          EXPECT(std::strstr(ncclGetLastError(nullptr), "ncclCommCount") != nullptr);
          EXPECT_NCCL(ncclCommDestroy(nullptr));
          ncclUniqueId nonsense = {};
          ncclComm_t none = nullptr;
          EXPECT(ncclCommInitRank(&none, 1, nonsense, 0) == ncclInvalidArgument);
          EXPECT(ncclCommInitRank(&none, 2, self.shared->id, 2) == ncclInvalidArgument);
          EXPECT(ncclGroupEnd() == ncclInvalidUsage);
          int version = 0;
          EXPECT_NCCL(ncclGetVersion(&version));
          EXPECT(version == 23007);
        }) == kAllWell);
}

TEST_CASE("nothing remains in shared memory when all processes are killed", "[nccl]") {
  const std::set<std::string> before = shared_memory_files();
  Shared* shared = nullptr;
  const std::vector<int> processes = start(4, &shared, [](const Rank& self) {
    const ncclComm_t comm = self.join();
    sum_of_ranks(comm, nullptr);
    self.raise(0);
    if (self.rank != 0) sum_of_ranks(comm, nullptr);  // hangs: rank 0 does not take part
    for (;;) pause();
  });
  while (shared->flags[0].load() < 4) std::this_thread::yield();
  kill_and_reap(processes);
  std::vector<std::string> added;
  const std::set<std::string> after = shared_memory_files();
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(added));
  // Other tests may run beside this one; the emulator's files would bear its name.
  std::erase_if(added,
                [](const std::string& name) { return name.find("rollcall") == std::string::npos; });
  CHECK(added.empty());
}
