// Ranks that join one communicator (ncclCommInitRank) and contradict each other: about how many
// ranks it has, about who is which rank, or about the unique id, as where each rank asked for an id
// of its own. NCCL's bootstrap counts arrivals and compares little: it logs a line at the root, if
// that, and all of them wait for ranks that will never come, or never be let in.
//
// The numbers are what the callers passed, on file on every rank: who is odd follows from a
// majority alone. That several unique ids were meant to be one is an inference: all that joined
// under them make up one communicator, rank by rank, and it is as large as the job, or its members
// are equally far apart, as those of a mesh are.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/record/index.h"
#include "analysis/record/process_state.h"

namespace rollcall::analysis {

enum class JoinMatter : uint8_t { nranks, rank, unique_id };

struct JoinDispute {
  struct Side {
    int32_t number = -1;  // nranks: what they passed; rank: what all of them claim
    uint32_t group = kNone;
    std::vector<uint32_t> processes;  // rising
  };
  JoinMatter matter = JoinMatter::nranks;
  std::vector<uint32_t> groups;   // one, or for unique ids several; the one of most ranks first
  std::vector<Side> sides;        // the largest first; of a rank the claims that exclude each other
  std::vector<uint32_t> callers;  // processes that wait in the creation, rising
  std::vector<uint32_t> culprits;  // rising; all that disagree where no majority tells
  int64_t since_ns = 0;            // when the first of them came
};

// Of communicators that somebody still waits for. No group is in two of them.
std::vector<JoinDispute> find_join_disputes(const Index& index, const JobState& job);

}  // namespace rollcall::analysis
