// The environment's ROLLCALL_* variables, as far as the command looks at them for the recorder.
//
// Threads: the main thread alone.
#pragma once

#include <string>
#include <vector>

namespace rollcall::tools {

// One sentence for every ROLLCALL_* variable of this process that nothing of Rollcall reads, with
// the name that was probably meant. Nobody else tells of it: the recorder looks for the names that
// it knows.
std::vector<std::string> unknown_variables();

}  // namespace rollcall::tools
