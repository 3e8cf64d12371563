// Rings that earlier runs left in the local place (core/format/ring_copy.h). Whoever reads such a
// run brings them home; of runs that nobody reads they would stay, each in memory of the machine.
#pragma once

#include <string>

namespace rollcall::tools {

// Removes those of the caller's whose process is gone and of which nothing is lost: the copy in the
// run directory is complete, or there has been no run directory any more for an hour. Asks the file
// systems of those directories, and so may not come back for long.
void sweep_rings(const std::string& local_directory);
// The same beside the caller, who does not wait for it; what is not done when the process ends is
// left to the next one.
void sweep_rings_beside(const std::string& local_directory);

}  // namespace rollcall::tools
