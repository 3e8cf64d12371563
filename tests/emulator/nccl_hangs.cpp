// What hangs on the real library must hang here, and only that; an abort must release it.
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/catch.h"
#include "tests/emulator/nccl_world.h"

using namespace nccl_world;

namespace {

struct Buffers {
  float* data = nullptr;
  cudaStream_t stream = nullptr;
  Buffers() {
    EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), 4096));
    EXPECT_CUDA(cudaMemset(data, 1, 4096));
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
};

// Both ranks enqueue something, say so, and see whether it ends; then both abort and see that it
// does.
void expect_hang(const Rank& self,
                 const std::function<void(const Rank&, ncclComm_t, Buffers&)>& call) {
  const ncclComm_t comm = self.join();
  Buffers buffers;
  call(self, comm, buffers);
  self.barrier();  // all have enqueued all there will be
  EXPECT(!ends_within(buffers.stream, 150));
  self.barrier();
  EXPECT_NCCL(ncclCommAbort(comm));
  EXPECT(ends_within(buffers.stream, 30000));
}

void expect_end(const Rank& self,
                const std::function<void(const Rank&, ncclComm_t, Buffers&)>& call) {
  const ncclComm_t comm = self.join();
  Buffers buffers;
  call(self, comm, buffers);
  EXPECT(ends_within(buffers.stream, 30000));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

}  // namespace

TEST_CASE("a collective waits for the rank that does not call it", "[nccl]") {
  CHECK(run(3, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          Buffers buffers;
          if (self.rank == 2) {
            self.await(0, 2);  // the others saw that it does not end without us
          }
          EXPECT_NCCL(ncclAllReduce(buffers.data, buffers.data, 16, ncclFloat32, ncclSum, comm,
                                    buffers.stream));
          if (self.rank != 2) {
            EXPECT(!ends_within(buffers.stream, 150));
            self.raise(0);
          }
          EXPECT(ends_within(buffers.stream, 30000));
        }) == kAllWell);
}

TEST_CASE("different operations hang", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& all) {
          expect_hang(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            if (self.rank == 0) {
              EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
            } else {
              EXPECT_NCCL(ncclBroadcast(b.data, b.data, 16, ncclFloat32, 0, comm, b.stream));
            }
          });
        }) == kAllWell);
}

TEST_CASE("different byte counts hang", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& all) {
          expect_hang(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, self.rank == 0 ? 16 : 17, ncclFloat32,
                                      ncclSum, comm, b.stream));
          });
        }) == kAllWell);
}

TEST_CASE("a datatype of other size hangs, one of equal bytes goes through", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& all) {
          expect_hang(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16,
                                      self.rank == 0 ? ncclFloat32 : ncclFloat16, ncclSum, comm,
                                      b.stream));
          });
        }) == kAllWell);
  CHECK(run(2, 60, [](const Rank& all) {
          expect_end(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, self.rank == 0 ? 16 : 32,
                                      self.rank == 0 ? ncclFloat32 : ncclFloat16, ncclSum, comm,
                                      b.stream));
          });
        }) == kAllWell);
}

TEST_CASE("different roots hang, different reductions go through", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& all) {
          expect_hang(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            EXPECT_NCCL(ncclBroadcast(b.data, b.data, 16, ncclFloat32, self.rank, comm, b.stream));
          });
        }) == kAllWell);
  CHECK(run(2, 60, [](const Rank& all) {
          expect_end(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32,
                                      self.rank == 0 ? ncclSum : ncclMax, comm, b.stream));
          });
        }) == kAllWell);
}

TEST_CASE("an empty operation is discarded, so that a rank alone does not wait", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& all) {
          expect_end(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            if (self.rank == 0)
              EXPECT_NCCL(ncclAllReduce(b.data, b.data, 0, ncclFloat32, ncclSum, comm, b.stream));
          });
        }) == kAllWell);
}

TEST_CASE("two communicators in opposite order on one stream deadlock", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t one = self.join();
          ncclComm_t two = nullptr;
          EXPECT_NCCL(ncclCommSplit(one, 0, 0, &two, nullptr));
          Buffers b;
          for (int i = 0; i < 2; ++i) {
            const ncclComm_t comm = (i == 0) == (self.rank == 0) ? one : two;
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
          }
          self.barrier();
          EXPECT(!ends_within(b.stream, 150));
          self.barrier();
          EXPECT_NCCL(ncclCommAbort(one));
          EXPECT_NCCL(ncclCommAbort(two));
          EXPECT(ends_within(b.stream, 30000));
        }) == kAllWell);
}

TEST_CASE("two communicators in opposite order on two streams do not deadlock", "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t one = self.join();
          ncclComm_t two = nullptr;
          EXPECT_NCCL(ncclCommSplit(one, 0, 0, &two, nullptr));
          Buffers b[2];
          for (int i = 0; i < 2; ++i) {
            const ncclComm_t comm = (i == 0) == (self.rank == 0) ? one : two;
            EXPECT_NCCL(
                ncclAllReduce(b[i].data, b[i].data, 16, ncclFloat32, ncclSum, comm, b[i].stream));
          }
          EXPECT(ends_within(b[0].stream, 30000));
          EXPECT(ends_within(b[1].stream, 30000));
        }) == kAllWell);
}

TEST_CASE("operations of one communicator run in the order of the calls, whatever their streams",
          "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          Buffers b[2];
          // The first call's stream is held up by a host function; the second must wait for the
          // first.
          EXPECT_CUDA(cudaLaunchHostFunc(
              b[0].stream,
              [](void* shared) {
                while (static_cast<Shared*>(shared)->flags[0].load() < 2) std::this_thread::yield();
              },
              self.shared));
          EXPECT_NCCL(
              ncclAllReduce(b[0].data, b[0].data, 16, ncclFloat32, ncclSum, comm, b[0].stream));
          EXPECT_NCCL(ncclBroadcast(b[1].data, b[1].data, 16, ncclFloat32, 0, comm, b[1].stream));
          EXPECT(!ends_within(b[1].stream, 100));
          self.raise(0);
          EXPECT(ends_within(b[1].stream, 30000));
        }) == kAllWell);
}

TEST_CASE("after an abort the others hang and are told of a remote error", "[nccl]") {
  CHECK(run(3, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          Buffers b;
          ncclResult_t state = ncclInternalError;
          EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
          EXPECT(state == ncclSuccess);
          if (self.rank != 2) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
            EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
            EXPECT(state == ncclSuccess);
          }
          self.barrier();
          if (self.rank == 2) {
            EXPECT_NCCL(ncclCommAbort(comm));
            self.raise(0);
            return;
          }
          self.await(0, 1);
          EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
          EXPECT(state == ncclRemoteError);
          EXPECT(!ends_within(b.stream, 100));
          EXPECT_NCCL(ncclCommAbort(comm));
          EXPECT(ends_within(b.stream, 30000));
        }) == kAllWell);
}

TEST_CASE("the death of a process leaves the others waiting, or tells them if asked to", "[nccl]") {
  const auto body = [](const Rank& self) {
    const ncclComm_t comm = self.join();
    Buffers b;
    if (self.rank == 1) {
      self.shared->numbers[0].store(getpid());
      _exit(0);
    }
    EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
    EXPECT(!ends_within(b.stream, 200));
    ncclResult_t state = ncclInternalError;
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT(state ==
           (getenv("ROLLCALL_EMULATE_PEER_DEATH") != nullptr ? ncclRemoteError : ncclSuccess));
    EXPECT_NCCL(ncclCommAbort(comm));
    EXPECT(ends_within(b.stream, 30000));
  };
  CHECK(run(2, 60, body) == kAllWell);
  setenv("ROLLCALL_EMULATE_PEER_DEATH", "error", 1);
  CHECK(run(2, 60, body) == kAllWell);
  unsetenv("ROLLCALL_EMULATE_PEER_DEATH");
}

TEST_CASE(
    "revoke ends what is under way and leaves a communicator that can only be shrunk or destroyed",
    "[nccl]") {
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          Buffers b;
          if (self.rank == 0) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
            EXPECT(!ends_within(b.stream, 100));
          }
          EXPECT_NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
          EXPECT(ends_within(b.stream, 30000));
          EXPECT(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream) ==
                 ncclInvalidUsage);
          EXPECT_NCCL(ncclCommDestroy(comm));
        }) == kAllWell);
}

TEST_CASE("faults come from the environment, at the rank and call that it names", "[nccl]") {
  setenv("ROLLCALL_EMULATE_FAULT", "skip@1:1", 1);
  CHECK(run(2, 60, [](const Rank& all) {
          expect_hang(all, [](const Rank& self, ncclComm_t comm, Buffers& b) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
            EXPECT(ends_within(b.stream, 30000));
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
            // Rank 1 did nothing; give it a stream that does not end either.
            if (self.rank == 1)
              EXPECT_NCCL(ncclBroadcast(b.data, b.data, 16, ncclFloat32, 0, comm, b.stream));
          });
        }) == kAllWell);
  setenv("ROLLCALL_EMULATE_FAULT", "wrong-count@0:0", 1);
  CHECK(run(2, 60, [](const Rank& all) {
          expect_hang(all, [](const Rank&, ncclComm_t comm, Buffers& b) {
            EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
          });
        }) == kAllWell);
  setenv("ROLLCALL_EMULATE_FAULT", "kill@1:0", 1);
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          Buffers b;
          if (self.rank == 0) return;
          ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream);
        }) == "rank 1: signal 9\n");
  setenv("ROLLCALL_EMULATE_FAULT", "delay=300@1:0", 1);
  CHECK(run(2, 60, [](const Rank& self) {
          const ncclComm_t comm = self.join();
          Buffers b;
          self.barrier();
          const auto before = std::chrono::steady_clock::now();
          EXPECT_NCCL(ncclAllReduce(b.data, b.data, 16, ncclFloat32, ncclSum, comm, b.stream));
          EXPECT(ends_within(b.stream, 30000));
          EXPECT(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(250));
        }) == kAllWell);
  unsetenv("ROLLCALL_EMULATE_FAULT");
}
