#include <chrono>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"
#include "tests/catch.h"
#include "tests/emulator/device_gate.h"

namespace {

cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, flags) == cudaSuccess);
  return stream;
}

cudaEvent_t make_event(unsigned flags = cudaEventDefault) {
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, flags) == cudaSuccess);
  return event;
}

void append_one(void* list) {
  auto* numbers = static_cast<std::vector<int>*>(list);
  numbers->push_back(static_cast<int>(numbers->size()));
}

}  // namespace

TEST_CASE("work that never finishes blocks neither the host nor other streams") {
  Gate gate;
  const cudaStream_t stuck = make_stream();
  const cudaStream_t other = make_stream();
  const cudaEvent_t behind = make_event();
  gate.put_on(stuck);
  REQUIRE(cudaEventRecord(behind, stuck) == cudaSuccess);
  CHECK(cudaEventQuery(behind) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(stuck) == cudaErrorNotReady);
  std::vector<int> ran;
  REQUIRE(cudaLaunchHostFunc(other, append_one, &ran) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
  CHECK(ran.size() == 1);
  CHECK(cudaEventQuery(behind) == cudaErrorNotReady);
  CHECK(gate.released == 0);
  gate.open = true;
  emu_wake();
  REQUIRE(cudaStreamSynchronize(stuck) == cudaSuccess);
  CHECK(cudaEventQuery(behind) == cudaSuccess);
  CHECK(gate.released == 1);
  CHECK(cudaStreamDestroy(stuck) == cudaSuccess);
  CHECK(cudaStreamDestroy(other) == cudaSuccess);
  CHECK(cudaStreamDestroy(other) == cudaErrorInvalidResourceHandle);
  cudaEventDestroy(behind);
}

TEST_CASE("a stream runs its work in the order in which it was given") {
  const cudaStream_t stream = make_stream();
  Gate gate;
  int value = 0;
  int copied[3] = {-1, -1, -1};
  gate.put_on(stream);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(cudaLaunchHostFunc(
                stream, [](void* number) { ++*static_cast<int*>(number); }, &value) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(&copied[i], &value, sizeof value, cudaMemcpyDefault, stream) ==
            cudaSuccess);
  }
  CHECK(copied[0] == -1);
  gate.open = true;
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(copied[0] == 1);
  CHECK(copied[1] == 2);
  CHECK(copied[2] == 3);
  cudaStreamDestroy(stream);
}

TEST_CASE("a stream that waits for an event starts after it, and only then") {
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  const cudaEvent_t event = make_event(cudaEventDisableTiming);
  Gate gate;
  std::vector<int> ran;
  gate.put_on(first);
  REQUIRE(cudaEventRecord(event, first) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(second, event, 0) == cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(second, append_one, &ran) == cudaSuccess);
  CHECK(cudaStreamQuery(second) == cudaErrorNotReady);
  CHECK(ran.empty());
  gate.open = true;
  REQUIRE(cudaStreamSynchronize(second) == cudaSuccess);
  CHECK(ran.size() == 1);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaEventDestroy(event);
}

TEST_CASE("the time between two events covers the work between them") {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t start = make_event();
  const cudaEvent_t end = make_event();
  const cudaEvent_t untimed = make_event(cudaEventDisableTiming);
  Gate gate;
  gate.open = true;
  emu_work work = gate.work();
  work.duration_ns = 5'000'000;
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventRecord(start, stream) == cudaSuccess);
  REQUIRE(emu_stream_enqueue(stream, &work, nullptr) == 0);
  REQUIRE(cudaEventRecord(end, stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(untimed, stream) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorNotReady);
  REQUIRE(cudaEventSynchronize(end) == cudaSuccess);
  REQUIRE(cudaEventElapsedTime(&milliseconds, start, end) == cudaSuccess);
  CHECK(milliseconds >= 5.0f);
  CHECK(milliseconds < 5000.0f);
  REQUIRE(cudaEventSynchronize(untimed) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, start, untimed) == cudaErrorInvalidResourceHandle);
  cudaStreamDestroy(stream);
  for (cudaEvent_t event : {start, end, untimed}) cudaEventDestroy(event);
}

TEST_CASE("the legacy default stream and blocking streams wait for each other") {
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  const cudaStream_t free = make_stream(cudaStreamNonBlocking);
  Gate gate;
  std::vector<int> on_default;
  std::vector<int> on_free;
  gate.put_on(blocking);
  REQUIRE(cudaLaunchHostFunc(nullptr, append_one, &on_default) == cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(free, append_one, &on_free) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(free) == cudaSuccess);
  CHECK(on_free.size() == 1);
  CHECK(on_default.empty());
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  gate.open = true;
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(on_default.size() == 1);

  Gate default_gate;
  std::vector<int> on_blocking;
  default_gate.put_on(nullptr);
  REQUIRE(cudaLaunchHostFunc(blocking, append_one, &on_blocking) == cudaSuccess);
  CHECK(cudaStreamQuery(blocking) == cudaErrorNotReady);
  CHECK(on_blocking.empty());
  default_gate.open = true;
  REQUIRE(cudaStreamSynchronize(blocking) == cudaSuccess);
  CHECK(on_blocking.size() == 1);
  cudaStreamDestroy(blocking);
  cudaStreamDestroy(free);
}

TEST_CASE("every thread has a default stream of its own under the per-thread handle") {
  Gate gate;
  gate.put_on(cudaStreamPerThread);
  CHECK(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
  cudaError_t seen = cudaErrorUnknown;
  std::thread([&] { seen = cudaStreamQuery(cudaStreamPerThread); }).join();
  CHECK(seen == cudaSuccess);
  gate.open = true;
  CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
}

TEST_CASE("streams that wait for long are polled rarely") {
  const cudaStream_t stream = make_stream();
  Gate gate;
  gate.put_on(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // An eighth of the time waited, at most every 20 ms: some 60 looks early and fewer later.
  CHECK(gate.polls < 3000);
  while (gate.polls <= 10) std::this_thread::yield();
  gate.open = true;
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  cudaStreamDestroy(stream);
}

TEST_CASE("a host function that blocks does not keep other streams from running") {
  const cudaStream_t waiting = make_stream();
  const cudaStream_t telling = make_stream();
  std::atomic<bool> told{false};
  REQUIRE(cudaLaunchHostFunc(
              waiting,
              [](void* flag) {
                while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
              },
              &told) == cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(
              telling, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &told) ==
          cudaSuccess);
  CHECK(cudaStreamSynchronize(waiting) == cudaSuccess);
  cudaStreamDestroy(waiting);
  cudaStreamDestroy(telling);
}

TEST_CASE("work that fails leaves the device failed, drops what waits and spares other devices") {
  constexpr int kDevice = 5;
  REQUIRE(cudaSetDevice(kDevice) == cudaSuccess);
  const cudaStream_t stream = make_stream();
  Gate gate;
  Gate dropped;
  const emu_work failing = gate.work(2);
  REQUIRE(emu_stream_enqueue(stream, &failing, nullptr) == 0);
  dropped.put_on(stream);
  gate.open = true;
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaMemsetAsync(stream, 0, 0, stream) == cudaSuccess);
  CHECK(cudaLaunchHostFunc(
            stream, [](void*) {}, nullptr) == cudaErrorLaunchFailure);
  CHECK(gate.released == 1);
  CHECK(dropped.released == 1);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaSetDevice(kDevice) == cudaSuccess);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  cudaGetLastError();
}
