// What else may have left the record of a difference between sequences, and what is seen behind it:
// clauses for the end of a sentence about it, each with "; " in front.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "analysis/alignment/sequence.h"

namespace rollcall::analysis {

// Other slips than the one named would have left the same record.
bool is_open(const Difference& difference);
// Every later call on file that there is to compare falls in line again.
bool agrees_behind(const Difference& difference);
// "; what rank 2 calls from there on is what the others call next", of calls left out.
std::string behind_text(const Difference& difference, const std::string& who);
// "; rank 2 left out the others' call (what it called is what the others called next) or was to
// make it later, or called another in its place, or made one call more"; empty if nothing is open.
std::string readings_text(const Difference& difference, const std::string& who);

}  // namespace rollcall::analysis
