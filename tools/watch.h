// Tells when a job, or a part of it, has stopped advancing, from its ring files alone.
//
// A communicator in which somebody waits and nobody gets on (tools/stall.h) is one reason to ask
// the analysis. The other: a call is recorded before NCCL is entered, so a job in which no process
// hands out a new ticket for as long as the user set has every process inside a call, or busy
// elsewhere.
//
// A look costs a few reads per rank. Of a large job looks become rarer, so that they take a
// fiftieth of one processor at most.
#pragma once

#include <cstdint>
#include <string>

#include "tools/ring_positions.h"
#include "tools/stall.h"

namespace rollcall::tools {

struct WatchWord {
  Act act = Act::nothing;
  bool is_of_all = false;   // nothing at all has advanced
  bool is_final = false;    // for as long as the user set
  int64_t quiet_ns = 0;     // how long nothing has advanced, or had
  int64_t patience_ns = 0;  // after which that is asked
};

class Watch {
 public:
  // `patience_ns` 0: never speaks. `is_by_default`: nobody asked for it, so that a job in which
  // nothing advances is asked about more and more rarely.
  Watch(std::string directory, int64_t patience_ns, bool is_by_default)
      : directory_(std::move(directory)),
        patience_ns_(patience_ns),
        is_by_default_(is_by_default),
        positions_(directory_),
        stalls_(patience_ns) {}

  // Looks at the files. After `ask` answered() has to come before the next look.
  WatchWord look(int64_t now_ns);
  void answered(bool is_hang);
  bool enabled() const { return patience_ns_ > 0; }
  bool is_by_default() const { return is_by_default_; }

 private:
  WatchWord look_at_all(int64_t now_ns, bool has_moved);

  const std::string directory_;
  const int64_t patience_ns_;
  const bool is_by_default_;
  RingPositions positions_;
  StallWatch stalls_;
  int64_t next_look_ns_ = 0;
  // Of the job as a whole.
  uint64_t fingerprint_ = 0;
  int64_t advanced_ns_ = 0;  // 0: no record yet
  int64_t spoke_ns_ = 0;     // 0: not since then
  int64_t span_ns_ = 0;      // until it speaks (again)
  bool is_asked_ = false;
  bool is_open_ = false;  // a hang of the whole job was told of
};

}  // namespace rollcall::tools
