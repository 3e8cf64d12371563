// The period of a sequence of symbols: the calls of a step, that come again in every step.
//
// Exact: a period is a template that the sequence repeats symbol by symbol, at least three times in
// a row somewhere, and of which all but a tenth of the sequence consists. What lies between two
// repeats (an evaluation, a checkpoint) belongs to none. Of periods within periods (layers,
// microbatches) the largest counts whose ends come so often that they are no exception: a template
// of which at most one in sixteen repeats is followed by something else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rollcall::slow {

struct Period {
  uint32_t length = 0;           // 0: there is none
  std::vector<uint32_t> begins;  // positions at which a whole repeat begins, rising
  // Smaller periods that fit parts of it, rising: layers, microbatches. At most eight.
  std::vector<uint32_t> inner;
};

inline constexpr uint32_t kRepeatsMin = 3;

// O(n) for each period that is tried; few are.
Period find_period(std::span<const uint32_t> symbols);

// Where the smallest of all rotations of the template begins (Booth): two templates that are
// rotations of each other are equal from there on.
uint32_t least_rotation(std::span<const uint32_t> symbols);

}  // namespace rollcall::slow
