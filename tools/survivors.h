// Nothing of a killed job may stay behind, wherever its processes went: other process groups, other
// sessions, reparented. And nothing may be killed that is not the job's.
//
// While this command lives its job's processes are its descendants: it is the parent of their
// orphans (PR_SET_CHILD_SUBREAPER), whatever they do to their environment. Once it is killed itself
// the Guardian has to know them without that: by a token that no other `rollcall run` has and that
// nobody is told of. ROLLCALL_RUN_ID names a run for readers, users export it, and it never
// decides who is killed.
//
// Processes of another real user than the job's are left alone, also by root.
//
// Threads: the main thread alone, or the relay while that one is away (tools/signal_relay.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/process_table.h"

namespace rollcall::tools {

// The environment variable with the tokens of all `rollcall run`s around a process, the outermost
// first, with colons between them.
inline constexpr const char* kTokenVariable = "ROLLCALL_JOB_TOKEN";

// A new token, and the variable's value for a job within whatever this process is in itself.
std::string new_token();
std::string token_value(const std::string& token);

class JobProcesses {
 public:
  // Before anything of the job is started: what is a child of this process by then, as after `exec
  // rollcall run` in a script, is not the job's.
  explicit JobProcesses(std::string token);

  // A process that the job begins with, and a child that is not the job's.
  void add_root(pid_t pid);
  void leave_out(pid_t pid);

  // Zombies excluded.
  std::vector<ProcessFacts> list() const;
  // To those of one process group.
  void signal_group(pid_t group, int number) const;
  // Kills them, again and again until none is left.
  void kill_all() const;

  const std::string& token() const { return token_; }

 private:
  bool is_of_job(const ProcessFacts& child) const;

  const std::string token_;
  std::vector<ProcessFacts> roots_;
  std::vector<ProcessFacts> others_;
  // Whether orphans of others may become children of this process, too.
  bool takes_strangers_ = false;
};

// A process that outlives this command when it is killed with SIGKILL. Without Rollcall that signal
// would have ended the job, so that the guardian then kills the job's processes; but not after the
// kernel's OOM killer, which would have found somebody else: the job goes on, recorded as before,
// to its own end or its time limit. Destroyed in order, the guardian ends without a trace.
class Guardian {
 public:
  // `limit_ns`: when (CLOCK_MONOTONIC) the job is to end at the latest; 0: no limit.
  Guardian(const std::string& token, int64_t limit_ns);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  pid_t pid() const { return pid_; }
  // The process group that is the job's alone.
  void tell_group(pid_t group);
  // The job is being ended: from now on SIGKILL means the job, whoever sends it.
  void tell_end();

 private:
  void tell(char kind, pid_t group);

  int pipe_ = -1;
  pid_t pid_ = -1;
};

}  // namespace rollcall::tools
