// Hosts whose clocks disagree, and times that are no clock's.
//
// Every recorded time is one of its host's own clock. Two hosts that build a communicator together
// bound the difference between their clocks from both sides, because no rank's creation ends before
// every rank's has begun. With B's clock ahead of A's by d:
//
//     begun_B - ready_A <= d <= ready_B - begun_A
//
// and so for each communicator that they share; the bounds are as far apart as the ranks were when
// they came to it. Where zero lies between the bounds nothing disproves the clocks, and they are
// believed. Elsewhere the host's times are moved by the middle of the bounds.
#pragma once

#include <cstdint>

#include "trace/model.h"

namespace rollcall::trace {

// Moves the times of hosts whose clocks are disproved onto the clock of one of them: of a host
// whose processes still run, else of the host with most processes. Says so in an Issue per host,
// and leaves in Process::clock_doubt_ns how far off it may still be. Process::clock_bound_ns has
// the bounds of all hosts, also of those whose clocks are believed.
void align_clocks(Run& run);

// Times later than the reading of the files, by more than clocks are apart: a scribbled record.
// Left alone, one of them would be the end of the run, and all others would have waited for years.
// They become unknown, and an Issue per file says how many.
void forget_times_to_come(Run& run);

// In the year 2096. The sum of two differences of times up to it fits into 64 bits, and so does
// that of a time and any span that the analysis knows.
inline constexpr int64_t kTimeMaxNs = 4'000'000'000'000'000'000;

// Keeps what a damaged file says of times between 0 (unknown) and kTimeMaxNs. Whoever makes a
// process of a file calls it once, so that nobody who computes with times need fear for them.
void bound_times(Process& process);

// Adds `span_ns` to every time of the process that is known.
void shift_times(Process& process, int64_t span_ns);

}  // namespace rollcall::trace
