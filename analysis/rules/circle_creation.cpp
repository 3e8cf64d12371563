#include "analysis/rules/circle_creation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/rules/left_out.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

// Those who are in a creation wait for ranks that are in other calls and wait for them. The call
// that most of the creation's absent ranks are in counts.
struct CreationVote {
  uint32_t node = kNone;            // that call; kNone: none of them waits for the creation's ranks
  size_t callers = 0;               // how many of the absent ranks are in it
  std::vector<uint32_t> processes;  // who is in the creation without it
};

CreationVote vote_on_creation(const Facts& facts, const Circle& circle) {
  const Creation& creation = facts.graph.creations()[facts.graph.nodes()[circle.creation].creation];
  std::vector<bool> is_absent(facts.index.run().processes.size());
  for (const uint32_t p : creation.absent) is_absent[p] = true;
  std::map<uint32_t, size_t> votes;  // by node: how many of the creation's absent ranks it has
  for (const AbsentEdge& edge : circle.absent) {
    const Node& node = facts.graph.nodes()[edge.node];
    const bool is_call = node.kind == NodeKind::collective || node.kind == NodeKind::creation;
    const bool is_new = edge.node != circle.creation && is_call && !is_absent[edge.process] &&
                        votes.try_emplace(edge.node).second;
    if (!is_new) continue;
    votes[edge.node] = static_cast<size_t>(std::count_if(node.callers.begin(), node.callers.end(),
                                                         [&](uint32_t p) { return is_absent[p]; }));
  }
  CreationVote vote;
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  if (most == votes.end()) return vote;
  vote.node = most->first;
  vote.callers = most->second;
  for (const AbsentEdge& edge : circle.absent) {
    if (edge.node == vote.node && !is_absent[edge.process]) vote.processes.push_back(edge.process);
  }
  return vote;
}

const char* have(size_t ranks) { return ranks == 1 ? "has" : "have"; }

Draft draft_absent(const Facts& facts, const Circle& circle) {
  const Node& node = facts.graph.nodes()[circle.creation];
  const Creation& creation = facts.graph.creations()[node.creation];
  Draft draft =
      make_draft(verdict_of_creation(facts, node), Confidence::certain, Misstep::left_out);
  draft.node = circle.creation;
  for (const uint32_t p : creation.absent) {
    Culprit culprit = culprit_of(facts, p, creation.group);
    culprit.op = std::string(rollcall::name_of(creating_call(facts, node)));
    draft.finding.culprits.push_back(std::move(culprit));
    draft.finding.evidence.push_back(process_evidence(facts, p));
  }
  const trace::Run& run = facts.index.run();
  const bool is_one = creation.absent.size() == 1;
  draft.finding.summary =
      fmt::format("{} went on without {}, in which {} {} been waiting for {}",
                  processes_text(run, creation.absent), node_text(facts, circle.creation),
                  processes_text(run, creation.callers), have(creation.callers.size()),
                  span_text(facts.job.end_ns - node.since_ns));
  draft.finding.next = "compare the calls that create communicators on that rank with another's";
  if (creation.is_guess) {
    draft.finding.confidence = Confidence::likely;
    draft.finding.summary += fmt::format(
        " (its members are not on file: by its number there the missing one would be {}, but it "
        "may be another)",
        processes_text(run, creation.absent));
    draft.finding.next =
        "look for the send or receive that belongs to the one in which the communicator of the "
        "pair is made";
  }
  draft.finding.summary +=
      fmt::format("; {}{}", is_one ? "" : rank_text(facts.process(creation.absent.front())) + ": ",
                  doing_text(facts.index, facts.job, creation.absent.front()));
  return draft;
}

// As many create the communicator as do not: these may have left its creation out, and those may
// have made it alone.
Draft draft_tie(const Facts& facts, const Circle& circle, const CreationVote& vote) {
  const Node& node = facts.graph.nodes()[circle.creation];
  const Creation& creation = facts.graph.creations()[node.creation];
  Draft draft = make_draft(verdict_of_creation(facts, node), Confidence::likely);
  draft.is_decided = false;
  draft.node = circle.creation;
  for (const uint32_t p : creation.callers) {
    Culprit culprit = culprit_of(facts, p, creation.group);
    culprit.op = std::string(rollcall::name_of(creating_call(facts, node)));
    draft.finding.culprits.push_back(std::move(culprit));
  }
  blame_waiting(facts, creation.absent, draft.finding);
  for (const uint32_t p : {creation.callers.front(), creation.absent.front()}) {
    draft.finding.evidence.push_back(process_evidence(facts, p));
  }
  const trace::Run& run = facts.index.run();
  const std::string absent = processes_text(run, creation.absent);
  const bool are_there = vote.node != kNone && vote.callers == creation.absent.size();
  draft.finding.summary = fmt::format(
      "{} {} been in {} for {}, and {} {} elsewhere{}; nothing on file tells whether {} left the "
      "creation out, or {} made it alone",
      processes_text(run, creation.callers), have(creation.callers.size()),
      node_text(facts, circle.creation), span_text(facts.job.end_ns - node.since_ns), absent,
      creation.absent.size() == 1 ? "waits" : "wait",
      are_there ? fmt::format(", in {}", node_text(facts, vote.node)) : "", absent,
      processes_text(run, creation.callers));
  draft.finding.next = fmt::format(
      "compare the code paths of {} and {} in front of these calls: all members have to create a "
      "communicator, or none",
      rank_text(facts.process(creation.callers.front())),
      rank_text(facts.process(creation.absent.front())));
  return draft;
}

}  // namespace

Draft draft_circle_of_creation(const Facts& facts, const Circle& circle) {
  const CreationVote vote = vote_on_creation(facts, circle);
  const Creation& creation = facts.graph.creations()[facts.graph.nodes()[circle.creation].creation];
  const size_t callers = creation.callers.size();
  if (vote.callers > callers) {
    return draft_left_out(facts, vote.node, vote.processes, Confidence::likely);
  }
  // Who is missing in a communicator of two is a guess, and told as one.
  const bool has_majority = callers > creation.absent.size() || creation.is_guess;
  return has_majority ? draft_absent(facts, circle) : draft_tie(facts, circle, vote);
}

}  // namespace rollcall::analysis
