// A thread that tells a profiler plugin what the GPU does: NCCL's proxy progress thread, and from
// 2.31 on its profiler thread. It starts with the first thing to tell.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace emu_nccl {

class ProfilerThread {
 public:
  // `idle(true)` is called before the thread goes to sleep, `idle(false)` when it wakes up.
  explicit ProfilerThread(std::function<void(bool)> idle = {}) : idle_(std::move(idle)) {}
  ~ProfilerThread() { stop(false); }

  // In the order of the calls, one after the other. Dropped once the thread was stopped.
  void post(std::function<void()> job);
  // What has begun is waited for. What was only posted is done first, or dropped.
  void stop(bool finish);

 private:
  void run();

  std::function<void(bool)> idle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;
  bool stopped_ = false;
  bool finishes_ = false;
};

}  // namespace emu_nccl
