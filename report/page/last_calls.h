// The newest calls of the ranks that a verdict is about, transfers among them, in the order in
// which each rank called: as HTML that reads without scripts.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "analysis/finding.h"
#include "analysis/record/index.h"

namespace rollcall::report {

inline constexpr size_t kRanksWithCalls = 12;
inline constexpr size_t kLastCalls = 24;

// Culprits of the leading finding first, then its victims; of a run without either the first ranks.
// Empty where none of them has a call on file.
std::string last_calls_html(const analysis::Index& index, const analysis::Report& report);

// The leading finding is about a send or receive, which the roll of collectives does not show.
bool is_about_transfer(const analysis::Report& report);

}  // namespace rollcall::report
