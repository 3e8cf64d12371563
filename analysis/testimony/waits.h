// Who gave up where: the time-outs of a log, by group and rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// A rank that waited until its time was over.
struct GaveUp {
  const trace::JobLog* log = nullptr;
  const trace::Saying* saying = nullptr;
};

// The position of a rank in a group, and the line that tells it.
struct Standing {
  const trace::Saying* saying = nullptr;
  int64_t enqueued = trace::kUntold;
  int64_t completed = trace::kUntold;
};

// One process group, of which some rank gave up.
struct WaitGroup {
  std::string name;                 // for people; empty: no line names it
  bool is_named = false;            // all ranks that are in here wait in one and the same group
  bool is_whole_job = false;        // it has all ranks, so that ranks in it are the job's
  std::map<int32_t, GaveUp> waits;  // by job rank: the first time that each gave up
  std::map<int32_t, Standing> standings;  // of its ranks, those that did not give up included
};

struct JobWaits {
  std::vector<WaitGroup> groups;                     // the oldest wait first
  std::map<int32_t, const trace::Saying*> speakers;  // a line of each rank
  std::map<int32_t, GaveUp> stuck;  // ranks whose watchdog does not move, and a line of each
  std::set<int32_t> told;           // ranks that tell of a time-out in other words, or in part
  int32_t world_size = -1;          // as the log names it, else -1
  int32_t world_at_least = 0;
  uint64_t first_line = UINT64_MAX;  // where somebody first gave up, if one log tells everything
  bool leaves_out_alike = false;     // who does not speak may have been left out
  bool ends_within = false;          // the one log of all ends there: more may have been printed
  uint64_t left_out_from = 0;        // lines from here on were not kept; 0: all were
  bool has_waits() const { return !groups.empty(); }
};

JobWaits find_waits(const trace::Run& run);

// The name of the group, or that it has none.
std::string group_text(const WaitGroup& group);

// The call that most of those who gave up waited in.
int64_t usual_position(const WaitGroup& group);

// Its ranks gave up transfers, of which each counts its own.
bool has_transfers(const WaitGroup& group);
bool is_transfer(const std::string& op);

// Ranks whose last call of the group is in front of that which most waited in. Empty where the
// numbers of two ranks cannot be compared.
std::vector<int32_t> ranks_behind(const WaitGroup& group);

bool waits_elsewhere(const JobWaits& waits, const WaitGroup& group, int32_t rank);

// "ranks 0-3 waited in ALLREDUCE, call 12 of tp".
std::string waiting_text(const WaitGroup& group);

// The groups that are worth a finding each where nobody is known to be to blame: the one first that
// explains the others, as far as the numbers of calls decide that, and then the oldest.
std::vector<const WaitGroup*> groups_to_tell(const JobWaits& waits);

// Of several groups which ranks wait in what, oldest first, and which of them explains the others,
// or that nothing decides it.
void tell_of_groups(const JobWaits& waits, Finding& finding);

// Ranks that PyTorch or JAX itself found missing from a call.
std::optional<Finding> judge_not_joined(const trace::Run& run);

// Slurm, or the container that a task runs in, could not start it.
bool is_start_failure(const trace::Saying& saying);

// Processes that waited for others at the start.
std::optional<Finding> judge_not_met(const trace::Run& run);

}  // namespace rollcall::analysis
