// The ROLLCALL_* variables, of the environment and of configuration files, as far as the command
// looks at them: for the recorder, and for itself.
//
// Threads: the main thread alone.
#pragma once

#include <string>
#include <vector>

// What the command reads itself; the recorder does not look at it. `rollcall config` and
// docs/VARIABLES.md derive from it, like from the recorder's table (core/base/variables.h, which
// has the columns).
#define ROLLCALL_COMMAND_VARIABLES(X)                                                          \
  X(ROLLCALL_LIB_DIR, path, environment, "",                                                   \
    "where `rollcall run` takes the libraries from, for the job and for --emulate; else from " \
    "beside the command")                                                                      \
  X(ROLLCALL_SUMMARY_SECONDS, count, environment, "2",                                         \
    "seconds that `rollcall run` may take at the end of a job that went well for its line "    \
    "about the steps (docs/SLOW.md); 0: no such line")                                         \
  X(ROLLCALL_JOB_TOKEN, text, environment, "",                                                 \
    "internal, set by `rollcall run` for its job and never to be set by anybody else: tells "  \
    "the processes that it may end from all others")

namespace rollcall::tools {

// One sentence for every ROLLCALL_* variable of this process that nothing of Rollcall reads, with
// the name that was probably meant. Nobody else tells of it: the recorder looks for the names that
// it knows.
std::vector<std::string> unknown_variables();

// One sentence for each configuration file, or line of one, that is not used
// (core/base/setting_files.h).
std::vector<std::string> setting_complaints();

}  // namespace rollcall::tools
