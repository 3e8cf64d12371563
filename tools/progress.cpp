#include "tools/progress.h"

#include <fmt/format.h>

#include <chrono>

#include "report/terms.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kRefresh = std::chrono::milliseconds(250);
constexpr unsigned kBarCells = 24;

std::string bar(uint64_t done, uint64_t all) {
  const unsigned cells =
      static_cast<unsigned>(static_cast<double>(done) / static_cast<double>(all) * kBarCells);
  return fmt::format("[{:<{}}] {}/{}", std::string(std::min(cells, kBarCells), '#'), kBarCells,
                     done, all);
}

}  // namespace

Progress::Progress(const std::string& what) : what_(report::printable(what)) {
  if (progress_on_stderr()) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Progress::tell(uint64_t done, uint64_t all) noexcept {
  done_.store(done, std::memory_order_relaxed);
  all_.store(all, std::memory_order_relaxed);
}

void Progress::show() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (wake_.wait_for(lock, kPatience, [this] { return over_; })) return;
  while (!over_) {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
    const uint64_t all = all_.load(std::memory_order_relaxed);
    const std::string share = all > 0 ? " " + bar(done_.load(std::memory_order_relaxed), all) : "";
    print_err(fmt::format("\r\x1b[K{}{} {} s", what_, share, seconds.count()));
    wake_.wait_for(lock, kRefresh, [this] { return over_; });
  }
  print_err("\r\x1b[K");
}

}  // namespace rollcall::tools
