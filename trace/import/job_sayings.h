// What the sayings of a job's log tell of each other: what one line leaves open another one says,
// and it may stand anywhere in the log. Called once all of it was read, in the order of the log.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "trace/testimony.h"

namespace rollcall::trace {

// Which rank of the job a rank of a group is.
void settle_ranks(std::vector<Saying>& sayings);

// Whose deaths are told by the number of a process that told of a time-out. `waiting`: in which
// line each process did. After settle_ranks().
void settle_ends_of_waiting(const std::map<uint32_t, uint64_t>& waiting,
                            std::vector<Saying>& sayings);

// Whose deaths are told by the number of a process.
void settle_deaths(std::vector<Saying>& sayings);

// The group of a time-out, by its rank's next line about the same call. `restarts`: in front of
// which sayings the launcher started the job again.
void settle_groups(std::vector<Saying>& sayings, const std::set<size_t>& restarts);

// The group of a time-out, by those of other ranks in the same attempt.
void settle_alike_groups(std::vector<Saying>& sayings);

}  // namespace rollcall::trace
