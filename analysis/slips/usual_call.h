// The call that a process's own steps before lead one to expect at a place.
//
// own_past.h asks the same of calls as they compare between ranks, which have peers of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

// A call as it compares with the process's own others: here the peer of a transfer matters.
Signature with_peer(const Facts& facts, uint32_t process, const trace::Op& op);
// All of them; marks are left out.
struct OwnCalls {
  std::vector<Signature> calls;
  std::vector<uint32_t> places;  // of these in Process::ops
};
const OwnCalls& own_calls(const Facts& facts, uint32_t process);

// The call of this rank's steps before that leads one to expect it again before op `i`, which may
// be one behind its last; kNoRecord where nothing does.
uint32_t usual_at(const Facts& facts, uint32_t process, size_t i);
// The same without regard to sizes.
uint32_t usual_part_at(const Facts& facts, uint32_t process, size_t i);
// Alike but for their size, which may change from step to step.
bool is_same_part(const trace::Op& a, const trace::Op& b);
// The process's steps before lead one to expect another call here: of another kind, to another
// rank, or of another of its sizes.
bool is_out_of_place(const Facts& facts, uint32_t process, uint32_t op);

}  // namespace rollcall::analysis
