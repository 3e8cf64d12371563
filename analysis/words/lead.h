// What a reader is told first of a finding is short; the rest of its sentence follows as evidence.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/finding.h"

namespace rollcall::analysis {

// As long as two lines of a terminal.
inline constexpr size_t kLeadMax = 160;

// A summary in parts: the clauses, parted by "; ", that fit into a first sentence, and each of
// those that do not, without what the evidence says anyway. The first clause leads whatever its
// length.
struct Lead {
  std::string sentence;
  std::vector<std::string> rest;
};
Lead lead_of(const Finding& finding);

}  // namespace rollcall::analysis
