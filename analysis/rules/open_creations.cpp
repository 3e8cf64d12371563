#include "analysis/rules/open_creations.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

struct OpenCreations {
  std::vector<uint32_t> roots;
  std::vector<uint32_t> callers;    // rising
  std::vector<uint32_t> free;       // who waits in nothing, and may be a member; rising
  std::vector<uint32_t> elsewhere;  // who waits in another call, and may be a member; rising
  bool is_circle = false;           // all that may be members wait in one of these creations
};

OpenCreations open_creations(const Facts& facts, const std::vector<uint32_t>& roots) {
  OpenCreations open{.roots = roots, .callers = {}, .free = {}, .elsewhere = {}};
  std::set<uint32_t> callers;
  std::set<uint32_t> candidates;
  for (const uint32_t r : roots) {
    const Root& root = facts.graph.roots()[r];
    const Creation& creation = facts.graph.creations()[facts.graph.nodes()[root.nodes[0]].creation];
    callers.insert(creation.callers.begin(), creation.callers.end());
    candidates.insert(creation.candidates.begin(), creation.candidates.end());
  }
  open.callers.assign(callers.begin(), callers.end());
  open.is_circle = true;
  for (const uint32_t p : candidates) {
    if (callers.count(p) != 0) continue;
    open.is_circle = false;
    const bool is_inside = facts.job.processes[p].inside_event != kNoRecord;
    if (is_inside) continue;
    (facts.playback.waiting(p).empty() ? open.free : open.elsewhere).push_back(p);
  }
  return open;
}

std::string open_creations_text(const Facts& facts, const OpenCreations& open) {
  const trace::Run& run = facts.index.run();
  const bool is_one = open.callers.size() == 1;
  const auto sizes = [&](uint32_t r) {
    const Node& node = facts.graph.nodes()[facts.graph.roots()[r].nodes[0]];
    return facts.group(facts.graph.creations()[node.creation].group).nranks;
  };
  const int32_t nranks = sizes(open.roots.front());
  const bool is_pair = std::all_of(open.roots.begin(), open.roots.end(),
                                   [&](uint32_t r) { return sizes(r) == nranks; });
  std::string text =
      fmt::format("{} {} in the creation of a communicator{} that nobody else has joined",
                  processes_text(run, open.callers), is_one ? "waits" : "each wait",
                  is_pair ? fmt::format(" of {} ranks", nranks) : "");
  if (open.is_circle) {
    return text +
           ": they wait for each other in a circle; all ranks of the job are on file, so "
           "the missing members are among those that wait";
  }
  if (!open.free.empty()) {
    return text + fmt::format(
                      "; {} {} in no NCCL call: it joined none, or itself waits for the id of one "
                      "that they are to make, in a circle",
                      processes_text(run, open.free), open.free.size() == 1 ? "is" : "are");
  }
  if (open.elsewhere.empty()) {
    return text +
           "; all ranks of the job are on file, and those that went on without it wait elsewhere";
  }
  return text + fmt::format("; {} {} elsewhere: {} may have gone on without it",
                            processes_text(run, open.elsewhere),
                            open.elsewhere.size() == 1 ? "waits" : "wait",
                            open.elsewhere.size() == 1 ? "it" : "one of them");
}

// The rank has exchanged something in a step that is over.
bool has_exchanged(const Facts& facts, uint32_t p) {
  const std::vector<trace::Op>& ops = facts.process(p).ops;
  const auto transfer =
      std::ranges::find_if(ops, [](const trace::Op& op) { return is_p2p(op.kind); });
  return std::any_of(transfer, ops.end(),
                     [](const trace::Op& op) { return is_collective(op.kind); });
}

// The rank may wait, outside of NCCL, for the id of a communicator of two: the lower rank of a pair
// makes it when it comes to their first transfer. Not who has such a communicator with a lower rank
// and not who has gone through a step.
bool may_wait_for_id(const Facts& facts, uint32_t p) {
  if (has_exchanged(facts, p)) return false;
  bool are_pairs_made = false;
  for (const Group& group : facts.index.groups()) {
    const bool is_pair =
        group.origin == CommOrigin::init && group.nranks == 2 && facts.index.active().size() > 2;
    if (!is_pair) continue;
    are_pairs_made = true;
    if (group.is_whole() && group.members[1].process == p) return false;
  }
  return are_pairs_made;
}

}  // namespace

Draft draft_open_creations(const Facts& facts, const std::vector<uint32_t>& roots) {
  const OpenCreations open = open_creations(facts, roots);
  Draft draft = make_draft(Verdict::init_incomplete, Confidence::likely);
  Finding& finding = draft.finding;
  finding.summary = open_creations_text(facts, open);
  finding.next =
      "PyTorch makes a communicator for each pair at the first send or receive outside of a batch: "
      "pass the transfers of one exchange to batch_isend_irecv, or let every other rank receive "
      "first";
  // Who gets the id of a communicator from another rank waits outside of NCCL until it comes:
  // nobody can tell that from a rank that stands elsewhere.
  std::vector<uint32_t> blamed = open.callers;
  blamed.insert(blamed.end(), open.free.begin(), open.free.end());
  if (open.free.empty()) blamed.insert(blamed.end(), open.elsewhere.begin(), open.elsewhere.end());
  std::sort(blamed.begin(), blamed.end());
  for (const uint32_t p : blamed) {
    Culprit culprit = culprit_of(facts, p, kNone);
    culprit.op = std::string(rollcall::name_of(EventKind::CommInitRank));
    finding.culprits.push_back(std::move(culprit));
    if (finding.evidence.size() < kEvidenceMax)
      finding.evidence.push_back(process_evidence(facts, p));
  }
  std::vector<uint32_t> victims = open.callers;
  for (const uint32_t r : open.roots) {
    const Root& root = facts.graph.roots()[r];
    victims.insert(victims.end(), root.victims.begin(), root.victims.end());
    if (draft.since_ns == 0 || root.since_ns < draft.since_ns) draft.since_ns = root.since_ns;
  }
  set_victims(facts, victims, finding);
  draft.root = open.roots.front();
  draft.node = facts.graph.roots()[draft.root].waiters.front();
  return draft;
}

void weigh_ids(const Facts& facts, const std::vector<uint32_t>& silent, Finding& finding) {
  if (!std::ranges::all_of(silent, [&](uint32_t p) { return may_wait_for_id(facts, p); })) return;
  finding.confidence = Confidence::open;
  finding.summary += fmt::format(
      "; or {} for the id of a communicator of two, which a rank that waits elsewhere has not made",
      silent.size() == 1 ? "it waits" : "they wait");
}

}  // namespace rollcall::analysis
