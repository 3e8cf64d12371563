// Two sequences of calls held against each other, for a person or a program.
#pragma once

#include <string>

#include "comparison/compare.h"

namespace rollcall::report {

// What the two sides are called: "run1" and "run2", or "rank 3" and "rank 5".
struct Sides {
  std::string a;
  std::string b;
  bool are_ranks = false;  // of one run
};

std::string compare_text(const comparison::Comparison& comparison, const Sides& sides, bool all);
// Schema rollcall.compare/1.
std::string compare_json(const comparison::Comparison& comparison, const Sides& sides);

}  // namespace rollcall::report
