// How often an answer about a job of the virtual cluster is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/slow/timed_training.h"

namespace rollcall::timed {

enum class Outcome : uint8_t { right, wrong, abstained };

// Of ranks named (none: abstained). Right is who names culprits and nobody else; in a job without
// culprits, who names nobody.
Outcome judge(const Truth& truth, std::vector<int> named);

struct Scored {
  Training training;
  Truth truth;
  Outcome ours = Outcome::abstained;
  Outcome last_arrivals = Outcome::abstained;
  Outcome dixon_votes = Outcome::abstained;
  std::string verdict;   // ours; empty: none
  double recovered = 0;  // as we say
  std::string why_not;
};

Scored score(const Training& training);

// A truth that is worth a name: what is saved reaches `least` of a step.
bool is_worth(const Truth& truth, double least);

}  // namespace rollcall::timed
