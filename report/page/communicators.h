// The communicators of a run as a tab: who is in them, which was made of which, and in what order.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "analysis/finding.h"
#include "analysis/record/index.h"

namespace rollcall::report {

// Those that were made of another one stand below it. Beside each other those out of step come
// first, then each in the order in which its first rank made it. Empty: there is none.
std::string communicators_html(const analysis::Index& index, const analysis::Report& report);

}  // namespace rollcall::report
