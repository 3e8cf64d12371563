// Passes signals on while the main thread does not come to it. That one looks at the files of a
// run, and a file server that does not answer holds it in the kernel for as long as it likes: who
// asks the job to end, or to save its state, must reach the job all the same.
//
// Threads: the main thread alone uses it. The relay has a thread of its own, which calls `pass_on`
// only while the main thread is in away(), and never while that one comes back.
#pragma once

#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace rollcall::tools {

class SignalRelay {
 public:
  // As sigwaitinfo() tells it.
  using PassOn = std::function<void(const siginfo_t& signal)>;

  // `signals` are blocked in every thread. Where no thread can be had, nobody relays.
  SignalRelay(const sigset_t& signals, PassOn pass_on);
  ~SignalRelay();
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;

  // The result of `work`, which may take long and waits for no signal.
  template <class Work>
  auto away(const Work& work) {
    const Trip trip(*this);
    return work();
  }

 private:
  class Trip {
   public:
    explicit Trip(SignalRelay& relay) : relay_(relay) { relay_.set_away(true); }
    ~Trip() { relay_.set_away(false); }
    Trip(const Trip&) = delete;
    Trip& operator=(const Trip&) = delete;

   private:
    SignalRelay& relay_;
  };

  void set_away(bool is_away);
  void work();

  const sigset_t signals_;
  const PassOn pass_on_;
  std::mutex mutex_;  // of what follows, and held while a signal is passed on
  std::condition_variable over_;
  bool is_over_ = false;
  bool is_away_ = false;
  uint64_t trips_ = 0;
  std::thread thread_;
};

}  // namespace rollcall::tools
