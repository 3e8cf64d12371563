#include "emulator/device/engine.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "emulator/device/graph.h"

namespace emu {
namespace {

// Host functions may block for long; each needs a worker of its own meanwhile. Sixteen such are
// more than any program seen; a further one waits for a worker.
constexpr int kWorkersMax = 16;
// A poll is repeated after an eighth of the time waited so far, so it is late by at most that
// eighth and a hung job costs at most 50 polls per second.
constexpr uint64_t kPollIntervalMinNs = 20'000;
constexpr uint64_t kPollIntervalMaxNs = 20'000'000;
// Below this a poll is repeated at once: most collectives of a healthy job end within it.
constexpr uint64_t kPollSpinNs = 20'000;
// How long exit waits for work in execution before it leaves it.
constexpr auto kShutDownPatience = std::chrono::milliseconds(100);

thread_local bool is_worker = false;

void release(Op& op) {
  if (op.kind == Op::Kind::kPoll && op.work.release != nullptr) op.work.release(op.work.argument);
  op.work.release = nullptr;
  op.run = nullptr;
}

}  // namespace

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

Engine& Engine::get() {
  static Engine* const engine = new Engine;
  return *engine;
}

StreamPointer Engine::create_stream(int device, unsigned flags, int priority) {
  auto stream = std::make_shared<CUstream_st>();
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = ++stream_count_;
  streams_[stream.get()] = stream;
  return stream;
}

StreamPointer Engine::legacy_stream(int device) {
  if (!legacy_[device]) {
    legacy_[device] = create_stream(device, CU_STREAM_DEFAULT, 0);
    legacy_[device]->legacy = true;
  }
  return legacy_[device];
}

StreamPointer Engine::find_stream(CUstream handle, int device) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return legacy_stream(device);
  if (handle == CU_STREAM_PER_THREAD) {
    static thread_local StreamPointer own[kDevicesMax];
    if (!own[device]) own[device] = create_stream(device, CU_STREAM_DEFAULT, 0);
    return own[device];
  }
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

bool Engine::forget_stream(CUstream handle) {
  streams_changed();
  return streams_.erase(handle) != 0;
}

bool Engine::query_stream(const CUstream_st& stream) const {
  if (!stream.idle()) return false;
  if (!stream.legacy) return true;
  return std::none_of(active_.begin(), active_.end(), [&](const StreamPointer& other) {
    return other->device == stream.device && other->blocking() && !other->idle();
  });
}

EventPointer Engine::create_event(int device, unsigned flags) {
  auto event = std::make_shared<CUevent_st>();
  event->device = device;
  event->flags = flags;
  events_[event.get()] = event;
  return event;
}

EventPointer Engine::find_event(CUevent handle) const {
  const auto found = events_.find(handle);
  return found == events_.end() ? nullptr : found->second;
}

bool Engine::forget_event(CUevent handle) { return events_.erase(handle) != 0; }

bool Engine::satisfied(const Op& op) const {
  for (const Dependency& wait : op.waits) {
    if (wait.marker && !wait.marker->done) return false;
    if (wait.stream && wait.stream->completed < wait.sequence) return false;
  }
  return true;
}

// The legacy default stream waits for everything in the blocking streams of its device, and they
// for it.
void Engine::add_default_stream_waits(CUstream_st& stream, Op& op) {
  if (stream.legacy) {
    for (const StreamPointer& other : active_) {
      if (other->device == stream.device && other->blocking() && !other->idle()) {
        op.waits.push_back({nullptr, other, other->enqueued});
      }
    }
  } else if (stream.blocking()) {
    const StreamPointer& legacy = legacy_[stream.device];
    if (legacy && !legacy->idle()) op.waits.push_back({nullptr, legacy, legacy->enqueued});
  }
}

void Engine::activate(const StreamPointer& stream) {
  if (stream->active) return;
  stream->active = true;
  active_.push_back(stream);
}

void Engine::enqueue(const StreamPointer& stream, Op op) {
  add_default_stream_waits(*stream, op);
  op.sequence = ++stream->enqueued;
  const bool at_head = stream->queue.empty() && !stream->running;
  if (at_head && (op.kind == Op::Kind::kNothing || op.short_run) && op.duration_ns == 0 &&
      satisfied(op)) {
    // Nobody can tell this from a worker that was quick, and it saves two context switches.
    if (op.run) op.run();
    finish(*stream, op, now_ns());
    return;
  }
  stream->queue.push_back(std::move(op));
  activate(stream);
  wake_worker();
}

void* Engine::watch(const CUstream_st& stream, const char* kernel) const {
  if (watcher_ == nullptr) return nullptr;
  const emu_launch launch = {kernel, stream.device, stream.id};
  return watcher_->launched(&launch);
}

void Engine::finish(CUstream_st& stream, Op& op, uint64_t time_ns) {
  stream.completed = op.sequence;
  if (op.watched != nullptr && watcher_ != nullptr) {
    uint64_t start_ns = op.started_ns != 0 ? op.started_ns : time_ns;
    if (op.watched_from) start_ns = op.watched_from->time_ns;
    watcher_->ended(op.watched, start_ns, time_ns);
  }
  if (op.marker) {
    op.marker->done = true;
    op.marker->time_ns = time_ns;
  }
  if (host_waiters_ > 0) work_done_.notify_all();
  if (!active_.empty() && !is_worker) wake_worker();  // a worker looks round by itself
}

void Engine::complete_head(CUstream_st& stream, uint64_t time_ns) {
  Op op = std::move(stream.queue.front());
  stream.queue.pop_front();
  finish(stream, op, time_ns);
  if (!stream.queue.empty()) return;
  stream.active = false;
  active_.erase(std::find_if(active_.begin(), active_.end(),
                             [&](const StreamPointer& each) { return each.get() == &stream; }));
}

CUresult Engine::wait_stream(Lock& lock, const StreamPointer& stream) {
  // The legacy stream's own queue is not all that must be waited for: work of the blocking streams
  // counts.
  std::vector<Dependency> targets{{nullptr, stream, stream->enqueued}};
  if (stream->legacy) {
    for (const StreamPointer& other : active_) {
      if (other->device == stream->device && other->blocking()) {
        targets.push_back({nullptr, other, other->enqueued});
      }
    }
  }
  ++host_waiters_;
  for (const Dependency& target : targets) {
    work_done_.wait(lock, [&] { return target.stream->completed >= target.sequence; });
  }
  --host_waiters_;
  return sticky_[stream->device];
}

CUresult Engine::wait_device(Lock& lock, int device) {
  std::vector<Dependency> targets;
  for (const StreamPointer& stream : active_) {
    if (stream->device == device) targets.push_back({nullptr, stream, stream->enqueued});
  }
  ++host_waiters_;
  for (const Dependency& target : targets) {
    work_done_.wait(lock, [&] { return target.stream->completed >= target.sequence; });
  }
  --host_waiters_;
  return sticky_[device];
}

CUresult Engine::wait_marker(Lock& lock, const std::shared_ptr<Marker>& marker, int device) {
  const std::shared_ptr<Marker> held = marker;
  ++host_waiters_;
  work_done_.wait(lock, [&] { return held->done; });
  --host_waiters_;
  return sticky_[device];
}

// Whoever waits for dropped work learns of its end only after its arguments were released.
void Engine::drop_queued(Lock& lock, int device) {
  std::vector<Op> dropped;
  std::vector<Dependency> ended;
  for (size_t i = 0; i < active_.size();) {
    const StreamPointer stream = active_[i];
    if (stream->device != device) {
      ++i;
      continue;
    }
    // The head that a worker executes stays; the worker completes it, and with it what stood behind
    // it.
    const size_t keep = stream->running ? 1 : 0;
    while (stream->queue.size() > keep) {
      dropped.push_back(std::move(stream->queue.back()));
      stream->queue.pop_back();
    }
    if (keep == 0) {
      ended.push_back({nullptr, stream, stream->enqueued});
      stream->active = false;
      active_.erase(active_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      stream->queue.front().sequence = stream->enqueued;
      ++i;
    }
  }
  lock.unlock();
  for (Op& op : dropped) release(op);
  lock.lock();
  const uint64_t time_ns = now_ns();
  for (const Op& op : dropped) {
    if (!op.marker) continue;
    op.marker->done = true;
    op.marker->time_ns = time_ns;
  }
  for (const Dependency& end : ended) {
    end.stream->completed = std::max(end.stream->completed, end.sequence);
  }
  work_done_.notify_all();
}

void Engine::fail_device(Lock& lock, int device, CUresult error) {
  if (sticky_[device] == CUDA_SUCCESS) sticky_[device] = error;
  drop_queued(lock, device);
}

void Engine::reset_device(Lock& lock, int device) {
  drop_queued(lock, device);
  sticky_[device] = CUDA_SUCCESS;
  // CUDA crashes where it is handed one of these afterwards; here it is told that there is none.
  std::erase_if(events_, [&](const auto& known) { return known.second->device == device; });
  streams_changed();
  std::erase_if(streams_, [&](const auto& known) {
    return known.second->device == device && !known.second->legacy;
  });
}

void Engine::wake_polls() {
  bool any = false;
  for (const StreamPointer& stream : active_) {
    Op& head = stream->queue.front();
    if (head.kind != Op::Kind::kPoll || head.executed || head.not_before_ns == 0) continue;
    head.not_before_ns = 0;
    any = true;
  }
  if (any) wake_worker();
}

void* Engine::worker_main(void* engine) {
  pthread_setname_np(pthread_self(), "emu-stream");
  is_worker = true;
  static_cast<Engine*>(engine)->work();
  return nullptr;
}

void Engine::wake_worker() {
  if (stopping_) return;
  if (workers_idle_ == 0 && workers_ < kWorkersMax && workers_ <= executing_) {
    // The job's signals are the job's threads' business.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, nullptr, worker_main, this) == 0) {
      pthread_detach(thread);
      ++workers_;
    } else if (workers_ == 0) {
      std::fprintf(stderr, "rollcall emulator: no thread can be started; streams do not advance\n");
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  if (workers_idle_ > 0) work_ready_.notify_one();
}

// The next stream whose head can be advanced now, highest priority (lowest number) first, in turn
// among equals; else the time at which one may be.
StreamPointer Engine::pick(uint64_t* soonest_ns) {
  const uint64_t time_ns = now_ns();
  *soonest_ns = UINT64_MAX;
  StreamPointer best;
  const size_t count = active_.size();
  for (size_t i = 0; i < count; ++i) {
    const StreamPointer& stream = active_[(next_pick_ + i) % count];
    if (stream->running) continue;
    const Op& head = stream->queue.front();
    if (head.started_ns == 0 && !satisfied(head)) continue;
    if (head.not_before_ns > time_ns) {
      *soonest_ns = std::min(*soonest_ns, head.not_before_ns);
      continue;
    }
    if (!best || stream->priority < best->priority) best = stream;
  }
  ++next_pick_;
  return best;
}

// Executes the head of a stream once. Returns whether it was completed.
bool Engine::advance(Lock& lock, const StreamPointer& stream) {
  Op& head = stream->queue.front();
  if (head.started_ns == 0) head.started_ns = now_ns();
  if (head.kind == Op::Kind::kNothing && head.duration_ns == 0) {
    complete_head(*stream, now_ns());
    return true;
  }
  stream->running = true;
  ++executing_;
  if (active_.size() > 1) wake_worker();  // somebody else minds the other streams meanwhile
  lock.unlock();
  int result = 1;
  if (!head.executed) {
    if (head.kind == Op::Kind::kRun) head.run();
    if (head.kind == Op::Kind::kPoll) result = head.work.poll(head.work.argument);
  }
  uint64_t time_ns = now_ns();
  const bool over = result != 0 && (result != 1 || time_ns >= head.started_ns + head.duration_ns);
  if (over) release(head);
  lock.lock();
  --executing_;
  if (over && result != 1) {
    const int error = head.work.error;
    fail_device(lock, stream->device,
                error != 0 ? static_cast<CUresult>(error) : CUDA_ERROR_LAUNCH_FAILED);
  }
  stream->running = false;
  if (over) {
    complete_head(*stream, time_ns);
    return true;
  }
  if (sticky_[stream->device] != CUDA_SUCCESS) {
    // The device failed while this was being polled: it is dropped like the rest.
    Op dropped;
    dropped.kind = head.kind;
    dropped.work = head.work;
    head.work.release = nullptr;
    complete_head(*stream, time_ns);
    lock.unlock();
    release(dropped);
    lock.lock();
    return true;
  }
  if (result == 1) {
    head.executed = true;
    head.not_before_ns = head.started_ns + head.duration_ns;
  } else {
    const uint64_t waited_ns = time_ns - head.started_ns;
    head.not_before_ns =
        waited_ns < kPollSpinNs
            ? 1
            : time_ns + std::clamp(waited_ns / 8, kPollIntervalMinNs, kPollIntervalMaxNs);
  }
  return false;
}

void Engine::sleep_until(Lock& lock, uint64_t soonest_ns) {
  ++workers_idle_;
  if (soonest_ns >= timer_ns_) {
    work_ready_.wait(lock);  // another worker wakes in time
  } else {
    timer_ns_ = soonest_ns;
    const uint64_t time_ns = now_ns();
    if (soonest_ns > time_ns) {
      work_ready_.wait_for(lock, std::chrono::nanoseconds(soonest_ns - time_ns));
    }
    if (timer_ns_ == soonest_ns) timer_ns_ = UINT64_MAX;
  }
  --workers_idle_;
}

void Engine::work() {
  Lock lock(mutex_);
  while (!stopping_) {
    uint64_t soonest_ns;
    const StreamPointer stream = pick(&soonest_ns);
    if (stream) {
      advance(lock, stream);
    } else {
      sleep_until(lock, soonest_ns);
    }
  }
  --workers_;
}

void Engine::shut_down() {
  Engine& engine = get();
  Lock lock(engine.mutex_, std::defer_lock);
  const auto patience_end = std::chrono::steady_clock::now() + kShutDownPatience;
  while (!lock.try_lock()) {
    if (std::chrono::steady_clock::now() > patience_end) return;
    struct timespec pause = {0, 100'000};
    nanosleep(&pause, nullptr);
  }
  engine.stopping_ = true;
  engine.work_ready_.notify_all();
  while (engine.executing_ > 0 && std::chrono::steady_clock::now() < patience_end) {
    lock.unlock();
    struct timespec pause = {0, 100'000};
    nanosleep(&pause, nullptr);
    lock.lock();
  }
  std::vector<Op> dropped;
  for (const StreamPointer& stream : engine.active_) {
    if (stream->running) continue;
    for (Op& op : stream->queue) dropped.push_back(std::move(op));
    stream->queue.clear();
    stream->completed = stream->enqueued;
  }
  engine.active_.clear();
  lock.unlock();
  for (Op& op : dropped) release(op);
}

}  // namespace emu
