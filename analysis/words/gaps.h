// What a run does not have on file: records that were lost or are damaged, calls that were made
// while recording was paused, ranks without a file that can be read. What they called is unknown,
// not nothing.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

struct Gap {
  uint32_t process = kNone;
  std::string text;  // "261 calls were made while recording was paused"
};

// Of each process that lacks some, in order. A process that is read in several parts counts once.
std::vector<Gap> gaps_of(const Facts& facts);
// "all 4 processes"; of one "the 1 process on file".
std::string all_text(const Index& index);
// Who of a communicator is not on file, and what became of them: "rank 2 of world left no dump".
// Where files do not tell their ranks, so many are on file and which is not known.
std::string absent_ranks_text(const Group& group, std::string_view what);
// Ranks of the first communicator that is not whole: "rank 2 of world left no file that can be
// read". Empty where there is none, or the files' recorder may know of no such rank.
std::string absent_text(const Facts& facts);
// All of it in one line; empty where nothing is known to be missing.
std::string gaps_text(const Facts& facts);

}  // namespace rollcall::analysis
