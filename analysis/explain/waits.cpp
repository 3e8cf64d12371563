// Calls that wait because of a finding, listed under it.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/explain/explain.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

bool is_lead(const Draft& draft, const Node& node) {
  return node.kind == NodeKind::collective && node.group == draft.group && node.seq == draft.seq;
}

Wait describe(const Facts& facts, uint32_t n) {
  const Node& node = facts.graph.nodes()[n];
  std::vector<uint32_t> awaited;
  for (const uint32_t t : node.waits_for) {
    if (facts.graph.nodes()[t].kind == NodeKind::host)
      awaited.push_back(facts.graph.nodes()[t].process);
  }
  Wait wait{.ranks = job_ranks_of(facts, node.callers),
            .for_ranks = job_ranks_of(facts, awaited),
            .call = node_text(facts, n),
            .comm = {},
            .comm_name = {},
            .seq = {},
            .text = {}};
  if (node.kind != NodeKind::p2p && node.group != kNone) {
    wait.comm = facts.group(node.group).key;
    wait.comm_name = facts.group(node.group).name;
    if (node.kind == NodeKind::collective) wait.seq = node.seq;
  }
  wait.text = fmt::format("{} {} in {} for {}", processes_text(facts.index.run(), node.callers),
                          !facts.job.live            ? "waited"
                          : node.callers.size() == 1 ? "waits"
                                                     : "wait",
                          wait.call,
                          awaited.empty() ? "calls that others cannot reach yet"
                                          : processes_text(facts.index.run(), awaited));
  return wait;
}

}  // namespace

void list_waits(const Facts& facts, std::vector<Draft>& drafts) {
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
  for (const uint32_t n : order) {
    const uint32_t r = facts.graph.root_of(n);
    if (r == kNone || draft_of[r] == kNone) continue;
    Draft& draft = drafts[draft_of[r]];
    const Root& root = facts.graph.roots()[r];
    if (facts.graph.is_in(root, n) || n == draft.node || is_lead(draft, facts.graph.nodes()[n]))
      continue;
    if (draft.finding.waits.size() < facts.options.waits_max) {
      draft.finding.waits.push_back(describe(facts, n));
    } else {
      ++draft.finding.waits_left_out;
    }
  }
}

}  // namespace rollcall::analysis
