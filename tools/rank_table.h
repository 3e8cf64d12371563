// What each rank of a running job does at this moment, from its ring file: a few reads per rank,
// of the header, the communicators and the newest call on each.
//
// Threads: plain functions. What is read is judged before it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/format/ring_layout.h"

namespace rollcall::tools {

// Where the newest call on a communicator is.
enum class CallState : uint8_t {
  none,      // no call yet, or none of which anything is on file
  returned,  // whether the GPU is through is not known
  through,
  on_gpu,  // returned, and the GPU is not through
  in_call  // the host is inside NCCL
};
std::string_view name_of(CallState state);

// Where the rank stands on one communicator that is in use.
struct CommPlace {
  CommKey key{};                      // null: not on file
  bool is_ready = false;              // else the rank is in the call that makes it
  CallState state = CallState::none;  // of the newest call
  uint64_t position = 0;              // collectives that it has called there
  int64_t still_ns = 0;               // since anything is known to have happened there
};

struct RankState {
  std::string file;
  std::string host;
  uint32_t pid = 0;
  int64_t rank = -1;     // of the job; -1: none on file
  std::string liveness;  // "running", "stopped", "exited", "dead", "unknown"
  CallState state = CallState::none;
  std::string op;         // of the oldest call in flight, else of the newest
  std::string comm_name;  // "": it has none
  CommKey comm{};
  uint64_t position = 0;      // collectives that it has called there
  uint64_t lag = 0;           // and as many fewer than the first of its ranks
  int64_t age_ns = 0;         // of that call
  std::string line;           // of the script; empty: not on file
  int64_t beat_age_ns = 0;    // since the recorder's thread last showed that it runs
  int64_t record_age_ns = 0;  // since its record began
  std::vector<CommPlace> comms;
};

bool is_in_flight(CallState state);

// All ranks whose rings can be read, those first that have been in a call for longest; behind them
// those that are behind.
std::vector<RankState> read_ranks(const std::string& directory, int64_t realtime_ns);

}  // namespace rollcall::tools
