// What the makers of findings share.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/rules/judge.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {

using trace::Comm;
using trace::Event;
using trace::Op;
using trace::Process;

Draft make_draft(Verdict verdict, Confidence confidence) {
  Draft draft;
  draft.finding.verdict = verdict;
  draft.finding.severity = severity_of(verdict);
  draft.finding.confidence = confidence;
  return draft;
}

int result_of(const trace::Event& event) {
  return event.kind == EventKind::AsyncError ? static_cast<int>(event.arguments[1]) : event.result;
}

bool is_teardown(EventKind kind) {
  return kind == EventKind::CommDestroy || kind == EventKind::CommFinalize ||
         kind == EventKind::CommAbort;
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

Culprit culprit_of(const Case& c, uint32_t p, uint32_t g) {
  const Process& process = c.process(p);
  Culprit culprit;
  culprit.rank = process.job_rank;
  culprit.process = p;
  culprit.host = process.host;
  culprit.pid = process.pid;
  if (g == kNone) return culprit;
  const Group& group = c.group(g);
  culprit.comm = group.key;
  culprit.comm_name = group.name;
  for (uint32_t i = 0; i < process.comms.size(); ++i) {
    const Seat seat = c.index.seat(p, i);
    if (seat.group == g && seat.member != kNone)
      culprit.comm_rank = group.members[seat.member].rank;
  }
  return culprit;
}

const Comm* comm_of(const Case& c, uint32_t p, uint32_t g) {
  const Process& process = c.process(p);
  for (uint32_t i = 0; i < process.comms.size(); ++i) {
    if (c.index.seat(p, i).group == g) return &process.comms[i];
  }
  return nullptr;
}

const Event* end_before_wait(const Case& c, uint32_t p, uint32_t g) {
  const Process& process = c.process(p);
  const Comm* comm = comm_of(c, p, g);
  if (comm == nullptr || comm->ended_ns == 0) return nullptr;
  // Who aborts behind others follows them.
  const bool is_own_end =
      comm->state != CommState::aborted || comm->ended_ns <= c.job.first_abort_ns;
  const std::vector<uint32_t>& waiting = c.progress.waiting(p);
  const auto waits = std::find_if(waiting.begin(), waiting.end(), [&](uint32_t i) {
    return process.comms[c.index.op(p, i).comm].ended_ns == 0;
  });
  const bool is_before = waits != waiting.end() && c.index.op(p, *waits).called_ns > comm->ended_ns;
  if (!is_own_end || !is_before) return nullptr;
  const auto end =
      std::find_if(process.events.begin(), process.events.end(), [&](const Event& event) {
        return is_teardown(event.kind) && event.comm != kCommUnknown &&
               &process.comms[event.comm] == comm;
      });
  return end == process.events.end() ? nullptr : &*end;
}

uint32_t process_at(const Case& c, uint32_t g, int32_t rank) {
  const uint32_t m = c.index.find_member(g, rank);
  return m == kNone ? kNone : c.group(g).members[m].process;
}

std::vector<int32_t> ranks_without_member(const Group& group) {
  std::vector<bool> has_member(static_cast<size_t>(std::max(group.nranks, 0)));
  for (const Member& member : group.members) {
    if (member.rank >= 0 && member.rank < group.nranks) {
      has_member[static_cast<size_t>(member.rank)] = true;
    }
  }
  std::vector<int32_t> absent;
  for (int32_t rank = 0; rank < group.nranks; ++rank) {
    if (!has_member[static_cast<size_t>(rank)]) absent.push_back(rank);
  }
  return absent;
}

std::unordered_map<uint32_t, const Lane*> lanes_of(const Case& c, uint32_t p) {
  std::unordered_map<uint32_t, const Lane*> lanes;
  for (uint32_t comm = 0; comm < c.process(p).comms.size(); ++comm) {
    const Seat seat = c.index.seat(p, comm);
    if (seat.member != kNone) lanes[seat.group] = &c.group(seat.group).members[seat.member].lane;
  }
  return lanes;
}

void set_victims(const Case& c, const std::vector<uint32_t>& processes, Finding& finding) {
  std::vector<int32_t>& victims = finding.victims;
  const std::vector<uint32_t> culprits = culprits_of(finding);
  for (const uint32_t p : processes) {
    const bool is_culprit = std::binary_search(culprits.begin(), culprits.end(), p);
    if (!is_culprit && c.process(p).job_rank >= 0) victims.push_back(c.process(p).job_rank);
  }
  std::sort(victims.begin(), victims.end());
  victims.erase(std::unique(victims.begin(), victims.end()), victims.end());
}

Evidence op_evidence(const Case& c, uint32_t p, uint32_t i, const std::string& text) {
  const Op& op = c.index.op(p, i);
  return {.file = c.process(p).file,
          .record = fmt::format("op {}", op.ticket),
          .text = fmt::format("{}: {}{}{}", rank_text(c.process(p)), call_text(c.index, p, op),
                              text.empty() ? "" : ", " + text, call_site_text(c.process(p), op))};
}

void add_evidence(const Case& c, const Blocked& where, const std::string& text, Finding& finding) {
  if (finding.evidence.size() < kEvidenceMax) {
    finding.evidence.push_back(op_evidence(c, where.process, where.op, text));
  }
}

Evidence process_evidence(const Case& c, uint32_t p) {
  return {.file = c.process(p).file,
          .record = "header",
          .text = fmt::format("{}: {}", rank_text(c.process(p)), doing_text(c.index, c.job, p))};
}

Evidence end_evidence(const Case& c, uint32_t p, const Event& end) {
  const Process& process = c.process(p);
  return {.file = process.file,
          .record = fmt::format("event {}", end.ticket),
          .text = fmt::format("{}: {} of {}", rank_text(process), rollcall::name_of(end.kind),
                              c.group(c.index.seat(p, end.comm).group).name)};
}

// Of a rank that waits in it where there is one: of that rank a finding speaks.
Blocked example_of(const Case& c, uint32_t n) {
  const Node& node = c.graph.nodes()[n];
  if (node.kind == NodeKind::p2p) return {node.process, node.op};
  if (node.kind != NodeKind::collective) return {};
  Blocked example;
  for (const Member& member : c.group(node.group).members) {
    if (!member.lane.has(node.seq)) continue;
    const Blocked call = {member.process, member.lane.at(node.seq)};
    // Sorted: they were found in the order of the processes.
    if (std::binary_search(node.callers.begin(), node.callers.end(), member.process)) return call;
    if (example.process == kNone) example = call;
  }
  return example;
}

EventKind creating_call(const Case& c, const Node& node) {
  if (c.graph.creations()[node.creation].is_split) return EventKind::CommSplit;
  switch (c.group(node.group).origin) {
    case CommOrigin::shrink:
      return EventKind::CommShrink;
    case CommOrigin::grow:
      return EventKind::CommGrow;
    default:
      return EventKind::CommInitRank;
  }
}

Verdict verdict_of_creation(const Case& c, const Node& node) {
  return creating_call(c, node) == EventKind::CommInitRank ? Verdict::init_incomplete
                                                           : Verdict::split_mismatch;
}

std::string node_text(const Case& c, uint32_t n) {
  const Node& node = c.graph.nodes()[n];
  switch (node.kind) {
    case NodeKind::host:
      return fmt::format("the host thread of {}", rank_text(c.process(node.process)));
    case NodeKind::creation: {
      const Creation& creation = c.graph.creations()[node.creation];
      if (creation.is_split) {
        return fmt::format("split {} of {}", creation.child_number, c.group(node.group).name);
      }
      return fmt::format("the creation of {}", c.group(node.group).name);
    }
    case NodeKind::unknown:
      return "a rank that left no file";
    default:
      break;
  }
  const Blocked example = example_of(c, n);
  const std::string call =
      example.process == kNone
          ? "a call"
          : call_text(c.index, example.process, c.index.op(example.process, example.op));
  return fmt::format("{}, {} {} of {}", call, node.kind == NodeKind::p2p ? "p2p seq" : "seq",
                     node.seq, c.group(node.group).name);
}

}  // namespace rollcall::analysis
