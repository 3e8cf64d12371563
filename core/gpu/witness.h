// What tells when the GPU reached an operation and was through: events (events.h), or activity
// records (activity.h). A process has one of them. A launching thread opens an observation around a
// call of NCCL, each witness by what it needs for that, and from there on both are used alike.
#pragma once

#include <concepts>

namespace rollcall::gpu {

template <class Observer, class Observation>
concept Witness = requires(Observer witness, Observation& observation, double ticks_per_ns) {
  // The launching thread: the operations are published as pending, and are told of from now on.
  { witness.fly(observation) }
  noexcept->std::same_as<void>;
  // Nothing was launched, or nobody will ask.
  { witness.abandon(observation) }
  noexcept->std::same_as<void>;
  // The polling thread: publishes what is new. `true`: for the last time.
  { witness.poll(ticks_per_ns, true) }
  noexcept->std::same_as<void>;
};

}  // namespace rollcall::gpu
