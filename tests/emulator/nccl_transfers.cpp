// Sends, receives, and groups.
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/emulator/nccl_world.h"

using namespace nccl_world;

namespace {

constexpr size_t kLarge = 3'000'017;  // bytes: many times the ring between two ranks

uint8_t* device_bytes(size_t bytes, int seed) {
  uint8_t* memory = nullptr;
  EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory), bytes));
  std::vector<uint8_t> host(bytes);
  for (size_t i = 0; i < bytes; ++i) host[i] = static_cast<uint8_t>(i * 7 + seed * 31 + (i >> 11));
  EXPECT_CUDA(cudaMemcpy(memory, host.data(), bytes, cudaMemcpyHostToDevice));
  return memory;
}

bool holds(const uint8_t* memory, size_t bytes, int seed) {
  std::vector<uint8_t> host(bytes);
  EXPECT_CUDA(cudaMemcpy(host.data(), memory, bytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < bytes; ++i) {
    if (host[i] != static_cast<uint8_t>(i * 7 + seed * 31 + (i >> 11))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a send reaches its receive whatever its size", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          for (const size_t bytes :
               {size_t{1}, size_t{4096}, size_t{131072}, size_t{131073}, kLarge}) {
            uint8_t* const memory = device_bytes(bytes, self.rank);
            if (self.rank == 0) {
              EXPECT_NCCL(ncclSend(memory, bytes, ncclUint8, 1, comm, nullptr));
            } else {
              EXPECT_NCCL(ncclRecv(memory, bytes, ncclUint8, 0, comm, nullptr));
            }
            EXPECT_CUDA(cudaStreamSynchronize(nullptr));
            EXPECT(holds(memory, bytes, 0));
          }
        }) == kAllWell);
}

TEST_CASE("grouped sends and receives form a ring without deadlock", "[nccl]") {
  CHECK(run(4, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          uint8_t* const out = device_bytes(kLarge, self.rank);
          uint8_t* const in = device_bytes(kLarge, 99);
          EXPECT_NCCL(ncclGroupStart());
          EXPECT_NCCL(ncclSend(out, kLarge, ncclUint8, (self.rank + 1) % 4, comm, nullptr));
          EXPECT_NCCL(ncclRecv(in, kLarge, ncclUint8, (self.rank + 3) % 4, comm, nullptr));
          EXPECT(cudaStreamQuery(nullptr) == cudaSuccess);  // nothing enqueued before the end
          EXPECT_NCCL(ncclGroupEnd());
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          EXPECT(holds(in, kLarge, (self.rank + 3) % 4));
        }) == kAllWell);
}

TEST_CASE("the same ring without groups deadlocks", "[nccl]") {
  CHECK(run(3, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          uint8_t* const memory = device_bytes(64, self.rank);
          EXPECT_NCCL(ncclSend(memory, 64, ncclUint8, (self.rank + 1) % 3, comm, nullptr));
          EXPECT_NCCL(ncclRecv(memory, 64, ncclUint8, (self.rank + 2) % 3, comm, nullptr));
          self.barrier();
          EXPECT(!ends_within(nullptr, 150));
          self.barrier();
          EXPECT_NCCL(ncclCommAbort(comm));
          EXPECT(ends_within(nullptr, 30000));
        }) == kAllWell);
}

TEST_CASE("with eager sends small rings do not deadlock", "[nccl]") {
  setenv("ROLLCALL_EMULATE_EAGER_BYTES", "64", 1);
  CHECK(run(3, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          uint8_t* const out = device_bytes(64, self.rank);
          uint8_t* const in = device_bytes(64, 99);
          EXPECT_NCCL(ncclSend(out, 64, ncclUint8, (self.rank + 1) % 3, comm, nullptr));
          EXPECT_NCCL(ncclRecv(in, 64, ncclUint8, (self.rank + 2) % 3, comm, nullptr));
          EXPECT(ends_within(nullptr, 30000));
          EXPECT(holds(in, 64, (self.rank + 2) % 3));
        }) == kAllWell);
  unsetenv("ROLLCALL_EMULATE_EAGER_BYTES");
}

TEST_CASE("messages between two ranks match in order, also several in one group", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          uint8_t* memory[6];
          for (int i = 0; i < 6; ++i)
            memory[i] = device_bytes(200'000 + i, self.rank == 0 ? i : 99);
          EXPECT_NCCL(ncclGroupStart());
          for (int i = 0; i < 6; ++i) {
            if (self.rank == 0)
              EXPECT_NCCL(ncclSend(memory[i], 200'000 + i, ncclUint8, 1, comm, nullptr));
            if (self.rank == 1)
              EXPECT_NCCL(ncclRecv(memory[i], 200'000 + i, ncclUint8, 0, comm, nullptr));
          }
          EXPECT_NCCL(ncclGroupEnd());
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          for (int i = 0; i < 6; ++i) EXPECT(holds(memory[i], 200'000 + i, i));
        }) == kAllWell);
}

TEST_CASE("a rank can send to itself in a group", "[nccl]") {
  CHECK(run(1, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          uint8_t* const out = device_bytes(kLarge, 1);
          uint8_t* const in = device_bytes(kLarge, 2);
          EXPECT_NCCL(ncclGroupStart());
          EXPECT_NCCL(ncclSend(out, kLarge, ncclUint8, 0, comm, nullptr));
          EXPECT_NCCL(ncclRecv(in, kLarge, ncclUint8, 0, comm, nullptr));
          EXPECT_NCCL(ncclGroupEnd());
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          EXPECT(holds(in, kLarge, 1));
        }) == kAllWell);
}

TEST_CASE(
    "a send of more bytes than its receive takes hangs on both sides, and so does one of fewer",
    "[nccl]") {
  for (const int more : {1, -1}) {
    CHECK(run(2, 60, [more](const Rank& self) {
            const ncclComm_t comm = self.join();
            uint8_t* const memory = device_bytes(100, 0);
            if (self.rank == 0)
              EXPECT_NCCL(ncclSend(memory, 50 + more, ncclUint8, 1, comm, nullptr));
            if (self.rank == 1) EXPECT_NCCL(ncclRecv(memory, 50, ncclUint8, 0, comm, nullptr));
            self.barrier();
            EXPECT(!ends_within(nullptr, 150));
            self.barrier();
            EXPECT_NCCL(ncclCommAbort(comm));
            EXPECT(ends_within(nullptr, 30000));
          }) == kAllWell);
  }
}

TEST_CASE("a group over two communicators and two streams joins the streams", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t one = self.join();
          ncclComm_t two = nullptr;
          EXPECT_NCCL(ncclCommSplit(one, 0, 0, &two, nullptr));
          cudaStream_t a, b;
          EXPECT_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
          EXPECT_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
          uint8_t* memory[4];
          for (int i = 0; i < 4; ++i) memory[i] = device_bytes(1000, self.rank == 0 ? i : 99);
          EXPECT_NCCL(ncclGroupStart());
          EXPECT_NCCL(ncclBroadcast(memory[0], memory[0], 1000, ncclUint8, 0, one, a));
          EXPECT_NCCL(ncclBroadcast(memory[1], memory[1], 1000, ncclUint8, 0, two, b));
          EXPECT_NCCL(ncclBroadcast(memory[2], memory[2], 1000, ncclUint8, 0, one, b));
          EXPECT_NCCL(ncclBcast(memory[3], 1000, ncclUint8, 0, two, a));
          EXPECT_NCCL(ncclGroupEnd());
          EXPECT_CUDA(cudaStreamSynchronize(a));
          EXPECT_CUDA(cudaStreamSynchronize(b));
          for (int i = 0; i < 4; ++i) EXPECT(holds(memory[i], 1000, i));
        }) == kAllWell);
}

TEST_CASE("groups nest, and an error inside one cancels all of it", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          uint8_t* const out = device_bytes(16, 1);
          uint8_t* const in = device_bytes(16, 2);
          EXPECT_NCCL(ncclGroupStart());
          EXPECT_NCCL(ncclGroupStart());
          EXPECT_NCCL(ncclAllReduce(out, in, 16, ncclUint8, ncclMax, comm, nullptr));
          EXPECT_NCCL(ncclGroupEnd());
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          EXPECT(holds(in, 16, 2));
          EXPECT(ncclSend(out, 16, ncclUint8, 5, comm, nullptr) == ncclInvalidArgument);
          EXPECT(ncclGroupEnd() == ncclInvalidArgument);
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          EXPECT(holds(in, 16, 2));
          EXPECT_NCCL(ncclAllReduce(out, in, 16, ncclUint8, ncclMax, comm, nullptr));
          EXPECT_CUDA(cudaStreamSynchronize(nullptr));
          EXPECT(holds(in, 16, 1));
        }) == kAllWell);
}

TEST_CASE("a captured group computes anew at every replay", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          cudaStream_t stream;
          EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
          int* memory = nullptr;
          EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory), 4));
          cudaGraph_t graph;
          cudaGraphExec_t exec;
          EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
          EXPECT_NCCL(ncclAllReduce(memory, memory, 1, ncclInt32, ncclSum, comm, stream));
          EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
          EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
          const int one = 1;
          EXPECT_CUDA(cudaMemcpy(memory, &one, 4, cudaMemcpyHostToDevice));
          for (int i = 0; i < 5; ++i) EXPECT_CUDA(cudaGraphLaunch(exec, stream));
          EXPECT_CUDA(cudaStreamSynchronize(stream));
          int value = 0;
          EXPECT_CUDA(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost));
          EXPECT(value == 32);
          EXPECT_CUDA(cudaGraphExecDestroy(exec));
          EXPECT_CUDA(cudaGraphDestroy(graph));
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}
