// What a unit's arrival followed from, and the work that its rank did by itself in between.
//
// The model: a unit arrives when everything that its stream waits for has ended, and when the work
// of its rank is done that lies in front of it, which began at its base:
//
//     arrival = max(ends of `waits_for`, base + own work)
//
// Its stream waits for the unit in front of it there; that is certain. Other units that it waits
// for, and the base, are learned from what no step contradicts. A unit of another stream that ended
// after the arrival once is no dependency; one that ends just before the arrival again and again is
// one. The base is what the arrival keeps the steadiest distance from: the end of a unit, or its
// arrival, where the work went on beside the operation (buckets of gradients).
//
// Where a unit arrived with the end of something that it waited for, its work was done some time
// before, and is hidden. It is taken to be what it is where it shows, at the most what fits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "slow/steps.h"
#include "slow/timeline.h"

namespace rollcall::slow {

// A unit of a GPU, seen from another one: its slot, and how many steps before.
struct Relative {
  uint32_t slot = kNone;
  uint32_t steps_before = 0;
  bool from_arrival = false;  // its arrival counts, and not its end

  bool operator==(const Relative&) const = default;
};

struct Slot {
  Relative base;                    // slot kNone: the unit in front of it on its stream
  std::vector<Relative> waits_for;  // besides the unit in front of it on its stream
};

class OwnTimes {
 public:
  OwnTimes(const Timeline& timeline, const Steps& steps);

  // The work of the unit's rank from its base to its arrival.
  int64_t own_ns(uint32_t unit) const { return own_ns_[unit]; }
  const std::vector<int64_t>& all() const { return own_ns_; }
  // From the end of the unit in front of it on its stream, which is certain; it may hold waits of
  // other streams.
  int64_t since_before_ns(uint32_t unit) const;

  // kNone: there is none on file.
  uint32_t base_of(uint32_t unit) const;
  bool is_from_arrival(uint32_t unit) const;
  // The units whose ends it waited for, into `units`.
  void waits_of(uint32_t unit, std::vector<uint32_t>& units) const;

 private:
  using Sample = std::vector<std::pair<uint32_t, uint32_t>>;  // (GPU, step), by GPU

  void link_streams();
  void sort_by_end(const Sample& sample);
  Sample sample_of(uint32_t role) const;
  void learn(uint32_t role);
  Slot learn(uint32_t slot, const Sample& sample) const;
  std::vector<Relative> candidates(uint32_t slot, const Sample& sample) const;
  bool is_refuted(const Relative& candidate, uint32_t slot, const Sample& sample) const;
  bool is_waited_for(const Relative& candidate, uint32_t slot, const Sample& sample) const;
  double unsteadiness(const Relative& base, uint32_t slot, const Sample& showing) const;
  Relative nearest(const std::vector<Relative>& candidates, uint32_t slot,
                   const Sample& sample) const;
  uint32_t resolve(const Relative& relative, uint32_t unit) const;
  int64_t time_of(const Relative& relative, uint32_t unit) const;
  int64_t released_ns(uint32_t unit) const;
  const Slot* slot_of(uint32_t unit) const;
  void measure();

  const Timeline& timeline_;
  const Steps& steps_;
  std::vector<uint32_t> before_;               // on its stream; kNone
  std::vector<std::vector<uint32_t>> by_end_;  // by GPU: timed units; while learning
  std::vector<std::vector<Slot>> slots_;       // by role
  std::vector<int64_t> own_ns_;
};

}  // namespace rollcall::slow
