#include "emulator/cupti/activity.h"

#include <cupti.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace emu_cupti {
namespace {

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using GraphRecord = CUpti_ActivityGraphTrace2;
#else
using KernelRecord = CUpti_ActivityKernel9;
using GraphRecord = CUpti_ActivityGraphTrace;
#endif

// What the stand-in for the driver is taken to be called by.
constexpr CUpti_CallbackId kLaunchCall = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;
constexpr CUpti_CallbackId kGraphCall = CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch;

uint64_t read_clock(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
}

void* watch_launch(const emu_launch* launch) { return Activity::get().launched(*launch); }
void watch_end(void* token, uint64_t start_ns, uint64_t end_ns) {
  Activity::get().ended(token, start_ns, end_ns);
}
constexpr emu_watcher kWatcher = {watch_launch, watch_end};

}  // namespace

const Settings& settings() {
  static const Settings read = {number_of("ROLLCALL_EMULATE_CUPTI_SUBSCRIBER") != 0,
                                number_of("ROLLCALL_EMULATE_CUPTI_DROP")};
  return read;
}

size_t record_bytes(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(GraphRecord);
    default:
      return 0;
  }
}

Activity& Activity::get() {
  static auto* const activity = new Activity;
  return *activity;
}

std::vector<uint64_t>& Activity::external(int kind) {
  static thread_local std::vector<uint64_t> ids[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];
  return ids[kind];
}

bool Activity::enable(int kind, bool on) {
  // Calls of the runtime are not told of: the emulated one is a thin layer over the driver.
  if (record_bytes(kind) == 0 && kind != CUPTI_ACTIVITY_KIND_RUNTIME) return false;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (on) {
      kinds_.insert(kind);
    } else {
      kinds_.erase(kind);
    }
    // A kind overrides what was asked for call by call.
    if (kind == CUPTI_ACTIVITY_KIND_DRIVER) calls_off_.clear();
  }
  if (on) emu_watch(&kWatcher);
  return true;
}

// As CUPTI 13.0 was seen to do on a GPU: a call can be taken out of its kind, and while the kind is
// off nothing is told of any.
void Activity::enable_driver_call(uint32_t call, bool on) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (on) {
    calls_off_.erase(call);
  } else {
    calls_off_.insert(call);
  }
}

void Activity::set_callbacks(Request request, Complete complete) {
  const std::lock_guard<std::mutex> guard(mutex_);
  request_ = request;
  complete_ = complete;
}

bool Activity::has_callbacks() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return complete_ != nullptr;
}

void Activity::set_clock(Clock clock) {
  const std::lock_guard<std::mutex> guard(mutex_);
  clock_ = clock;
}

uint64_t Activity::now_ns() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return on_clients_clock(read_clock(CLOCK_MONOTONIC));
}

uint64_t Activity::on_clients_clock(uint64_t monotonic_ns) {
  const uint64_t theirs = clock_ != nullptr ? clock_() : read_clock(CLOCK_REALTIME);
  return theirs + (monotonic_ns - read_clock(CLOCK_MONOTONIC));
}

uint64_t Activity::take_dropped() {
  const std::lock_guard<std::mutex> guard(mutex_);
  const uint64_t dropped = dropped_;
  dropped_ = 0;
  return dropped;
}

// Null: dropped.
template <class Record>
Record* Activity::append(int kind) {
  if (current_ && current_->bytes - current_->used < sizeof(Record)) {
    full_.push_back(current_);
    current_.reset();
  }
  if (!current_ && request_ != nullptr) {
    auto fresh = std::make_shared<Buffer>();
    size_t records_max = 0;
    request_(&fresh->memory, &fresh->bytes, &records_max);
    if (fresh->memory != nullptr && fresh->bytes >= sizeof(Record)) current_ = fresh;
  }
  if (!current_) {
    ++dropped_;
    return nullptr;
  }
  auto* record = reinterpret_cast<Record*>(current_->memory + current_->used);
  current_->used += sizeof(Record);
  std::memset(static_cast<void*>(record), 0, sizeof(Record));
  record->kind = static_cast<CUpti_ActivityKind>(kind);
  return record;
}

// The call of the driver, behind the regions that it was made in.
void Activity::add_call(const emu_launch& launch) {
  const CUpti_CallbackId call = launch.kernel != nullptr ? kLaunchCall : kGraphCall;
  if (kinds_.count(CUPTI_ACTIVITY_KIND_DRIVER) == 0 || calls_off_.count(call) != 0) return;
  for (int kind = 1; kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++kind) {
    if (external(kind).empty() || kinds_.count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) == 0) {
      continue;
    }
    auto* record =
        append<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    if (record == nullptr) continue;
    record->externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
    record->externalId = external(kind).back();
    record->correlationId = correlation_;
  }
  auto* record = append<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
  if (record == nullptr) return;
  record->cbid = call;
  record->start = record->end = on_clients_clock(read_clock(CLOCK_MONOTONIC));
  record->processId = static_cast<uint32_t>(getpid());
  record->threadId = static_cast<uint32_t>(pthread_self());
  record->correlationId = correlation_;
}

Activity::Running* Activity::add_kernel(const emu_launch& launch) {
  if (kinds_.count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == 0) return nullptr;
  const uint64_t every = settings().drop_every;
  if (every != 0 && ++kernels_ % every == 0) {
    ++dropped_;
    return nullptr;
  }
  auto* record = append<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (record == nullptr) return nullptr;
  record->deviceId = static_cast<uint32_t>(launch.device);
  record->contextId = static_cast<uint32_t>(launch.device) + 1;
  record->streamId = static_cast<uint32_t>(launch.stream);
  record->correlationId = correlation_;
  record->name = launch.kernel;
  ++current_->incomplete;
  return new Running{current_, &record->start, &record->end};
}

Activity::Running* Activity::add_graph(const emu_launch& launch) {
  if (kinds_.count(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) == 0) return nullptr;
  auto* record = append<GraphRecord>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  if (record == nullptr) return nullptr;
  record->correlationId = correlation_;
  record->deviceId = static_cast<uint32_t>(launch.device);
  record->contextId = static_cast<uint32_t>(launch.device) + 1;
  record->streamId = static_cast<uint32_t>(launch.stream);
  ++current_->incomplete;
  return new Running{current_, &record->start, &record->end};
}

void* Activity::launched(const emu_launch& launch) {
  const std::lock_guard<std::mutex> guard(mutex_);
  ++correlation_;
  add_call(launch);
  return launch.kernel != nullptr ? add_kernel(launch) : add_graph(launch);
}

void Activity::ended(void* token, uint64_t start_ns, uint64_t end_ns) {
  auto* running = static_cast<Running*>(token);
  std::vector<BufferPointer> complete;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    // A buffer that was handed over by force is the client's: nothing is written any more.
    if (running->buffer->memory != nullptr) {
      *running->start = on_clients_clock(start_ns);
      *running->end = on_clients_clock(end_ns);
      --running->buffer->incomplete;
    }
    delete running;
    complete = take_complete(false, false);
  }
  deliver(complete);
}

std::vector<Activity::BufferPointer> Activity::take_complete(bool with_current, bool forced) {
  std::vector<BufferPointer> complete;
  if (with_current && current_ && current_->used != 0) {
    full_.push_back(current_);
    current_.reset();
  }
  for (size_t i = 0; i < full_.size();) {
    if (full_[i]->incomplete != 0 && !forced) {
      ++i;
      continue;
    }
    complete.push_back(full_[i]);
    full_.erase(full_.begin() + static_cast<ptrdiff_t>(i));
  }
  return complete;
}

// Without the lock: the client may ask for something in its callback.
void Activity::deliver(const std::vector<BufferPointer>& buffers) {
  for (const BufferPointer& buffer : buffers) {
    uint8_t* memory = buffer->memory;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      buffer->memory = nullptr;
    }
    complete_(nullptr, 0, memory, buffer->bytes, buffer->used);
  }
}

void Activity::flush(bool forced) {
  std::vector<BufferPointer> complete;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    complete = take_complete(true, forced);
  }
  deliver(complete);
}

}  // namespace emu_cupti
