// What a process did in the steps before, as a witness of what it should have done in this one.
//
// A training job repeats itself. Where the ranks' calls cannot be held against each other, because
// they play different parts or because the position of a transfer was taken by a later one, a
// process's own earlier steps tell which call it left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

// Calls of a process as they compare between ranks that play different parts: the communicator's
// role in place of its identity, no peers. `begin` and `end` are indices into Process::ops.
std::vector<Signature> tokens(const Facts& facts, uint32_t process, size_t begin, size_t end);

struct HabitBreak {
  uint32_t op = kNoRecord;         // what it called instead
  uint32_t precedent = kNoRecord;  // the earlier call that was expected to come again
  Alignment alignment;
  // The same of the calls up to the first that no step before had, where some are left: from there
  // on the process does something else, which contradicts nothing. Else as `alignment`.
  Alignment until_new;
  bool is_settled = false;  // a whole step before it was as the one before that
};
// The break that is nearest to the call in which the process waits (or to its last call); nothing
// where it did what it always did, or has no earlier step.
std::optional<HabitBreak> habit_break(const Facts& facts, uint32_t process);

// From the break on the process did as before, but for calls on the communicator of the first one
// that it left out.
struct Omission {
  uint32_t left_out = 0;
  uint32_t behind = 0;  // calls on other communicators that it went on with
};
// Nothing where it did something else as well, or may only repeat a step for the first time.
std::optional<Omission> omission_of(const Facts& facts, uint32_t process, const HabitBreak& found);

}  // namespace rollcall::analysis
