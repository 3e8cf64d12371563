// Calls that wait because of a finding, nested under it.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/explain/explain.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

bool is_lead(const Draft& draft, const Node& node) {
  return node.kind == NodeKind::collective && node.group == draft.group && node.seq == draft.seq;
}

Finding describe(const Facts& facts, uint32_t n) {
  const Node& node = facts.graph.nodes()[n];
  Verdict verdict = Verdict::missing_call;
  if (node.kind == NodeKind::p2p) verdict = Verdict::p2p_unmatched;
  if (node.kind == NodeKind::creation) verdict = verdict_of_creation(facts, node);
  Draft draft = make_draft(verdict, Confidence::certain);
  std::vector<uint32_t> awaited;
  for (const uint32_t t : node.waits_for) {
    if (facts.graph.nodes()[t].kind == NodeKind::host)
      awaited.push_back(facts.graph.nodes()[t].process);
  }
  for (const uint32_t p : awaited) {
    if (draft.finding.culprits.size() == 16) break;
    draft.finding.culprits.push_back(culprit_of(facts, p, node.group));
  }
  draft.finding.summary =
      fmt::format("{} {} in {} for {}", processes_text(facts.index.run(), node.callers),
                  !facts.job.live            ? "waited"
                  : node.callers.size() == 1 ? "waits"
                                             : "wait",
                  node_text(facts, n),
                  awaited.empty() ? "calls that others cannot reach yet"
                                  : processes_text(facts.index.run(), awaited));
  set_victims(facts, node.callers, draft.finding);
  return std::move(draft.finding);
}

}  // namespace

void nest_consequences(const Facts& facts, std::vector<Draft>& drafts) {
  std::vector<uint32_t> draft_of(facts.graph.roots().size(), kNone);
  for (uint32_t d = 0; d < drafts.size(); ++d) {
    // Of several the first: as it comes to the reader.
    if (drafts[d].root != kNone && draft_of[drafts[d].root] == kNone) draft_of[drafts[d].root] = d;
  }
  std::vector<uint32_t> order;
  for (uint32_t n = 0; n < facts.graph.nodes().size(); ++n) {
    const Node& node = facts.graph.nodes()[n];
    if (node.kind != NodeKind::host && !node.callers.empty()) order.push_back(n);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return facts.graph.nodes()[a].since_ns < facts.graph.nodes()[b].since_ns;
  });
  std::vector<uint32_t> left_out(drafts.size(), 0);
  for (const uint32_t n : order) {
    const uint32_t r = facts.graph.root_of(n);
    if (r == kNone || draft_of[r] == kNone) continue;
    Draft& draft = drafts[draft_of[r]];
    const Root& root = facts.graph.roots()[r];
    if (facts.graph.is_in(root, n) || n == draft.node || is_lead(draft, facts.graph.nodes()[n]))
      continue;
    if (draft.finding.consequences.size() < facts.options.consequences_max) {
      draft.finding.consequences.push_back(describe(facts, n));
    } else {
      ++left_out[draft_of[r]];
    }
  }
  for (uint32_t d = 0; d < drafts.size(); ++d) {
    if (left_out[d] == 0) continue;
    drafts[d].finding.consequences.back().summary +=
        fmt::format(" (and {} more calls wait like this)", left_out[d]);
  }
}

}  // namespace rollcall::analysis
