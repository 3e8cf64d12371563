// What was kept of a job while it ran, for the page of its run: verdicts, and the stacks of one of
// them, which are a tab.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rollcall::report {

// A longer stacks.txt is not read to its end.
inline constexpr size_t kStacksBytesMax = 1 << 20;

struct KeptStacks {
  std::string where;  // the incident's folder
  std::string text;   // the beginning of its stacks.txt (report/stacks.h): of anybody's
};

struct Kept {
  KeptStacks stacks;
  std::vector<std::string> verdicts;  // a line each: of anybody's
  bool is_of_incident = false;        // the page is of one incident, which they are about
};

// Empty: there are none.
std::string stacks_html(const KeptStacks& stacks);

}  // namespace rollcall::report
