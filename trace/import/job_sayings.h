// What the sayings of a job's log tell of each other: what one line leaves open another one says,
// and it may stand anywhere in the log. Called once all of it was read, in the order of the log.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trace/testimony.h"

namespace rollcall::trace {

// Whether it tells that a rank waits, or waited until its time was over.
bool is_about_wait(const Saying& saying);

// Which rank of the job a rank of a group is.
void settle_ranks(std::vector<Saying>& sayings);

// Whose deaths are told by the number of a process that told of a time-out. `waiting`: in which
// line each process did. After settle_ranks().
void settle_ends_of_waiting(const std::map<uint32_t, uint64_t>& waiting,
                            std::vector<Saying>& sayings);

// Whose deaths are told by the number of a process.
void settle_deaths(std::vector<Saying>& sayings);

// A process in the largest communicator that NCCL names it in.
struct Place {
  int32_t rank = -1;
  int32_t nranks = -1;
};
using Places = std::map<std::string, Place>;  // by "host:pid"

// Whose deaths are told by the number of a process, and of that its place in a communicator. That
// need not be the job's, and another host, of which no place is known, may have such a process.
void settle_places(std::vector<Saying>& sayings, const Places& places);

// The group of a time-out, by its rank's next line about the same call. `restarts`: in front of
// which sayings the launcher started the job again.
void settle_groups(std::vector<Saying>& sayings, const std::set<size_t>& restarts);

// The group of a time-out, by those of other ranks in the same attempt.
void settle_alike_groups(std::vector<Saying>& sayings);

}  // namespace rollcall::trace
