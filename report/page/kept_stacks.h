// The stacks that an incident kept, as a tab of the page of its run.
//
// Threads: plain functions.
#pragma once

#include <string>

namespace rollcall::report {

struct KeptStacks {
  std::string where;  // the incident's folder
  std::string text;   // its stacks.txt (report/stacks.h): of anybody's
};

// Empty: there are none.
std::string stacks_html(const KeptStacks& stacks);

}  // namespace rollcall::report
