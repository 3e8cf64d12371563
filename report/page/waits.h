// Waits as a tab: those that go on, which follow from the leading finding, and those in calls that
// are through, as a tree of communicators, wait states and lines of the script.
//
// Threads: plain functions.
#pragma once

#include <string>
#include <vector>

#include "analysis/finding.h"
#include "analysis/record/index.h"
#include "report/page/wait_states.h"

namespace rollcall::report {

// Empty: nobody waits, and no waits were measured.
std::string waits_html(const analysis::Index& index, const analysis::Report& report,
                       const std::vector<WaitRow>& rows);

// What follows from a finding, as a list; empty: nothing.
std::string follows_html(const analysis::Finding& finding);

}  // namespace rollcall::report
