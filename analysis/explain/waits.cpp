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

// What the finding itself says: the call that it is about, and the circle that it is.
bool is_told(const Draft& draft, uint32_t n, const Node& node) {
  return n == draft.node || is_lead(draft, node) ||
         std::find(draft.told.begin(), draft.told.end(), n) != draft.told.end();
}

// Whom those wait for that are in a call.
struct Awaited {
  std::vector<uint32_t> processes;
  bool have_called = false;  // their GPUs have not come to it: they stand in an earlier call
};

Awaited awaited_in(const Facts& facts, const Node& node) {
  Awaited awaited;
  std::vector<uint32_t> fronts;
  for (const uint32_t t : node.waits_for) {
    const Node& target = facts.graph.nodes()[t];
    if (target.kind == NodeKind::host) awaited.processes.push_back(target.process);
    if (target.kind == NodeKind::front) fronts.push_back(target.process);
  }
  if (!awaited.processes.empty()) return awaited;
  awaited.have_called = true;
  awaited.processes = std::move(fronts);
  if (node.kind != NodeKind::collective) return awaited;
  std::vector<uint32_t> here = node.callers;
  std::sort(here.begin(), here.end());
  for (const Member& member : facts.group(node.group).members) {
    const bool is_here = std::binary_search(here.begin(), here.end(), member.process);
    const bool is_through = member.lane.has(node.seq) &&
                            facts.playback.is_done(member.process, member.lane.at(node.seq));
    if (!is_here && !is_through) awaited.processes.push_back(member.process);
  }
  return awaited;
}

std::string awaited_text(const Facts& facts, const Awaited& awaited) {
  if (awaited.processes.empty()) return "calls that others cannot reach yet";
  std::string who = processes_text(facts.index.run(), awaited.processes);
  if (!awaited.have_called) return who;
  return fmt::format("{}, which {} called it and {} in an earlier call", who,
                     awaited.processes.size() == 1 ? "has" : "have",
                     awaited.processes.size() == 1 ? "waits" : "wait");
}

Wait describe(const Facts& facts, uint32_t n) {
  const Node& node = facts.graph.nodes()[n];
  const Awaited awaited = awaited_in(facts, node);
  Wait wait{.ranks = job_ranks_of(facts, node.callers),
            .for_ranks = job_ranks_of(facts, awaited.processes),
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
                          wait.call, awaited_text(facts, awaited));
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
    if (is_told(draft, n, facts.graph.nodes()[n])) continue;
    if (draft.finding.waits.size() < facts.options.waits_max) {
      draft.finding.waits.push_back(describe(facts, n));
    } else {
      ++draft.finding.waits_left_out;
    }
  }
}

}  // namespace rollcall::analysis
