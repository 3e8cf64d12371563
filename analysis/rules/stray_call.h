// Calls that no other rank makes: a collective of a few that the rest went past, one that a rank
// makes on another communicator than before, and a transfer to a rank that expects none, in place
// of the one that waits for it. Whoever did not take part is not to blame for any of these.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// Without the call at a collective's position.
std::vector<uint32_t> who_is_without(const Facts& facts, const Node& waited);
// Of the processes in `absent`, without the call at a collective's position, those that are past
// it: behind its last call there each made one that those who have the call made only afterwards.
std::vector<uint32_t> who_went_past(const Facts& facts, const Node& waited,
                                    const std::vector<uint32_t>& absent);

// No step before of the callers of a collective has the call that they made here.
bool is_new_to_callers(const Facts& facts, const Node& waited);
// And those without it did what their own steps before had.
bool is_unheard_of(const Facts& facts, const Node& waited);
// The same of a call that the callers' steps before have, but not at this place.
bool is_against_habit(const Facts& facts, const Node& waited);

// A collective that its callers made beside what the others make.
Draft draft_extra_call(const Facts& facts, uint32_t node);

// Where a rank is blamed that made a collective as in its steps before, but on another
// communicator: says so. There it is one of a wrong size, or one too many, and shows as that.
void trace_to_other_communicators(const Facts& facts, std::vector<Draft>& drafts);

// The first transfer of its channel, where the steps before lead one to expect the same transfer
// with another peer, and that one waits for it. Nothing where the waiting call is no such transfer.
std::optional<Draft> draft_stray_transfer(const Facts& facts, const Node& waited);

// A transfer where the caller's steps before have another call, while its peer does, and is about
// to do, what it always did. Nothing where the waiting call is none, or the peer may owe its side.
std::optional<Draft> draft_extra_transfer(const Facts& facts, const Node& waited);

}  // namespace rollcall::analysis
