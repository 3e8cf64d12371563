// Two sequences of calls held against each other, for a person or a program.
#pragma once

#include <string>
#include <vector>

#include "comparison/compare.h"

namespace rollcall::report {

// What the two sides are called: "run1" and "run2", or "rank 3" and "rank 5".
struct Sides {
  std::string a;
  std::string b;
  bool are_ranks = false;  // of one run
};

// A line of what one side called and the other did not.
struct CompareLine {
  char sign = ' ';  // '-' only the first side, '+' only the second, ' ' both; 0: a remark
  std::string text;
  bool is_cut = false;  // it says that there is more
};
// "1,000 calls against 1,002", "the same 1,000 calls"
std::string compared_calls(const comparison::Compared& group);
// Loops are folded, and their bodies indented by two spaces. Without `all` long stretches are cut.
std::vector<CompareLine> compare_lines(const comparison::Comparison& comparison,
                                       const comparison::Compared& group, bool all);

std::string compare_text(const comparison::Comparison& comparison, const Sides& sides, bool all);
// Schema rollcall.compare/1.
std::string compare_json(const comparison::Comparison& comparison, const Sides& sides);

}  // namespace rollcall::report
