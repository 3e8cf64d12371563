// Communicators of few that nobody has joined but who makes them, while all ranks of the job are on
// file: PyTorch makes one for each pair at its first send or receive outside of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// `roots` are indices into roots(), at least one: of creations whose missing members are among
// Creation::candidates.
Draft draft_open_creations(const Facts& facts, const std::vector<uint32_t>& roots);
// That ranks have not made a call which others wait in decides nothing where each of them may wait
// for such a communicator, before there is a record of it.
void weigh_ids(const Facts& facts, const std::vector<uint32_t>& silent, Finding& finding);

}  // namespace rollcall::analysis
