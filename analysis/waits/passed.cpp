#include "analysis/waits/passed.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

// So many calls of every member behind a difference show that it did not stop them; of a job that
// stands, more than a host can queue.
constexpr uint64_t kWentOnCalls = 64;

// Did the job pass this difference? Counts, types and reductions that differ corrupt more often
// than they hang.
bool was_passed(const Index& index, const JobState& job, const Options& options,
                const Difference& difference) {
  const Group& group = index.groups()[difference.group];
  const bool stands = !job.all_ended_themselves && job.is_stale(job.last_call_ns);
  const uint64_t went_on = stands ? kQueuedCallsMax : kWentOnCalls;
  if (group.shortest >= difference.seq + went_on) return true;
  int64_t earliest_last_ns = INT64_MAX;
  for (const Member& member : group.members) {
    earliest_last_ns = std::min(earliest_last_ns, job.processes[member.process].last_call_ns);
  }
  return earliest_last_ns - difference.since_ns > options.ended_threshold_ns &&
         group.shortest > difference.seq + 1;
}

}  // namespace

std::vector<Difference> blocking_ones(const Index& index, const JobState& job,
                                      const Options& options,
                                      const std::vector<Difference>& differences) {
  std::vector<Difference> blocking;
  for (const Difference& difference : differences) {
    if (!was_passed(index, job, options, difference)) blocking.push_back(difference);
  }
  return blocking;
}

}  // namespace rollcall::analysis
