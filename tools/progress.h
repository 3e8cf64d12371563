// A line on stderr for work that takes longer than two seconds, on terminals only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace rollcall::tools {

// Shows "<what> ... 12 s" until destroyed, and a share of the work where one was told.
class Progress {
 public:
  explicit Progress(const std::string& what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // May be called from any thread, at any rate.
  void tell(uint64_t done, uint64_t all) noexcept;

 private:
  void show();

  const std::string what_;
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> all_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace rollcall::tools
