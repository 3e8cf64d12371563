// How ranks and calls are written by those who know the whole job.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/record/index.h"
#include "analysis/terms/calls.h"
#include "analysis/terms/numbers.h"
#include "analysis/terms/ranks.h"

namespace rollcall::analysis {

// How many are analysed: "4 processes", or "8 GPUs of 2 processes".
std::string everyone_text(const Index& index);
// Job ranks of a communicator's members, compressed: "ranks 0-3".
std::string ranks_text(const Index& index, const Group& group);
// A process's call. Root and peer are numbers in its communicator, as the program passed them:
// where the job numbers that rank otherwise, its number there is told, too, as in "Send of 4 uint8
// to 1 (rank 5)".
std::string call_text(const Index& index, uint32_t process, const trace::Op& op);
// "inside AllReduce of 4 float32 (sum)" of a call that NCCL is not through with.
std::string inside_text(const Index& index, uint32_t process, uint32_t op);
// The name of the communicator that a call is on.
std::string comm_text(const Index& index, uint32_t process, const trace::Op& op);

}  // namespace rollcall::analysis
