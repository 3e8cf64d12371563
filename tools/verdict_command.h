// The command of `rollcall run --on-verdict`: started once a job is said to hang, beside the job
// and never as a part of it.
//
// It is run by `sh -c`, with incident.json on its standard input, its output on our stderr, and
// ROLLCALL_VERDICT (the code), ROLLCALL_VERDICT_CLASS, ROLLCALL_VERDICT_CERTAIN (1 or 0),
// ROLLCALL_INCIDENT (the folder), ROLLCALL_RUN_DIR and ROLLCALL_CULPRIT_HOSTS (with commas between
// them) in its environment. What it takes longer than its limit it is killed for, with what it
// started in its process group.
//
// Threads: the main thread alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/process_table.h"

namespace rollcall::tools {

// Its environment has it, and what it starts inherits it.
inline constexpr const char* kIncidentVariable = "ROLLCALL_INCIDENT";

class VerdictCommand {
 public:
  // `command` "": there is none.
  VerdictCommand(std::string command, std::string run_directory)
      : command_(std::move(command)), run_directory_(std::move(run_directory)) {}

  bool is_given() const { return !command_.empty(); }
  // Starts it with what was saved in `folder`. 0: it was not started, and `why` says why: it runs
  // still, or ran a short while ago, or cannot be started. Else a process that is not the job's.
  pid_t start(const std::string& folder, int64_t now_ns, std::string& why);
  bool is_running() const;

 private:
  [[noreturn]] void become(const std::string& folder, int input) const;

  const std::string command_;
  const std::string run_directory_;
  int64_t started_ns_ = 0;  // 0: never
  std::optional<ProcessFacts> process_;
};

}  // namespace rollcall::tools
