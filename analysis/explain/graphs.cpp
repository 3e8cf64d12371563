// What follows from graphs that hold other calls, or were replayed more or less often.
#include <algorithm>
#include <iterator>
#include <utility>

#include "analysis/explain/explain.h"
#include "analysis/gpu/fronts.h"
#include "analysis/rules/rules.h"

namespace rollcall::analysis {
namespace {

// Some ranks have made the call at which graphs differ, and some have not.
bool is_lacking(const Facts& facts, const Draft& draft) {
  if (draft.group == kNone) return false;  // it is about GPUs
  const Group& group = facts.group(draft.group);
  return group.shortest <= draft.seq && draft.seq < group.longest;
}

// Whether those who are not blamed captured what they have at this position.
bool is_captured_by_others(const Facts& facts, const Draft& draft) {
  const std::vector<uint32_t> culprits = culprits_of(draft.finding);
  const std::vector<Member>& members = facts.group(draft.group).members;
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return std::binary_search(culprits.begin(), culprits.end(), member.process) ||
           (member.lane.has(draft.seq) && facts.index.op_at(member, draft.seq).graph != 0);
  });
}

// The process's GPU has begun a replay and is not through with it: who makes no call meanwhile is
// not silent.
bool waits_in_replay(const Facts& facts, uint32_t p) {
  const std::vector<trace::Op>& ops = facts.process(p).ops;
  return std::any_of(ops.begin(), ops.end(),
                     [&](const trace::Op& op) { return is_standing_replay(facts, op); });
}

// What it called there in place of the others' captured call it did not capture.
bool has_none_captured(const Facts& facts, const Draft& draft) {
  const std::vector<uint32_t> culprits = culprits_of(draft.finding);
  const std::vector<Member>& members = facts.group(draft.group).members;
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return !std::binary_search(culprits.begin(), culprits.end(), member.process) ||
           (member.lane.has(draft.seq) && facts.index.op_at(member, draft.seq).graph == 0);
  });
}

// That a rank left a captured call out, or made the next one in its place, follows from its
// capturing less; that ranks do not come to the next call, from their waiting in a replay. Where
// calls differ in another way, that is what is wrong, whether they were captured or not. And who
// has replayed a graph too often left out what comes in front of that.
bool follows(const Facts& facts, const Draft& draft, const GraphDraft& of_graphs) {
  const Draft& graphs = of_graphs.draft;
  const std::vector<uint32_t> absent = culprits_of(draft.finding);
  const std::vector<uint32_t> diverged = culprits_of(graphs.finding);
  const bool is_of_these = graphs.group != kNone && draft.group == graphs.group &&
                           absent == diverged && is_captured_by_others(facts, graphs);
  if (is_mismatch(draft.finding.verdict)) {
    return is_of_these && draft.seq == graphs.seq && has_none_captured(facts, draft);
  }
  if (draft.finding.verdict != Verdict::missing_call) return false;
  const bool all_wait = std::all_of(absent.begin(), absent.end(), [&](uint32_t p) {
    return !std::binary_search(diverged.begin(), diverged.end(), p) && waits_in_replay(facts, p);
  });
  if (all_wait && !absent.empty()) return true;
  return is_of_these && draft.seq >= graphs.seq && !of_graphs.is_extra;
}

}  // namespace

std::optional<Draft> add_graphs(const Facts& facts, std::vector<Draft>& drafts) {
  std::optional<GraphDraft> graphs = judge_graphs(facts);
  if (!graphs) return std::nullopt;
  std::vector<Draft> others;
  std::vector<Finding> consequences;
  bool has_other_defect = false;
  for (Draft& draft : drafts) {
    if (follows(facts, draft, *graphs)) {
      consequences.push_back(std::move(draft.finding));
    } else {
      has_other_defect = has_other_defect || is_defect(draft.finding);
      others.push_back(std::move(draft));
    }
  }
  drafts = std::move(others);
  const bool explains = !consequences.empty();
  Draft& draft = graphs->draft;
  std::move(consequences.begin(), consequences.end(),
            std::back_inserter(draft.finding.consequences));
  const bool was_ended = !facts.job.live && !facts.job.all_ended_themselves;
  const bool has_stalled =
      !facts.job.all_ended_themselves && facts.job.is_stale(facts.job.last_call_ns);
  const bool may_hang = has_stalled || (was_ended && is_lacking(facts, draft));
  if (!explains && (!may_hang || has_other_defect)) {
    return is_lacking(facts, draft) ? std::optional(std::move(draft)) : std::nullopt;
  }
  if (!explains && !has_stalled) {
    draft.finding.confidence = std::max(draft.finding.confidence, Confidence::likely);
  }
  drafts.push_back(std::move(draft));
  return std::nullopt;
}

}  // namespace rollcall::analysis
