// The parts of the page as HTML that reads without scripts: what the text for a terminal says, and
// the tables behind it. The script makes tabs of the sections, and draws the roll in the first.
//
// Threads: plain functions.
#pragma once

#include <string>
#include <vector>

#include "analysis/finding.h"
#include "analysis/record/index.h"
#include "report/page/document.h"
#include "report/page/kept_stacks.h"
#include "report/page/wait_states.h"
#include "slow/answer.h"
#include "statistics/operation_table.h"
#include "trace/model.h"

namespace rollcall::report {

struct PageSource {
  const trace::Run& run;         // the whole run
  const analysis::Index& index;  // of the run whose ranks the report numbers
  const analysis::Report& report;
  const std::vector<statistics::OperationRow>& operations;
  const std::vector<WaitRow> waits;
  const slow::Answer& steps;
  const Kept& kept;
  uint64_t rolls_left_out = 0;
};

// The verdict, who, and what it rests on: the top of the page, whatever tab is open.
std::string verdict_html(const PageSource& source);
std::vector<Section> sections_of(const PageSource& source);

// "8 processes on 2 hosts, started 2026-11-21 02:14:04.123 UTC"
std::string facts_line(const trace::Run& run);

}  // namespace rollcall::report
