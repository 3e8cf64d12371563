// A small made-up run with simulated times, and what the analysis says of it: rank 2 of 4 never
// called the all-reduce the others wait in.
#pragma once

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::test {

inline constexpr int64_t kStartNs = 1'700'000'000'000'000'000;
inline constexpr CommKey kWorldKey{0x1122334455667788, 0x99aabbccddeeff00};

trace::Run missing_call_run();
analysis::Report missing_call_report();
// The same ranks in two processes, a GPU and a thread for each: ranks 0 and 1 in the first one.
trace::Run several_gpus_run();

}  // namespace rollcall::test
