// Calls that no other rank makes: a collective of a few that the rest went past, and a transfer to
// a rank that expects none, in place of the one that waits for it. Whoever did not take part is not
// to blame for either.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/judge.h"

namespace rollcall::analysis {

// The processes in `absent`, without the call at a collective's position, are past it: behind its
// last call there each made one that those who have the call made only afterwards.
bool went_past(const Case& the_case, const Node& waited, const std::vector<uint32_t>& absent);

// Nobody's steps before have the call that the callers of a collective made here, and those without
// it did what theirs have.
bool is_unheard_of(const Case& the_case, const Node& waited);

// A collective that its callers made beside what the others make.
Draft draft_extra_call(const Case& the_case, uint32_t node, const std::vector<uint32_t>& absent);

// The first transfer of its channel, where the steps before lead one to expect the same transfer
// with another peer, and that one waits for it. Nothing where the waiting call is no such transfer.
std::optional<Draft> draft_stray_transfer(const Case& the_case, const Node& waited);

}  // namespace rollcall::analysis
