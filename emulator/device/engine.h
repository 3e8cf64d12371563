// The engine of the emulated GPUs: streams as in-order queues, served by a few worker threads.
//
// One lock guards every stream, event, capture and graph of the process. It is held for bookkeeping
// only; copies, host functions, polls and releases run without it. Three kinds of operation:
//   nothing  kernels, event records, waits: done the moment the stream reaches them
//   run      copies and host functions: called once, may take long
//   poll     emu_work: asked again and again, ever more rarely, until it says done
// An operation may wait for markers (events, graph nodes) and for positions of other streams (the
// legacy default stream's rule); it starts when it is at the head of its stream and all of them are
// reached.
//
// Completion is what the owner of the lock sees; a host thread that waits sleeps on one condition
// variable. Workers are detached and ignore signals; nothing waits for them at exit, so hung work
// cannot hold a process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "emulator/device/device.h"
#include "emulator/include/cuda.h"

namespace emu {

struct Capture;
using Lock = std::unique_lock<std::mutex>;
using StreamPointer = std::shared_ptr<CUstream_st>;
using EventPointer = std::shared_ptr<CUevent_st>;

// A point in stream order: done when its operation finished, with the time at which it did
// (CLOCK_MONOTONIC).
struct Marker {
  bool done = false;
  uint64_t time_ns = 0;
};

// What an operation waits for: a marker, or position `sequence` of `stream`.
struct Dependency {
  std::shared_ptr<Marker> marker;
  StreamPointer stream;
  uint64_t sequence = 0;
};

struct Op {
  enum class Kind { kNothing, kRun, kPoll };
  Kind kind = Kind::kNothing;
  bool short_run = false;  // kRun: short and harmless enough for the thread that enqueues it
  bool executed = false;   // ran or polled to the end; only its duration is not over yet
  std::function<void()> run;
  emu_work work = {};
  std::vector<Dependency> waits;
  std::shared_ptr<Marker> marker;  // set when this is done
  uint64_t sequence = 0;
  uint64_t duration_ns = 0;
  uint64_t started_ns = 0;               // 0: the stream has not reached it
  uint64_t not_before_ns = 0;            // do not look again earlier
  const char* kernel = nullptr;          // emu_launch
  void* watched = nullptr;               // what emu_watcher's `launched` returned
  std::shared_ptr<Marker> watched_from;  // where the watched work begins, if not with this
};

}  // namespace emu

// What a CUstream points to.
struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;
  bool running = false;   // a worker executes the head
  bool active = false;    // listed in Engine::active_
  uint64_t enqueued = 0;  // operations put in so far
  uint64_t completed = 0;
  std::deque<emu::Op> queue;
  std::shared_ptr<emu::Capture> capture;  // null: not capturing
  std::vector<CUgraphNode> capture_tail;  // what the next captured node depends on

  bool blocking() const { return !legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
  bool idle() const { return completed == enqueued; }
};

// What a CUevent points to.
struct CUevent_st {
  unsigned flags = 0;
  int device = 0;
  std::shared_ptr<emu::Marker> marker;    // of the last record; null: never recorded
  std::shared_ptr<emu::Capture> capture;  // the last record was captured by this
  std::vector<CUgraphNode> capture_tail;
};

namespace emu {

uint64_t now_ns();

class Engine {
 public:
  // The process's engine; never destroyed. Workers start with the first operation that needs one.
  static Engine& get();

  Lock lock() { return Lock(mutex_); }

  // All below: the caller holds the lock.
  StreamPointer create_stream(int device, unsigned flags, int priority);
  // Null for a handle that is no stream. 0 and 1: legacy default stream of `device`; 2: the
  // thread's own.
  StreamPointer find_stream(CUstream handle, int device);
  bool forget_stream(CUstream handle);  // queued work still runs
  StreamPointer legacy_stream(int device);
  // True when a stream (for the legacy stream: with all that it waits for) has nothing left to do.
  bool query_stream(const CUstream_st& stream) const;
  EventPointer create_event(int device, unsigned flags);
  EventPointer find_event(CUevent handle) const;
  bool forget_event(CUevent handle);

  // Puts an operation on a stream, adding the default stream's waits. Must not be capturing.
  void enqueue(const StreamPointer& stream, Op op);
  // Until the stream's (or the device's) work of now is done. Returns the device's sticky error.
  CUresult wait_stream(Lock& lock, const StreamPointer& stream);
  CUresult wait_device(Lock& lock, int device);
  CUresult wait_marker(Lock& lock, const std::shared_ptr<Marker>& marker, int device);

  CUresult sticky(int device) const { return sticky_[device]; }
  // Latches an error and drops the device's queued work.
  void fail_device(Lock& lock, int device, CUresult error);
  void reset_device(Lock& lock, int device);
  void wake_polls();
  void set_watcher(const emu_watcher* watcher) { watcher_ = watcher; }
  // Work that was just made for this stream; `kernel` null: a graph.
  void* watch(const CUstream_st& stream, const char* kernel) const;
  // At exit: takes no new work, releases what is queued; bounded in time.
  static void shut_down();

 private:
  Engine() = default;
  bool satisfied(const Op& op) const;
  void add_default_stream_waits(CUstream_st& stream, Op& op);
  void complete_head(CUstream_st& stream, uint64_t time_ns);
  void finish(CUstream_st& stream, Op& op, uint64_t time_ns);
  void activate(const StreamPointer& stream);
  void drop_queued(Lock& lock, int device);
  void wake_worker();
  StreamPointer pick(uint64_t* soonest_ns);
  bool advance(Lock& lock, const StreamPointer& stream);
  void sleep_until(Lock& lock, uint64_t soonest_ns);
  void work();
  static void* worker_main(void* engine);

  static constexpr int kDevicesMax = 64;
  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  std::unordered_map<CUstream, StreamPointer> streams_;
  std::unordered_map<CUevent, EventPointer> events_;
  std::vector<StreamPointer> active_;  // streams with queued operations
  StreamPointer legacy_[kDevicesMax];
  CUresult sticky_[kDevicesMax] = {};
  uint64_t stream_count_ = 0;
  const emu_watcher* watcher_ = nullptr;
  size_t next_pick_ = 0;
  int workers_ = 0;
  int workers_idle_ = 0;
  int executing_ = 0;
  int host_waiters_ = 0;
  uint64_t timer_ns_ =
      UINT64_MAX;  // the earliest time at which a sleeping worker will wake by itself
  bool stopping_ = false;
};

}  // namespace emu
