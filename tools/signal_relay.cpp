#include "tools/signal_relay.h"

#include <chrono>
#include <ctime>
#include <system_error>
#include <utility>

namespace rollcall::tools {
namespace {

// Whoever is away for one of them from its begin to its end is late.
constexpr auto kSpan = std::chrono::milliseconds(500);

}  // namespace

SignalRelay::SignalRelay(const sigset_t& signals, PassOn pass_on)
    : signals_(signals), pass_on_(std::move(pass_on)) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
  }
}

SignalRelay::~SignalRelay() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void SignalRelay::set_away(bool is_away) {
  const std::lock_guard lock(mutex_);
  is_away_ = is_away;
  if (is_away) ++trips_;
}

void SignalRelay::work() {
  std::unique_lock lock(mutex_);
  uint64_t seen = 0;  // the trip that was under way a span ago; 0: none was
  while (!over_.wait_for(lock, kSpan, [this] { return is_over_; })) {
    const uint64_t trip = is_away_ ? trips_ : 0;
    if (trip != 0 && trip == seen) {
      constexpr timespec kAtOnce{0, 0};
      siginfo_t signal;
      while (sigtimedwait(&signals_, &signal, &kAtOnce) > 0) pass_on_(signal);
    }
    seen = trip;
  }
}

}  // namespace rollcall::tools
