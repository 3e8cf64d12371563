// One HTML file that holds a run against an earlier one of the same job: the settings that differ
// first, then the calls, then what the steps cost. It is as safe, and needs as little, as the page
// of one run (report/page/page.h). Its data has the schema of report/page/data.h, without rolls and
// without `diff`, and with
//
//   compare   the document of `rollcall diff OLD NEW --json`; null: too much of it
//   against   that field of `rollcall slow OLD NEW --json`
//
// Threads: plain functions.
#pragma once

#include <string>

#include "analysis/finding.h"
#include "comparison/compare.h"
#include "report/page/kept_stacks.h"
#include "report/slow_two_runs.h"
#include "trace/model.h"

namespace rollcall::report {

struct RunOfTwo {
  const trace::Run& run;
  const analysis::Report& report;
  KeptStacks stacks = {};
};

struct TwoRunsSource {
  RunOfTwo before;
  RunOfTwo after;
  const comparison::Comparison& calls;  // of `before` with `after`
  const TwoRunsReport& settings_and_steps;
};

// "3 settings differ, 4 of 4 ranks make other calls, and the steps take 12.3 % longer."
std::string two_runs_headline(const TwoRunsSource& source);
std::string two_runs_page_html(const TwoRunsSource& source);

}  // namespace rollcall::report
