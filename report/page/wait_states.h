// Who waited in calls that are through, for whom, and for how long: by the names that Scalasca and
// Cube give to wait states, as far as what NCCL records justifies them (docs/VIEWS.md).
//
// Times are of GPUs, and differences of durations: the call of the rank that came last is the
// shortest one and held no wait, and what another rank's took longer it waited; behind a root it is
// the root's call, and in a transfer that of the other side. Where the arrival of a call is
// in doubt the wait is the least that it may have been. No clock of one host is held against
// another's (slow/timeline.h). Calls of one group have one time: their wait is told of the one
// whose last partner came latest.
//
// Cost: linear in the records on file. Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/finding.h"
#include "analysis/record/index.h"

namespace rollcall::report {

// X(name, words)
#define ROLLCALL_WAIT_STATES(X)       \
  X(wait_at_nxn, "Wait at NxN")       \
  X(late_broadcast, "Late Broadcast") \
  X(early_reduce, "Early Reduce")     \
  X(late_sender, "Late Sender")       \
  X(late_receiver, "Late Receiver")

enum class WaitState : uint8_t {
#define ROLLCALL_X(name, words) name,
  ROLLCALL_WAIT_STATES(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
std::string_view words_of(WaitState state);

bool has_rank(const std::vector<int32_t>& sorted, int32_t rank);

// Calls of one kind from one line of the script on one communicator, of all ranks together.
struct WaitRow {
  uint32_t group = analysis::kNone;  // of the index
  WaitState state = WaitState::wait_at_nxn;
  OpKind kind = OpKind::AllReduce;
  std::string line;         // "train.py:63 metrics_of"; empty: not recorded
  uint64_t calls = 0;       // that may have waited
  int64_t waited_ns = 0;    // in these together
  int64_t longest_ns = 0;   // in one of them
  int64_t duration_ns = 0;  // of these together
  // The process that was waited for longest, and its part of `waited_ns`; kNone: nobody knows.
  uint32_t awaited = analysis::kNone;
  int64_t awaited_ns = 0;
};

// Some call was timed on a GPU. Where none was, neither waits nor the cost of steps are known.
// The time at which a watchdog of another recorder saw that a call was through is none.
bool has_gpu_times(const trace::Run& run);
bool has_gpu_times(const trace::Process& process);

// Of calls with a GPU time on every rank that takes part. By communicator, state, kind and line;
// within each what was waited longest comes first.
std::vector<WaitRow> wait_rows(const analysis::Index& index);

// The name of a wait that goes on at the end of the record; empty where none of the names fits.
std::string_view wait_state_of(const analysis::Index& index, const analysis::Wait& wait);

}  // namespace rollcall::report
