// The processes of a job on this machine: one command, or N ranks of it, started, signalled and
// waited for.
//
// Where this command has a terminal, the job stays in its process group: the terminal treats both
// alike, and with them whatever else the shell has put there, a pager behind a pipe or the script
// around a loop. Without a terminal the job is a group of its own, which a signal reaches at once.
//
// Threads: one Job per process, used by its main thread; SIGCHLD and the forwarded signals are
// blocked from construction on and taken synchronously, or by the relay while that thread is away.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/signal_relay.h"
#include "tools/survivors.h"

namespace rollcall::tools {

// What is set for one process on top of our own environment; a name that occurs twice has the later
// value.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Ended {
  int32_t rank = -1;
  pid_t pid = 0;
  bool by_signal = false;
  int number = 0;  // the exit status or the signal
  // As a shell reports it: the status, or 128 + the signal.
  int exit_status() const { return by_signal ? 128 + number : number; }
  bool is_normal() const { return !by_signal && number == 0; }
};
// "ended with status 1", "was killed by signal 9 (Killed)"
std::string in_words(const Ended& ended);

class Job {
 public:
  Job(std::vector<std::string> command, JobProcesses& processes);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Starts one process; `rank` is -1 for a single command. False: it could not be started; `error`
  // is the sentence and `exit_status` what a shell would return (126, 127).
  bool start(int32_t rank, const Settings& settings, std::string& error, int& exit_status);

  // Waits for a signal, at most `timeout_ns` (negative: for ever). Forwards it when it is one for
  // the job. Returns the signal, 0 after the timeout.
  int wait_signal(int64_t timeout_ns);
  // The result of `work`, which may take long and must not touch the job: signals for it are
  // forwarded meanwhile. Once all ranks are started.
  template <class Work>
  auto away(const Work& work) {
    if (running_ == 0) return work();  // who asks for an end means us
    if (!relay_) begin_relay();
    return relay_->away(work);
  }
  // Everything that ended since the last call, in the order the kernel tells. Other children (of
  // killed descendants) are reaped on the way.
  std::vector<Ended> reap();

  size_t running() const { return running_; }
  bool was_told_to_end() const { return told_to_end_; }
  // The process group that is the job's alone; 0 before the start, and where it has none.
  pid_t own_group() const { return shares_group_ ? 0 : group_; }
  // To every process of the group that is the job's. SIGKILL: to every process of the job.
  void signal_all(int number);
  // A helper that is not of the job: reap() keeps its status for take_helper().
  void add_helper(pid_t pid) { helper_ = pid; }
  std::optional<int> take_helper();

 private:
  struct Rank {
    pid_t pid;
    int32_t rank;
  };

  [[noreturn]] void become_rank(const Settings& settings, int report);
  void begin_relay();
  void forward(int number, bool by_terminal);
  void stop_with_job();

  const std::vector<std::string> command_;
  JobProcesses& processes_;
  std::vector<Rank> ranks_;
  sigset_t waited_{};
  const bool shares_group_;
  pid_t group_ = 0;
  size_t running_ = 0;
  unsigned told_ = 0;
  int64_t told_ns_ = 0;  // the last time
  bool told_to_end_ = false;
  pid_t helper_ = 0;
  std::optional<int> helper_status_;
  std::unique_ptr<SignalRelay> relay_;  // last: its thread uses what is above
};

}  // namespace rollcall::tools
