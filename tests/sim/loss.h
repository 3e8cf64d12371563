// Records that do not reach the reader, as they fail to in practice; and whether what is left still
// decides about a fault, by the generator's own reckoning.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/training.h"

namespace rollcall::sim {

enum class LossKind : uint8_t {
  none,
  file,         // a rank's file is absent
  overwritten,  // its oldest records are gone: the ring went round
  torn,         // its newest record was never finished
  middle,       // of every rank what lies behind its captures and before its newest calls
  captures,     // of every rank all up to its last captured call: nothing kept them
  Count
};
std::string_view name_of(LossKind kind);

struct Loss {
  LossKind kind = LossKind::none;
  int rank = -1;
};

// Takes records out of the run, of a rank chosen by `seed`.
Loss lose(Outcome& outcome, LossKind kind, uint64_t seed);

// False: what decides about the fault is among what was lost.
bool still_decides(const Program& program, const Outcome& outcome, const Truth& truth,
                   const Loss& loss);

}  // namespace rollcall::sim
