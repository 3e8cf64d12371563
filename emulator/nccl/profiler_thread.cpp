#include "emulator/nccl/profiler_thread.h"

namespace emu_nccl {

void ProfilerThread::post(std::function<void()> job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return;
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void ProfilerThread::stop(bool finish) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    finishes_ = finish;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  jobs_.clear();
}

void ProfilerThread::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopped_ || (finishes_ && !jobs_.empty())) {
    if (jobs_.empty()) {
      lock.unlock();
      if (idle_) idle_(true);
      lock.lock();
      changed_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
      lock.unlock();
      if (idle_) idle_(false);
      lock.lock();
      continue;
    }
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace emu_nccl
