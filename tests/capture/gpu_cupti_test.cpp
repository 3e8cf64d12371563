// CUPTI as a source of activity records, against a made-up libcupti: what it is asked for, what is
// done when it refuses, and what becomes of its buffers.
#include <cupti.h>
#include <time.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/gpu/cupti.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_cupti_test {

// What the made-up library was asked for, and what it answers.
struct Library {
  std::set<std::string> missing;
  std::map<CUpti_ActivityKind, CUptiResult> kind_results;
  CUptiResult subscribe_result = CUPTI_SUCCESS;
  bool knows_calls = true;
  unsigned subscribers = 0;
  std::set<CUpti_ActivityKind> kinds;
  std::set<CUpti_CallbackId> driver_calls_off, runtime_calls_off;
  std::vector<uint64_t> pushed;
  unsigned popped = 0;
  unsigned flushes = 0;
  unsigned forced_flushes = 0;
  size_t dropped = 0;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc clock = nullptr;
  uint8_t zeroes_itself = 0;
};
Library library;

CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void*) {
  if (library.subscribe_result != CUPTI_SUCCESS) return library.subscribe_result;
  if (callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  ++library.subscribers;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&library);
  return CUPTI_SUCCESS;
}
CUptiResult unsubscribe(CUpti_SubscriberHandle) {
  --library.subscribers;
  return CUPTI_SUCCESS;
}
CUptiResult enable(CUpti_ActivityKind kind) {
  const auto found = library.kind_results.find(kind);
  if (found != library.kind_results.end()) return found->second;
  library.kinds.insert(kind);
  // A kind overrides what was asked for call by call.
  if (kind == CUPTI_ACTIVITY_KIND_DRIVER) library.driver_calls_off.clear();
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME) library.runtime_calls_off.clear();
  return CUPTI_SUCCESS;
}
CUptiResult disable(CUpti_ActivityKind kind) {
  library.kinds.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult switch_call(std::set<CUpti_CallbackId>& calls_off, CUpti_CallbackId call, bool on) {
  if (!library.knows_calls) return CUPTI_ERROR_NOT_SUPPORTED;
  if (on) {
    calls_off.erase(call);
  } else {
    calls_off.insert(call);
  }
  return CUPTI_SUCCESS;
}
CUptiResult enable_driver(CUpti_CallbackId call, uint8_t on) {
  return switch_call(library.driver_calls_off, call, on != 0);
}
CUptiResult enable_runtime(CUpti_CallbackId call, uint8_t on) {
  return switch_call(library.runtime_calls_off, call, on != 0);
}
CUptiResult set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                          CUpti_BuffersCallbackCompleteFunc complete) {
  library.request = request;
  library.complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult set_clock(CUpti_TimestampCallbackFunc clock) {
  if (clock == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  library.clock = clock;
  return CUPTI_SUCCESS;
}
CUptiResult set_attribute(CUpti_ActivityAttribute attribute, size_t* bytes, void* value) {
  const bool is_known =
      attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER && *bytes == sizeof(uint8_t);
  if (!is_known) return CUPTI_ERROR_INVALID_PARAMETER;
  library.zeroes_itself = *static_cast<uint8_t*>(value);
  return CUPTI_SUCCESS;
}
CUptiResult flush(uint32_t flag) {
  if ((flag & ~CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0) return CUPTI_ERROR_INVALID_PARAMETER;
  ++(flag == 0 ? library.flushes : library.forced_flushes);
  return CUPTI_SUCCESS;
}
size_t bytes_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    default:
      return 0;
  }
}
CUptiResult next_record(uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
  auto* next = reinterpret_cast<uint8_t*>(*record);
  next = next == nullptr ? buffer : next + bytes_of((*record)->kind);
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return bytes_of((*record)->kind) != 0 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}
CUptiResult dropped_records(CUcontext, uint32_t, size_t* dropped) {
  *dropped = library.dropped;
  library.dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult push(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) library.pushed.push_back(id);
  return CUPTI_SUCCESS;
}
CUptiResult pop(CUpti_ExternalCorrelationKind kind, uint64_t*) {
  if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) ++library.popped;
  return CUPTI_SUCCESS;
}
CUptiResult result_string(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_MADE_UP";
  return CUPTI_SUCCESS;
}
CUptiResult timestamp(uint64_t* ns) {
  *ns = 9'000'000 + ticks_now();
  return CUPTI_SUCCESS;
}
CUptiResult stream_number(CUcontext, CUstream, uint8_t, uint32_t* number) {
  *number = 13;
  return CUPTI_SUCCESS;
}

void* find(void*, const char* name) {
  const std::map<std::string, void*> functions = {
      {"cuptiSubscribe", reinterpret_cast<void*>(subscribe)},
      {"cuptiUnsubscribe", reinterpret_cast<void*>(unsubscribe)},
      {"cuptiActivityEnable", reinterpret_cast<void*>(enable)},
      {"cuptiActivityDisable", reinterpret_cast<void*>(disable)},
      {"cuptiActivityEnableDriverApi", reinterpret_cast<void*>(enable_driver)},
      {"cuptiActivityEnableRuntimeApi", reinterpret_cast<void*>(enable_runtime)},
      {"cuptiActivityRegisterCallbacks", reinterpret_cast<void*>(set_callbacks)},
      {"cuptiActivityRegisterTimestampCallback", reinterpret_cast<void*>(set_clock)},
      {"cuptiActivitySetAttribute", reinterpret_cast<void*>(set_attribute)},
      {"cuptiActivityFlushAll", reinterpret_cast<void*>(flush)},
      {"cuptiActivityGetNextRecord", reinterpret_cast<void*>(next_record)},
      {"cuptiActivityGetNumDroppedRecords", reinterpret_cast<void*>(dropped_records)},
      {"cuptiActivityPushExternalCorrelationId", reinterpret_cast<void*>(push)},
      {"cuptiActivityPopExternalCorrelationId", reinterpret_cast<void*>(pop)},
      {"cuptiGetResultString", reinterpret_cast<void*>(result_string)},
      {"cuptiGetTimestamp", reinterpret_cast<void*>(timestamp)},
      {"cuptiGetStreamIdEx", reinterpret_cast<void*>(stream_number)},
  };
  const auto found = functions.find(name);
  return found == functions.end() || library.missing.count(name) != 0 ? nullptr : found->second;
}

uint64_t wall_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

struct Started {
  Started() {
    gpu::forget_cupti();
    works = gpu::start_cupti({.handle = &library, .find = find}, source, why);
  }
  bool works = false;
  gpu::ActivitySource source{};
  TextBuffer<512> why;
};

std::vector<gpu::ActivityRecord> taken;
uint64_t collect(const gpu::ActivitySource& source,
                 gpu::ActivitySource::Asking asking = gpu::ActivitySource::nothing) {
  taken.clear();
  return source.collect(
      asking, [](void*, const gpu::ActivityRecord& record) noexcept { taken.push_back(record); },
      nullptr);
}

// A buffer as CUPTI fills it.
struct Filled {
  Filled() {
    size_t records_max = 1;
    library.request(&memory, &bytes, &records_max);
    REQUIRE(memory != nullptr);
    CHECK(records_max == 0);
  }
  template <class Record>
  Record& add(CUpti_ActivityKind kind) {
    auto& record = *reinterpret_cast<Record*>(memory + used);
    used += sizeof(Record);
    record.kind = kind;
    return record;
  }
  void hand_back() { library.complete(nullptr, 0, memory, bytes, used); }
  uint8_t* memory = nullptr;
  size_t bytes = 0;
  size_t used = 0;
};

const std::set<CUpti_ActivityKind> kAllKinds = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_RUNTIME};

// A real CUPTI 13.0 tells of no call at all whose kind is off, whatever was asked call by call.
TEST_CASE("CUPTI is asked for kernels, graphs, regions, and of all calls for launches alone") {
  library = {};
  const Started started;
  REQUIRE(started.works);
  CHECK(library.subscribers == 1);
  CHECK(library.kinds == kAllKinds);
  CHECK(library.driver_calls_off.count(CUPTI_DRIVER_TRACE_CBID_cuEventRecord) == 1);
  CHECK(library.driver_calls_off.count(CUPTI_DRIVER_TRACE_CBID_cuInit) == 1);
  CHECK(library.runtime_calls_off.count(CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020) == 1);
  for (const CUpti_CallbackId call :
       {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
        CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice}) {
    CHECK(library.driver_calls_off.count(call) == 0);
  }
  CHECK(library.runtime_calls_off.count(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) == 0);
  CHECK(library.clock != nullptr);
}

TEST_CASE("a CUPTI that cannot leave calls out is read with all of them") {
  for (const bool has_function : {true, false}) {
    library = {};
    library.knows_calls = false;
    if (!has_function) {
      library.missing = {"cuptiActivityEnableDriverApi", "cuptiActivityEnableRuntimeApi",
                         "cuptiActivityRegisterTimestampCallback", "cuptiActivitySetAttribute"};
    }
    const Started started;
    REQUIRE(started.works);
    CHECK(library.kinds == kAllKinds);
  }
}

// Neither our clock nor our promise about buffers outlives us.
bool is_as_found() {
  const uint64_t before_ns = wall_ns();
  const uint64_t ns = library.clock();
  return library.kinds.empty() && library.subscribers == 0 && library.zeroes_itself == 0 &&
         ns >= before_ns && ns <= wall_ns();
}

TEST_CASE("CUPTI that is stopped is as it was found, and may be started again") {
  library = {};
  for (int i = 0; i < 2; ++i) {
    const Started started;
    REQUIRE(started.works);
    CHECK(library.zeroes_itself == 1);
    CHECK(library.subscribers == 1);
    gpu::stop_cupti();
    CHECK(is_as_found());
    gpu::stop_cupti();
    CHECK(library.subscribers == 0);
  }
}

TEST_CASE("where another client is active nothing is switched on, and the reason is said") {
  library = {};
  library.subscribe_result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  const Started started;
  CHECK_FALSE(started.works);
  CHECK(started.why.view() == "another client of CUPTI, a profiler, is active in this process");
  CHECK(library.kinds.empty());
  CHECK(library.request == nullptr);
}

TEST_CASE("what CUPTI refuses half-way is switched off again") {
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_RUNTIME}) {
    library = {};
    library.kind_results[kind] = CUPTI_ERROR_NOT_INITIALIZED;
    const Started started;
    CHECK_FALSE(started.works);
    CHECK(started.why.view() == "cuptiActivityEnable: CUPTI_ERROR_MADE_UP (15)");
    CHECK(is_as_found());
  }
}

TEST_CASE("a library that lacks a needed function is not used, and the function is named") {
  library = {};
  library.missing = {"cuptiActivityFlushAll"};
  const Started started;
  CHECK_FALSE(started.works);
  CHECK(started.why.view() == "it has no cuptiActivityFlushAll");
  CHECK(library.subscribers == 0);
}

TEST_CASE("a region is pushed and popped; streams and the clock are passed on") {
  library = {};
  const Started started;
  REQUIRE(started.works);
  started.source.enter(77);
  started.source.leave();
  CHECK(library.pushed == std::vector<uint64_t>{77});
  CHECK(library.popped == 1);
  uint32_t number = 0;
  CHECK(started.source.number_of_stream(&library, &number));
  CHECK(number == 13);
  set_fake_clock(1'000, 2);
  gpu::ActivityInstant instant{};
  CHECK(started.source.read_clock(&instant));
  CHECK(instant.ns - 9'000'000 == instant.ticks);
  clear_fake_clock();
}

TEST_CASE("every kind of record comes out as what it says, and what is not ours does not") {
  library = {};
  const Started started;
  REQUIRE(started.works);
  Filled buffer;
  auto& region =
      buffer.add<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  region.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  region.externalId = 42;
  region.correlationId = 5;
  auto& foreign =
      buffer.add<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  foreign.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
  buffer.add<CUpti_ActivityStream>(CUPTI_ACTIVITY_KIND_STREAM);
  auto& launch = buffer.add<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  launch.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;
  launch.correlationId = 5;
  launch.start = 100;
  auto& other = buffer.add<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  other.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020;
  other.correlationId = 6;
  auto& kernel = buffer.add<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  kernel.correlationId = 5;
  kernel.start = 200;
  kernel.end = 300;
  kernel.deviceId = 3;
  kernel.streamId = 17;
  kernel.name = "name";
  auto& graph = buffer.add<CUpti_ActivityGraphTrace>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  graph.correlationId = 8;
  graph.start = 400;
  graph.end = 500;
  buffer.hand_back();
  collect(started.source);
  REQUIRE(taken.size() == 5);
  CHECK(taken[0].kind == gpu::ActivityRecord::region);
  CHECK(taken[0].region_id == 42);
  CHECK(taken[0].correlation == 5);
  CHECK(taken[1].kind == gpu::ActivityRecord::launch);
  CHECK(taken[1].start_ns == 100);
  CHECK(taken[2].kind == gpu::ActivityRecord::other_call);
  CHECK(taken[2].correlation == 6);
  CHECK(taken[3].kind == gpu::ActivityRecord::kernel);
  CHECK(taken[3].start_ns == 200);
  CHECK(taken[3].end_ns == 300);
  CHECK(taken[3].device == 3);
  CHECK(taken[3].stream_number == 17);
  CHECK(std::string(taken[3].name) == "name");
  CHECK(taken[4].kind == gpu::ActivityRecord::graph);
  CHECK(taken[4].correlation == 8);
  CHECK(taken[4].name == nullptr);
  collect(started.source);
  CHECK(taken.empty());
}

TEST_CASE("buffers are read in the order in which they come back, and given again empty") {
  library = {};
  const Started started;
  REQUIRE(started.works);
  Filled first;
  Filled second;
  CHECK(first.memory != second.memory);
  for (Filled* buffer : {&second, &first}) {
    auto& record =
        buffer->add<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    record.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    record.correlationId = buffer == &second ? 1 : 2;
    buffer->hand_back();
  }
  collect(started.source);
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].correlation == 1);
  CHECK(taken[1].correlation == 2);
  Filled again;
  CHECK(again.memory == first.memory);
  const std::vector<uint8_t> zeroes(first.used, 0);
  CHECK(std::memcmp(again.memory, zeroes.data(), zeroes.size()) == 0);
}

TEST_CASE("when no buffer is free CUPTI gets none, and what it drops is passed on once") {
  library = {};
  const Started started;
  REQUIRE(started.works);
  std::vector<Filled> filled(kGpuActivityBuffers);
  uint8_t* memory = nullptr;
  size_t bytes = 1;
  size_t records_max = 1;
  library.request(&memory, &bytes, &records_max);
  CHECK(memory == nullptr);
  CHECK(bytes == 0);
  library.dropped = 4;
  CHECK(collect(started.source, gpu::ActivitySource::what_is_complete) == 4);
  CHECK(library.flushes == 1);
  CHECK(library.forced_flushes == 0);
  CHECK(collect(started.source, gpu::ActivitySource::nothing) == 0);
  CHECK(library.flushes == 1);
  CHECK(collect(started.source, gpu::ActivitySource::everything) == 0);
  CHECK(library.flushes == 1);
  CHECK(library.forced_flushes == 1);
  filled.front().hand_back();  // without any record
  collect(started.source);
  library.request(&memory, &bytes, &records_max);
  CHECK(memory == filled.front().memory);
}

TEST_CASE("a buffer that was never given, and a size beyond it, are not believed") {
  library = {};
  const Started started;
  REQUIRE(started.works);
  uint8_t foreign[64] = {};
  library.complete(nullptr, 0, foreign, sizeof(foreign), sizeof(foreign));
  collect(started.source);
  CHECK(taken.empty());
  Filled buffer;
  library.complete(nullptr, 0, buffer.memory, buffer.bytes, ~size_t{0});
  collect(started.source);  // all zeroes: no record
  CHECK(taken.empty());
}

}  // namespace gpu_cupti_test
}  // namespace rollcall
