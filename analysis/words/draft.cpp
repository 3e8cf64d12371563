#include "analysis/words/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/words/label.h"

namespace rollcall::analysis {

using trace::Event;
using trace::Op;
using trace::Process;

Draft make_draft(Verdict verdict, Confidence confidence, std::optional<Misstep> misstep) {
  Draft draft;
  draft.finding.verdict = verdict;
  draft.finding.severity = severity_of(verdict);
  draft.finding.confidence = confidence;
  draft.finding.misstep = misstep ? misstep : misstep_of(verdict);
  return draft;
}

Verdict verdict_of(Slip slip) {
  switch (slip) {
    case Slip::op:
      return Verdict::op_mismatch;
    case Slip::count:
      return Verdict::count_mismatch;
    case Slip::dtype:
      return Verdict::dtype_mismatch;
    case Slip::redop:
      return Verdict::redop_mismatch;
    case Slip::root:
      return Verdict::root_mismatch;
    case Slip::order:
      return Verdict::order_mismatch;
    default:
      return Verdict::missing_call;
  }
}

bool is_mismatch(Verdict verdict) {
  switch (verdict) {
    case Verdict::op_mismatch:
    case Verdict::count_mismatch:
    case Verdict::dtype_mismatch:
    case Verdict::redop_mismatch:
    case Verdict::root_mismatch:
      return true;
    default:
      return false;
  }
}

bool is_about_calls(Verdict verdict) {
  return verdict == Verdict::missing_call || verdict == Verdict::order_mismatch ||
         is_mismatch(verdict);
}

std::vector<uint32_t> culprits_of(const Finding& finding) {
  std::vector<uint32_t> processes;
  for (const Culprit& culprit : finding.culprits) processes.push_back(culprit.process);
  std::sort(processes.begin(), processes.end());
  return processes;
}

Culprit culprit_of(const Facts& facts, uint32_t p, uint32_t g) {
  const Process& process = facts.process(p);
  Culprit culprit;
  culprit.rank = process.job_rank;
  culprit.process = p;
  culprit.host = process.host;
  culprit.pid = process.pid;
  if (g == kNone) return culprit;
  const Group& group = facts.group(g);
  culprit.comm = group.key;
  culprit.comm_name = group.name;
  for (uint32_t i = 0; i < process.comms.size(); ++i) {
    const Seat seat = facts.index.seat(p, i);
    if (seat.group == g && seat.member != kNone)
      culprit.comm_rank = group.members[seat.member].rank;
  }
  return culprit;
}

std::vector<int32_t> job_ranks_of(const Facts& facts, const std::vector<uint32_t>& processes) {
  std::vector<int32_t> ranks;
  for (const uint32_t p : processes) {
    if (facts.process(p).job_rank >= 0) ranks.push_back(facts.process(p).job_rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void take_what_follows(Finding& showed, Finding& finding) {
  finding.waits = std::exchange(showed.waits, {});
  finding.waits_left_out = std::exchange(showed.waits_left_out, 0);
  finding.consequences = std::exchange(showed.consequences, {});
}

void set_victims(const Facts& facts, const std::vector<uint32_t>& processes, Finding& finding) {
  std::vector<int32_t>& victims = finding.victims;
  const std::vector<uint32_t> culprits = culprits_of(finding);
  for (const uint32_t p : processes) {
    const bool is_culprit = std::binary_search(culprits.begin(), culprits.end(), p);
    if (!is_culprit && facts.process(p).job_rank >= 0) victims.push_back(facts.process(p).job_rank);
  }
  std::sort(victims.begin(), victims.end());
  victims.erase(std::unique(victims.begin(), victims.end()), victims.end());
}

Evidence op_evidence(const Facts& facts, uint32_t p, uint32_t i, const std::string& text) {
  const Op& op = facts.index.op(p, i);
  return {
      .file = facts.process(p).file,
      .record = fmt::format("op {}", op.ticket),
      .text = fmt::format("{}: {}{}{}", rank_text(facts.process(p)), call_text(facts.index, p, op),
                          text.empty() ? "" : ", " + text, call_site_text(facts.process(p), op))};
}

void add_evidence(const Facts& facts, const OpRef& where, const std::string& text,
                  Finding& finding) {
  if (finding.evidence.size() < kEvidenceMax) {
    finding.evidence.push_back(op_evidence(facts, where.process, where.op, text));
  }
}

Evidence process_evidence(const Facts& facts, uint32_t p) {
  return {.file = facts.process(p).file,
          .record = "header",
          .text = fmt::format("{}: {}", rank_text(facts.process(p)),
                              doing_text(facts.index, facts.job, p))};
}

Evidence end_evidence(const Facts& facts, uint32_t p, const Event& end) {
  const Process& process = facts.process(p);
  return {.file = process.file,
          .record = fmt::format("event {}", end.ticket),
          .text = fmt::format("{}: {} of {}", rank_text(process), rollcall::name_of(end.kind),
                              facts.group(facts.index.seat(p, end.comm).group).name)};
}

Verdict verdict_of_creation(const Facts& facts, const Node& node) {
  return creating_call(facts, node) == EventKind::CommInitRank ? Verdict::init_incomplete
                                                               : Verdict::split_mismatch;
}

std::string node_text(const Facts& facts, uint32_t n) {
  const Node& node = facts.graph.nodes()[n];
  switch (node.kind) {
    case NodeKind::host:
      return fmt::format("the host thread of {}", rank_text(facts.process(node.process)));
    case NodeKind::creation: {
      const Creation& creation = facts.graph.creations()[node.creation];
      if (creation.is_split) {
        return fmt::format("split {} of {}", creation.child_number, facts.group(node.group).name);
      }
      return fmt::format("the creation of {}", facts.group(node.group).name);
    }
    case NodeKind::unknown:
      return "a rank that left no file";
    default:
      break;
  }
  const OpRef example = example_of(facts, n);
  const std::string call =
      example.process == kNone
          ? "a call"
          : call_text(facts.index, example.process, facts.index.op(example.process, example.op));
  return fmt::format("{}, {} {} of {}", call, node.kind == NodeKind::p2p ? "p2p seq" : "seq",
                     node.seq, facts.group(node.group).name);
}

}  // namespace rollcall::analysis
