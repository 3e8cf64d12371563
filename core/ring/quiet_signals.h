// Signals that a file operation may raise in the thread that performs it (SIGXFSZ past
// RLIMIT_FSIZE, SIGPIPE on a closed stderr) are kept from the job while an object of this class
// lives, and are gone when it does: the call's own error number says the same.
#pragma once

#include <signal.h>
#include <time.h>

#include <initializer_list>

namespace rollcall::ring {

class QuietSignals {
 public:
  QuietSignals() noexcept {
    sigemptyset(&ours_);
    sigaddset(&ours_, SIGXFSZ);
    sigaddset(&ours_, SIGPIPE);
    sigpending(&pending_before_);
    pthread_sigmask(SIG_BLOCK, &ours_, &mask_before_);
  }
  ~QuietSignals() {
    sigset_t raised;
    sigpending(&raised);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {
      // One that was pending before is the job's own.
      if (sigismember(&raised, signal) != 1 || sigismember(&pending_before_, signal) == 1) continue;
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      const timespec no_wait{};
      sigtimedwait(&one, nullptr, &no_wait);
    }
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  QuietSignals(const QuietSignals&) = delete;
  QuietSignals& operator=(const QuietSignals&) = delete;

 private:
  sigset_t ours_;
  sigset_t pending_before_;
  sigset_t mask_before_;
};

}  // namespace rollcall::ring
