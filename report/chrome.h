// A run as a Chrome trace (JSON object format), for Perfetto and chrome://tracing.
//
//   process  one per rank, pid = the job rank, named "rank 3 node0 pid 4711"; of a process that
//            drives several GPUs one per GPU, named "rank 3 (GPU 1) node0 pid 4711"
//   track    one per host thread (what the host called), one per stream (what the GPU did, where it
//            was observed; else the moment the call was made)
//   slice    one per call, every field of the record in its arguments
//   arrow    joins one collective across its ranks, and a send with its receive
//
// Times are microseconds since the first record of the run. A call that has not returned is a slice
// without an end. Events of a track are in the order of their times. Written as it goes: memory is
// the run and four bytes per call, and the run once more where a process drives several GPUs.
#pragma once

#include <functional>
#include <string>

#include "trace/model.h"

namespace rollcall::report {

// `write` gets pieces of the document in order; false from it stops. Returns the slices written.
uint64_t chrome_trace(const trace::Run& run, const std::function<bool(const std::string&)>& write);

}  // namespace rollcall::report
