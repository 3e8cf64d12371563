// What a page rests on, as a tab: what was not seen first, then who has records, until when, and
// what could not be read.
//
// Threads: plain functions.
#pragma once

#include <string>
#include <vector>

#include "analysis/record/index.h"
#include "trace/model.h"

namespace rollcall::report {

// What nobody can conclude from this run, a sentence each: ranks without a file, calls that are on
// no file or were not read, times and lines that were not recorded, clocks that nothing bounds.
// `run` is the whole one, `index` of the one whose ranks the report numbers.
std::vector<std::string> not_seen(const trace::Run& run, const analysis::Index& index);

std::string evidence_html(const trace::Run& run, const analysis::Index& index);

}  // namespace rollcall::report
