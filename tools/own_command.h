// This command again, in a process of its own: whatever it meets in the files of a run, whoever
// asks goes on.
//
// Threads: plain functions.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace rollcall::tools {

struct OwnCommand {
  std::vector<std::string> words;  // "diff", DIR, ...
  int output = -1;                 // its stdout
  bool is_mute = false;            // nothing of its stderr is seen
  bool ends_with_us = false;       // killed when this process ends
};
// The process, in a group of its own; a negative number: there is none.
pid_t start_own_command(const OwnCommand& command);

// A file in memory for what it says; negative: none can be had.
int open_answer();
// What has been written into it. Closes it.
std::string take_answer(int answer);

}  // namespace rollcall::tools
