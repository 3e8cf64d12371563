// What the emulated GPUs carry out, as activity records in a client's buffers.
//
// As CUPTI does it: records are put into a buffer when the work is launched, the kernel's without
// its times; a buffer goes back to the client when everything in it is complete and it is full or
// asked for. Where the client gives none, records are dropped and counted.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "emulator/device/device.h"

struct CUctx_st;

namespace emu_cupti {

// CUPTI's types, so that this header does without its: kinds are CUpti_ActivityKind and
// CUpti_ExternalCorrelationKind, calls are CUpti_CallbackId.
using Request = void (*)(uint8_t** memory, size_t* bytes, size_t* records_max);
using Complete = void (*)(CUctx_st* context, uint32_t stream, uint8_t* memory, size_t bytes,
                          size_t valid_bytes);
using Clock = uint64_t (*)();

// Environment: ROLLCALL_EMULATE_CUPTI_SUBSCRIBER=1: as if a profiler were active in the process.
// ROLLCALL_EMULATE_CUPTI_DROP=N: every N-th kernel's record is dropped.
struct Settings {
  bool has_subscriber = false;
  uint64_t drop_every = 0;
};
const Settings& settings();

struct Buffer {
  uint8_t* memory = nullptr;
  size_t bytes = 0;
  size_t used = 0;
  unsigned incomplete = 0;
};

class Activity {
 public:
  // The process's one; never destroyed.
  static Activity& get();

  bool enable(int kind, bool on);
  void enable_driver_call(uint32_t call, bool on);
  void set_callbacks(Request request, Complete complete);
  bool has_callbacks();
  void set_clock(Clock clock);
  uint64_t now_ns();
  void flush(bool forced);
  uint64_t take_dropped();

  // Ids that the thread has pushed, by kind.
  static std::vector<uint64_t>& external(int kind);

  void* launched(const emu_launch& launch);
  void ended(void* token, uint64_t start_ns, uint64_t end_ns);

 private:
  using BufferPointer = std::shared_ptr<Buffer>;
  // A kernel or a graph that runs.
  struct Running {
    BufferPointer buffer;
    uint64_t* start;
    uint64_t* end;
  };

  template <class Record>
  Record* append(int kind);
  void add_call(const emu_launch& launch);
  Running* add_kernel(const emu_launch& launch);
  Running* add_graph(const emu_launch& launch);
  uint64_t on_clients_clock(uint64_t monotonic_ns);
  std::vector<BufferPointer> take_complete(bool with_current, bool forced);
  void deliver(const std::vector<BufferPointer>& buffers);

  std::mutex mutex_;
  std::set<int> kinds_;
  std::set<uint32_t> calls_off_;
  Request request_ = nullptr;
  Complete complete_ = nullptr;
  Clock clock_ = nullptr;
  BufferPointer current_;
  std::vector<BufferPointer> full_;
  uint64_t dropped_ = 0;
  uint64_t kernels_ = 0;
  uint32_t correlation_ = 0;
};

// Bytes of a record of this kind; 0: none that is made here.
size_t record_bytes(int kind);

}  // namespace emu_cupti
