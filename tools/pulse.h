// Whether the job in a run directory lives or hangs, by one look at its files and no memory of an
// earlier one.
//
// It hangs where `rollcall run` has left a verdict there that says so, and that has lasted (see
// standing_incident). Else where a rank waits in a communicator, none of its ranks has got on for
// the patience, and the analysis, which is asked only then, says that it hangs. Watch
// (tools/watch.h) looks again and again, and so knows more: what is usual for the job, and
// transfers apart from collectives.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/rank_table.h"

namespace rollcall::tools {

enum class Pulse : uint8_t {
  absent,      // there is no such directory
  unrecorded,  // nothing is in it yet
  over,        // no process of it is left
  undecided,   // it stands still, and the analysis does not call that a hang, or took too long
  lives,
  hangs
};

struct PulseLook {
  Pulse pulse = Pulse::lives;
  std::string verdict;  // the code and its sentence, of a hang
  int status = 0;       // of a hang, by its class (tools/class_status.h)
  size_t ranks = 0;     // that are left
};

// `answer_ns`: what the analysis may take.
PulseLook look_at_pulse(const std::string& directory, int64_t patience_ns, int64_t answer_ns);

// A rank waits in some communicator, and none of its ranks has got on for so long. Of `ranks` those
// that are gone wait for nobody.
bool stands_still(const std::vector<RankState>& ranks, int64_t patience_ns);

}  // namespace rollcall::tools
