// Where a process stands, as a dump of py-spy tells it: a Saying of kind `outside` with this as its
// `op`, the place as its text, innermost frame first, and the rank of its file's name.
#pragma once

#include <algorithm>

#include "trace/testimony.h"

namespace rollcall::trace {

inline constexpr const char* kStackOp = "stack";

inline bool is_stack(const Saying& saying) {
  return saying.kind == SayingKind::outside && saying.op == kStackOp;
}

// A file that holds nothing else.
inline bool is_of_stacks(const JobLog& log) {
  return !log.sayings.empty() && std::all_of(log.sayings.begin(), log.sayings.end(), is_stack);
}

}  // namespace rollcall::trace
