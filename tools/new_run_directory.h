// A new run directory, made by name and claimed for one run.
//
// Its file system may belong to a server that does not answer. Who asks that server waits in the
// kernel, and no signal ends that. make_in_time() therefore asks in a process of its own.
//
// Threads: plain functions, called while the process has one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rollcall::tools {

constexpr const char* kRunsDirectory = "rollcall-runs";

// Below it a run has a folder of its own: kRunsDirectory, or ROLLCALL_DIR of a configuration file.
// That of the environment is another run's: of a `rollcall run` around this one.
std::string runs_directory();

struct NewRunDirectory {
  std::string path;  // absolute
  // A descriptor whose lock keeps other runs away for as long as it is open; -1: none could be had,
  // or the directory is shared.
  int claim = -1;
  bool is_new = false;  // made by this process; else it was there before
};

// Makes the directory (0700) for this process alone. Without `wanted` a new one below rollcall-runs
// is named after the time and `program`. In one that holds an earlier run, or that another
// `rollcall run` has just taken, it is the next free `attempt-N`: the files of two runs in one
// directory would be compared with each other. nullopt: `error` says why.
std::optional<NewRunDirectory> make_run_directory(const std::string& wanted,
                                                  const std::string& program, std::string& error);

// The same for a process that shares the directory with other ranks of its job, which may have been
// faster: it need not be empty, and without `wanted` it is named after the run. After `restarts` of
// the whole job it is `attempt-<restarts>` within.
std::optional<NewRunDirectory> make_shared_run_directory(const std::string& wanted,
                                                         const std::string& run_id,
                                                         unsigned restarts, std::string& error);

// What `make` makes in a process of its own, which is waited for at most `limit_ns`. Too late:
// nullopt, and `error` names `place`; the process goes on, and removes a directory that it has
// made for this run alone.
using Make = std::function<std::optional<NewRunDirectory>(std::string& error)>;
std::optional<NewRunDirectory> make_in_time(const Make& make, const std::string& place,
                                            int64_t limit_ns, std::string& error);

}  // namespace rollcall::tools
