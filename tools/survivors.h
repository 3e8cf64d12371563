// Nothing of a killed job may stay behind, wherever its processes went: other process groups, other
// sessions, reparented. They are found by the ROLLCALL_RUN_ID in their environment.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rollcall::tools {

// Processes of this machine that were started with ROLLCALL_RUN_ID=run_id, zombies excluded.
std::vector<pid_t> processes_of_run(const std::string& run_id);
// Kills them, again and again until none is left. Returns how many were killed.
unsigned kill_processes_of_run(const std::string& run_id);

// A process that outlives this command when it is killed with SIGKILL, only to clean up: it then
// kills the job. Destroyed in order, it ends without a trace.
class Guardian {
 public:
  explicit Guardian(const std::string& run_id);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

 private:
  int pipe_ = -1;
  pid_t pid_ = -1;
};

}  // namespace rollcall::tools
