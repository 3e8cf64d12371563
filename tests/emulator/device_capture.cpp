#include <atomic>
#include <thread>

#include "cuda.h"
#include "cuda_runtime_api.h"
#include "tests/catch.h"
#include "tests/emulator/device_gate.h"

namespace {

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

void add_one(void* number) { ++*static_cast<std::atomic<int>*>(number); }

struct Replayed {
  std::atomic<int> clones{0};
  std::atomic<int> polls{0};
  std::atomic<int> releases{0};
};

emu_work counted_work(Replayed* counts) {
  emu_work work = {};
  work.poll = [](void* argument) {
    ++static_cast<Replayed*>(argument)->polls;
    return 1;
  };
  work.release = [](void* argument) { ++static_cast<Replayed*>(argument)->releases; };
  work.argument = counts;
  return work;
}

void* count_clone(void* argument) {
  ++static_cast<Replayed*>(argument)->clones;
  return argument;
}

}  // namespace

TEST_CASE("captured work runs at each replay and not before") {
  const cudaStream_t stream = make_stream();
  std::atomic<int> calls{0};
  Replayed counts;
  const emu_work work = counted_work(&counts);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  uint64_t id = 0;
  CHECK(emu_stream_capturing(stream, &id) == 1);
  CHECK(id != 0);
  REQUIRE(cudaLaunchHostFunc(stream, add_one, &calls) == cudaSuccess);
  REQUIRE(emu_stream_enqueue(stream, &work, count_clone) == 0);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(emu_stream_capturing(stream, nullptr) == 0);
  size_t nodes = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 2);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(calls == 0);
  CHECK(counts.polls == 0);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(calls == 3);
  CHECK(counts.clones == 3);
  CHECK(counts.polls == 3);
  CHECK(counts.releases == 3);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(counts.releases == 3);  // the executable still has it
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(counts.releases == 4);
  cudaStreamDestroy(stream);
}

TEST_CASE("a second stream joins a capture through an event and its branch runs on its own") {
  const cudaStream_t main_stream = make_stream();
  const cudaStream_t side = make_stream();
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&join, cudaEventDisableTiming) == cudaSuccess);
  Gate gate;
  std::atomic<int> on_main{0};
  std::atomic<int> after{0};
  REQUIRE(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork, main_stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
  const emu_work gated = gate.work();
  REQUIRE(emu_stream_enqueue(side, &gated, [](void* same) { return same; }) == 0);
  REQUIRE(cudaLaunchHostFunc(main_stream, add_one, &on_main) == cudaSuccess);
  REQUIRE(cudaEventRecord(join, side) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(main_stream, join, 0) == cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(main_stream, add_one, &after) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamEndCapture(main_stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, main_stream) == cudaSuccess);
  while (on_main == 0) std::this_thread::yield();  // the main branch does not wait for the side
  CHECK(after == 0);
  CHECK(cudaStreamQuery(main_stream) == cudaErrorNotReady);
  gate.open = true;
  REQUIRE(cudaStreamSynchronize(main_stream) == cudaSuccess);
  CHECK(after == 1);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaStreamDestroy(side);
  cudaStreamDestroy(main_stream);
}

TEST_CASE("a branch that was not joined spoils the capture") {
  const cudaStream_t main_stream = make_stream();
  const cudaStream_t side = make_stream();
  cudaEvent_t fork = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
  std::atomic<int> calls{0};
  REQUIRE(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork, main_stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(side, add_one, &calls) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(main_stream, &graph) == cudaErrorStreamCaptureUnjoined);
  CHECK(graph == nullptr);
  CHECK(calls == 0);
  cudaEventDestroy(fork);
  cudaStreamDestroy(side);
  cudaStreamDestroy(main_stream);
  cudaGetLastError();
}

TEST_CASE("a stream that joined a capture may be destroyed, but its branch must be waited for") {
  for (const bool is_waited_for : {true, false}) {
    const cudaStream_t main_stream = make_stream();
    const cudaStream_t side = make_stream();
    cudaEvent_t fork = nullptr;
    cudaEvent_t join = nullptr;
    REQUIRE(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&join, cudaEventDisableTiming) == cudaSuccess);
    std::atomic<int> calls{0};
    REQUIRE(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    REQUIRE(cudaEventRecord(fork, main_stream) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
    REQUIRE(cudaLaunchHostFunc(side, add_one, &calls) == cudaSuccess);
    REQUIRE(cudaEventRecord(join, side) == cudaSuccess);
    REQUIRE(cudaStreamDestroy(side) == cudaSuccess);
    if (is_waited_for) REQUIRE(cudaStreamWaitEvent(main_stream, join, 0) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(main_stream, &graph) ==
          (is_waited_for ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
    CHECK((graph != nullptr) == is_waited_for);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    cudaStreamDestroy(main_stream);
    cudaGetLastError();
  }
}

TEST_CASE("nodes that a stream is given by hand need not be waited for, nor those it is rid of") {
  const cudaStream_t main_stream = make_stream();
  const cudaStream_t side = make_stream();
  cudaEvent_t fork = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
  std::atomic<int> calls{0};
  REQUIRE(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork, main_stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(side, add_one, &calls) == cudaSuccess);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph capturing = nullptr;
  REQUIRE(cuStreamGetCaptureInfo_v3(side, &status, nullptr, &capturing, nullptr, nullptr,
                                    nullptr) == CUDA_SUCCESS);
  CUgraphNode by_hand = nullptr;
  REQUIRE(cuGraphAddEventRecordNode(&by_hand, capturing, nullptr, 0, fork) == CUDA_SUCCESS);
  constexpr unsigned kReplace = 1;
  REQUIRE(cuStreamUpdateCaptureDependencies_v2(side, &by_hand, nullptr, 1, kReplace) ==
          CUDA_SUCCESS);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamEndCapture(main_stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, main_stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(main_stream) == cudaSuccess);
  CHECK(calls == 1);  // it is in the graph all the same
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(fork);
  cudaStreamDestroy(side);
  cudaStreamDestroy(main_stream);
}

TEST_CASE("calls that a global capture forbids fail and spoil it, unless the thread is relaxed") {
  const cudaStream_t stream = make_stream();
  cudaGraph_t graph = nullptr;
  void* memory = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == cudaStreamCaptureModeGlobal);
  CHECK(cudaMalloc(&memory, 4096) == cudaSuccess);
  REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  void* forbidden = nullptr;
  CHECK(cudaMalloc(&forbidden, 4096) == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusInvalidated);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaMalloc(&forbidden, 4096) == cudaSuccess);
  cudaFree(forbidden);
  cudaFree(memory);
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

TEST_CASE(
    "a query during a global capture fails and spoils it, from any thread but a relaxed one") {
  const cudaStream_t stream = make_stream();
  const cudaStream_t other = make_stream();
  cudaGraph_t graph = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, other) == cudaSuccess);
  const auto query = [&](bool is_relaxed) {
    cudaError_t answer = cudaErrorUnknown;
    std::thread([&] {
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      if (is_relaxed) cudaThreadExchangeStreamCaptureMode(&mode);
      while ((answer = cudaEventQuery(event)) == cudaErrorNotReady) std::this_thread::yield();
    }).join();
    return answer;
  };
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(query(true) == cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(query(false) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(query(false) == cudaSuccess);
  cudaEventDestroy(event);
  cudaStreamDestroy(other);
  cudaStreamDestroy(stream);
  cudaGetLastError();
}

TEST_CASE("words written by a stream are nodes of its capture, and registered memory holds them") {
  alignas(4096) static uint64_t words[512];
  const cudaStream_t stream = make_stream();
  REQUIRE(cuMemHostRegister(words, sizeof words, 1) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  REQUIRE(cuMemHostGetDevicePointer(&address, words, 0) == CUDA_SUCCESS);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cuStreamWriteValue64_v2(stream, address, 1, 0) == CUDA_SUCCESS);
  REQUIRE(cuStreamWriteValue64_v2(stream, address + 8, 2, 0) == CUDA_SUCCESS);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  size_t nodes = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 2);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(words[0] == 0);
  REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(words[0] == 1);
  CHECK(words[1] == 2);
  CHECK(cuMemHostUnregister(words) == CUDA_SUCCESS);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("a thread-local capture lets other threads do what they like") {
  const cudaStream_t stream = make_stream();
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] {
    void* memory = nullptr;
    elsewhere = cudaMalloc(&memory, 4096);
    cudaFree(memory);
  }).join();
  CHECK(elsewhere == cudaSuccess);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("waiting for a capturing stream, and the legacy stream beside one, are refused") {
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK(cudaStreamSynchronize(blocking) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorStreamCaptureInvalidated);
  REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK(cudaLaunchHostFunc(
            nullptr, [](void*) {}, nullptr) == cudaErrorStreamCaptureImplicit);
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaErrorIllegalState);
  cudaStreamDestroy(blocking);
  cudaGetLastError();
}
