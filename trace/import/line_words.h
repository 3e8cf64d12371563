// What a line of a job's log tells beside the words of its form: whose it is, of which group, when.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/testimony.h"

namespace rollcall::trace {

// A number that a job can have as a rank; -1 else.
int32_t rank_from(int64_t number);

// The number between `begin` and `end`, where they stand so: "[rank", "]". -1: they do not.
int32_t rank_between(std::string_view line, std::string_view begin, std::string_view end);

// The rank in the job, as PyTorch, Ray, Determined or mpirun name it; -1: not told.
int32_t rank_of(std::string_view line);

// Fills in the group, and the rank in it: "[PG ID 0 PG GUID 0(default_pg) Rank 1]",
// "[PG 4 (tp) Rank 1]", "[PG 4 Rank 1]", "[Rank 1]", "[TC][rank=1][name=0]".
void read_group(std::string_view line, Saying& saying);

// Whether the group that a line names is all ranks of the job, so that ranks in it are job ranks.
bool is_default_group(const Saying& saying);

// The first "01:45:40.12" of a line, as milliseconds of the day; kUntold: there is none.
int64_t time_of(std::string_view line);

// "host:pid" in front of NCCL's own lines; empty: not told.
std::string writer_of(std::string_view line);

// Ray prints one line for several that are alike.
bool stands_for_several(std::string_view line);

}  // namespace rollcall::trace
