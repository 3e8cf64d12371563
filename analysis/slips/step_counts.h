// How many transfers the two ranks of a communicator of two made in a step, as a witness of who
// made one more, or one less.
//
// Nobody else is in such a communicator, and transfers of one size have no names: one too many on
// one side looks like one too few on the other. But what ranks exchange in one step they exchange
// between the same two calls of the communicator of all; and there the other ranks' numbers, or
// those of the steps before, tell which of two numbers is the usual one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

enum class CountWitness : uint8_t { none, other_ranks, one_of_several, steps_before };

// A step in which the two sides of a channel made different numbers of transfers.
struct UnevenStep {
  uint32_t channel = kNone;
  uint32_t group = kNone;  // the communicator of all
  uint64_t step = 0;       // behind so many of its calls
  uint64_t sends = 0;
  uint64_t recvs = 0;
  uint64_t seq = 0;      // of the first transfer that has no other side
  uint32_t odd = kNone;  // whose number is not the usual one; kNone: nothing tells
  CountWitness witness = CountWitness::none;
};

// A job may send in front of a call of all and receive behind it: one side is then behind the other
// until the job ends. Where that is possible, a channel says something only if its sides were even
// behind an earlier step, or became uneven in the last step but one or later.
enum class Lag : uint8_t { none, possible };

// The first of the job in which the side with fewer transfers has gone on to the next step; nothing
// where there is none, and where not all calls are on file.
std::optional<UnevenStep> first_uneven_step(const Facts& facts, Lag lag);
// Of one channel of a job that has not ended, whether its sides have gone on or not.
std::optional<UnevenStep> uneven_step_of(const Facts& facts, uint32_t channel);

}  // namespace rollcall::analysis
