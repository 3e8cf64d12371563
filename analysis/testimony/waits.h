// Who gave up where: the time-outs of a log, by group and rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
  std::vector<WaitGroup> groups;                     // the one with the first line first
  std::map<int32_t, const trace::Saying*> speakers;  // a line of each rank
  int32_t world_size = -1;                           // as the log names it, else -1
  int32_t world_at_least = 0;
  uint64_t first_line = UINT64_MAX;  // where somebody first gave up, if one log tells everything
  bool leaves_out_alike = false;     // who does not speak may have been left out
  uint64_t left_out_from = 0;        // lines from here on were not kept; 0: all were
  bool has_waits() const { return !groups.empty(); }
};

JobWaits find_waits(const trace::Run& run);

}  // namespace rollcall::analysis
