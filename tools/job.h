// The processes of a job on this machine: one command, or N ranks of it, in a process group of
// their own, started, signalled and waited for.
//
// Threads: one Job per process, used by its main thread; SIGCHLD and the forwarded signals are
// blocked from construction on and taken synchronously.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  explicit Job(std::vector<std::string> command);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Starts one process; `rank` is -1 for a single command. False: it could not be started; `error`
  // is the sentence and `exit_status` what a shell would return (126, 127).
  bool start(int32_t rank, const Settings& settings, std::string& error, int& exit_status);

  // Waits for a signal, at most `timeout_ns` (negative: for ever). Forwards it when it is one for
  // the job. Returns the signal, 0 after the timeout.
  int wait_signal(int64_t timeout_ns);
  // Everything that ended since the last call, in the order the kernel tells. Other children (of
  // killed descendants) are reaped on the way.
  std::vector<Ended> reap();

  size_t running() const { return running_; }
  bool was_told_to_end() const { return told_to_end_; }
  // To every process of the group.
  void signal_all(int number);
  // A helper that is not of the job: reap() keeps its status for take_helper().
  void add_helper(pid_t pid) { helper_ = pid; }
  std::optional<int> take_helper();

 private:
  struct Rank {
    pid_t pid;
    int32_t rank;
  };

  [[noreturn]] void become_rank(const Settings& settings, int report, pid_t parent);
  void give_terminal();
  void take_terminal();
  void stopped_from_terminal();

  const std::vector<std::string> command_;
  std::vector<Rank> ranks_;
  sigset_t waited_{};
  pid_t group_ = 0;
  size_t running_ = 0;
  unsigned told_ = 0;
  bool told_to_end_ = false;
  bool owns_terminal_ = false;
  pid_t helper_ = 0;
  std::optional<int> helper_status_;
};

}  // namespace rollcall::tools
