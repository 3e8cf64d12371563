// What follows from a finding, and what it rests on.
#pragma once

#include <optional>
#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// Of captured sequences and numbers of replays that differ: adds the draft, and takes over those
// that follow from it. Without anything that hangs graphs may differ as they like; a call that some
// have captured and others have not is then returned. What was ended from outside may have hung
// unseen.
std::optional<Draft> add_graphs(const Facts& facts, std::vector<Draft>& drafts);
// Pending calls that wait for a root, under its draft.
void list_waits(const Facts& facts, std::vector<Draft>& drafts);
// Says with a finding what the recorder could not see and the finding rests on, and how sure that
// leaves it.
void weigh_blind_spots(const Facts& facts, std::vector<Draft>& drafts);

// An answer that is left open: it says more than what is missing for it.
inline bool is_undecided(const Draft& draft) {
  return draft.finding.verdict == Verdict::insufficient;
}
// The findings, and uses the drafts up. Hangs first, then by time; a later finding about the same
// ranks is part of the first one's story. Which of two codes follows from the other was settled
// before: by rules/errors, rules/gpu_cause, rules/graphs, rules/stray_call, and here in explain/.
std::vector<Finding> order(std::vector<Draft>& drafts);

}  // namespace rollcall::analysis
