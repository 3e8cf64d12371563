// What keeps a job from being recorded, or would: one remark for each thing that was looked at.
//
// Threads: the main thread alone. Nothing is changed, started or written, but for a file without a
// name that is made and gone in the run directory, to see whether it can be.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rollcall::tools {

enum class Mark {
  good,
  open,  // works, and something about it is to be known
  bad,   // nothing, or not all, is recorded
};

struct Remark {
  Mark mark;
  std::string subject;   // one word or two, for the column in front
  std::string sentence;  // what is the case
  std::string advice{};  // what to do about it
};
using Remarks = std::vector<Remark>;

// The program of a command line, as it would be started here: what can be told from its file.
Remarks examine_program(const std::vector<std::string>& command);
// The libraries of this installation, and LD_PRELOAD and others of this environment.
Remarks examine_installation();
// Where the files would go: rights, room, the kind of file system.
Remarks examine_directory(const std::string& directory);
// Clock, limits, GPU driver, sandbox.
Remarks examine_system();
// A process and all that descend from it.
Remarks examine_process_tree(pid_t pid);
// What the processes of a run have written about themselves.
Remarks examine_rings(const std::vector<std::string>& rings);

}  // namespace rollcall::tools
