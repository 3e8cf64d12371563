// Is the process that wrote a ring still there?
//
// Asked of the kernel where the process ran on this machine since its last boot, in this order: the
// process table (same pid and same start time, so that a reused pid is not taken for it; where the
// file is neither locked nor mapped any more, the process has gone on with another program), then
// the lock that the recorder holds on its file for as long as it lives (which also speaks for
// processes of another container; a job that closes all descriptors loses it, so where the
// heartbeat is a moment old nothing is claimed). Elsewhere the answer is `unknown`, and the
// heartbeat in the file must do.
#pragma once

#include <string>

#include "core/format/ring_layout.h"
#include "trace/model.h"

namespace rollcall::trace {

struct LivenessAnswer {
  Liveness liveness = Liveness::unknown;
  std::string evidence;
};

// `descriptor` is open on the ring file.
LivenessAnswer probe_liveness(const FileHeader& header, int descriptor);
// The same of a process that left an exit record: it may be at its exit still, and hang there.
LivenessAnswer probe_behind_exit(const FileHeader& header, int descriptor);

// One line of /proc/<pid>/stat taken apart; false where it is no such line. For the test.
struct ProcessStat {
  char state = '?';
  bool is_ending = false;  // it exits, or SIGKILL is on its way: it will not run its program again
  uint64_t start_time_ticks = 0;
};
bool parse_process_stat(const std::string& line, ProcessStat& stat);

}  // namespace rollcall::trace
