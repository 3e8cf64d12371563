// One HTML file that shows a run: the verdict, what it rests on, and the roll.
//
// The file needs nothing else: its style, script and data are in it, and its
// Content-Security-Policy lets nothing in from anywhere and no other script run (the script is
// named by its hash). Without scripts it reads as a document: only the drawing of the roll, the
// tabs and the filters are missing. report/page/data.h has the schema of the data for programs.
//
// Every name of a job's in it is text, never markup, printable and cut. Bytes are the same for the
// same run and report.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "analysis/finding.h"
#include "report/page/kept_stacks.h"
#include "trace/model.h"

namespace rollcall::report {

std::string page_html(const trace::Run& run, const analysis::Report& report, const Kept& kept = {});

}  // namespace rollcall::report
