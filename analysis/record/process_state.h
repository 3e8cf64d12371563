// What became of each process, as far as the files and the kernel tell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/options.h"
#include "analysis/record/index.h"

namespace rollcall::analysis {

// More calls than a host can queue: a stream holds about a thousand launches, then the host waits.
inline constexpr uint64_t kQueuedCallsMax = 2048;

struct ProcessState {
  bool gone = false;          // ended clearly before the job did
  bool ended_itself = false;  // left an exit record
  bool stopped = false;
  bool beats = false;  // its file has a heartbeat: `last_sign_ns` is exact
  // Killed by so much earlier than all others, but silent for long before: it may have died, or
  // have hung and been killed by somebody. 0: not so.
  int64_t lead_ns = 0;
  int64_t last_sign_ns = 0;  // of life: exit, heartbeat, last call
  int64_t last_call_ns = 0;  // last operation or event entered
  uint32_t last_op = kNoRecord;
  uint32_t inside_op = kNoRecord;     // an operation the host entered and has not left
  uint32_t inside_event = kNoRecord;  // a life-cycle call, likewise
  int64_t inside_since_ns = 0;
  uint64_t uncounted = 0;  // calls that the recorder was not asked, or not able, to count
};

struct JobState {
  std::vector<ProcessState> processes;  // by Run::processes
  int64_t end_ns = 0;        // now for a live job, the last sign of life of any process else
  int64_t last_call_ns = 0;  // of any process
  int64_t first_abort_ns = INT64_MAX;  // of any communicator of any process
  bool live = false;
  bool all_ended_themselves = false;
  bool is_foreign = false;     // other recorders' files: ended, at a time that is not on file
  int64_t clock_doubt_ns = 0;  // times of two hosts may disagree by so much
  int64_t threshold_ns = 0;    // younger waits say nothing
  // Other recorders' files: when the first of them was written. A rank cannot have missed a call
  // that was made after its file was. 0: unknown.
  int64_t written_ns = 0;

  bool any_aborted() const { return first_abort_ns != INT64_MAX; }
  bool is_stale(int64_t since_ns) const {
    return is_foreign ? is_stale_in_files(since_ns) : end_ns - since_ns >= threshold_ns;
  }

 private:
  bool is_stale_in_files(int64_t since_ns) const {
    // A file this much older than what it holds has lost its time of writing.
    constexpr int64_t kAbsurdNs = 3'600'000'000'000;
    if (since_ns == 0 || written_ns == 0 || since_ns - written_ns > kAbsurdNs) return true;
    return written_ns - since_ns >= threshold_ns;
  }
};

JobState judge_processes(const Index& index, const Options& options);

}  // namespace rollcall::analysis
