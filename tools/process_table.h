// The processes of this machine, from /proc, and a way to signal the one that was looked at and no
// other.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::tools {

struct ProcessFacts {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  bool is_zombie = false;
  uint64_t start_ticks = 0;  // since boot; with the pid it names one process and never another
};

// nullopt: there is no such process any more.
std::optional<ProcessFacts> read_process(pid_t pid);
// Those that this process may see, in the order of their pids.
std::vector<ProcessFacts> read_processes();

// The real user: a program that is setuid has its caller's.
std::optional<uid_t> user_of(pid_t pid);

// The value of an environment variable as the process was started with it; empty where it has none
// or may not be looked at.
std::string variable_of(pid_t pid, const std::string& name);

// Sends the signal to that very process: a newer one with its pid does not get it. False: it is
// gone, or it may not be signalled.
bool signal_process(const ProcessFacts& process, int number);

}  // namespace rollcall::tools
