// Jobs that stand inside a call which creates or ends a communicator, or registers memory: a host
// thread entered it and has not left it.
//
// Operations and creations that some ranks have not called are waits (waits.h), so here all ranks
// made the same ones. What NCCL waits for in the rest is not on file, but for two things: who has
// not made the call, where it is one that ranks make together, and what was captured. The end of a
// communicator waits for every CUDA graph that holds its kernels (seen of NCCL 2.27 to 2.31, of
// destroying, finalizing and aborting), and may wait for the ranks of the same machine (NCCL's
// documentation of ncclCommDestroy; seen of 2.31).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "analysis/judge.h"
#include "analysis/label.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Event;
using trace::Op;
using trace::Process;

struct Inside {
  uint32_t process = kNone;
  const Event* event = nullptr;
  uint32_t group = kNone;
};

bool is_end(EventKind kind) {
  return kind == EventKind::CommDestroy || kind == EventKind::CommFinalize ||
         kind == EventKind::CommAbort;
}

bool is_creation(EventKind kind) {
  switch (kind) {
    case EventKind::CommInitRank:
    case EventKind::CommInitRankConfig:
    case EventKind::CommInitRankScalable:
    case EventKind::CommInitAll:
    case EventKind::CommSplit:
    case EventKind::CommShrink:
    case EventKind::CommGrow:
      return true;
    default:
      return false;
  }
}

// Calls that return when every rank of the communicator has made them.
bool is_made_by_all(EventKind kind) {
  return kind == EventKind::CommWindowRegister || kind == EventKind::CommWindowDeregister ||
         kind == EventKind::DevCommCreate;
}

bool is_over(const Comm& comm) {
  return comm.state == CommState::destroyed || comm.state == CommState::finalized ||
         comm.state == CommState::aborted;
}

// An abort that came long after the last call is how somebody wanted to end a hang, not the hang.
bool is_late_abort(const Case& c, uint32_t p, const Event& event) {
  const uint32_t last = c.job.processes[p].last_op;
  return event.kind == EventKind::CommAbort && last != kNoRecord &&
         event.called_ns - c.process(p).ops[last].called_ns > c.options.ended_threshold_ns;
}

// By the time of the call.
std::vector<Inside> find_inside(const Case& c) {
  std::vector<Inside> inside;
  for (const uint32_t p : c.index.active()) {
    const uint32_t i = c.job.processes[p].inside_event;
    if (i == kNoRecord || !c.process(p).knowledge.returns) continue;
    const Event& event = c.process(p).events[i];
    if (!c.job.is_stale(event.called_ns) || is_late_abort(c, p, event)) continue;
    const bool has_comm = event.comm < c.process(p).comms.size();
    inside.push_back({p, &event, has_comm ? c.index.seat(p, event.comm).group : kNone});
  }
  std::stable_sort(inside.begin(), inside.end(), [](const Inside& a, const Inside& b) {
    return a.event->called_ns < b.event->called_ns;
  });
  return inside;
}

std::vector<uint32_t> processes_of(const std::vector<Inside>& inside) {
  std::vector<uint32_t> processes;
  for (const Inside& rank : inside) processes.push_back(rank.process);
  return processes;
}

uint64_t calls_of(const Process& process, EventKind kind, uint32_t comm) {
  return static_cast<uint64_t>(
      std::count_if(process.events.begin(), process.events.end(),
                    [&](const Event& event) { return event.kind == kind && event.comm == comm; }));
}

// Whether this member has made the call that the lead is in, or one that does as well.
bool has_called(const Case& c, const Member& member, const Inside& lead) {
  const Process& process = c.process(member.process);
  if (is_end(lead.event->kind) && is_over(process.comms[member.comm])) return true;
  return calls_of(process, lead.event->kind, member.comm) >=
         calls_of(c.process(lead.process), lead.event->kind, lead.event->comm);
}

// Members of the communicator that the lead may wait for: they live, are in no such call
// themselves, and have not made this one.
std::vector<uint32_t> find_absent(const Case& c, const Inside& lead,
                                  const std::vector<Inside>& inside) {
  std::vector<uint32_t> absent;
  const EventKind kind = lead.event->kind;
  if (lead.group == kNone || (!is_end(kind) && !is_made_by_all(kind))) return absent;
  const std::vector<uint32_t> busy = processes_of(inside);
  for (const Member& member : c.group(lead.group).members) {
    const uint32_t p = member.process;
    const bool is_near = is_made_by_all(kind) || c.process(p).host == c.process(lead.process).host;
    const bool is_there = is_near && !c.job.processes[p].gone;
    const bool is_busy = std::find(busy.begin(), busy.end(), p) != busy.end();
    if (is_there && !is_busy && !has_called(c, member, lead)) absent.push_back(p);
  }
  return absent;
}

// Operations of the communicator that a CUDA graph may still hold.
size_t captured_of(const Case& c, const Inside& rank) {
  if (rank.group == kNone || !is_end(rank.event->kind)) return 0;
  const std::vector<Op>& ops = c.process(rank.process).ops;
  return static_cast<size_t>(std::count_if(ops.begin(), ops.end(), [&](const Op& op) {
    return op.graph != 0 && op.comm == rank.event->comm;
  }));
}

std::string call_text(const Case& c, const Inside& rank) {
  const std::string name(rollcall::name_of(rank.event->kind));
  return rank.group == kNone ? name : fmt::format("{} of {}", name, c.group(rank.group).name);
}

std::string inside_text(const Case& c, const std::vector<Inside>& ranks) {
  return fmt::format("{} {} been inside {} for {}",
                     processes_text(c.index.run(), processes_of(ranks)),
                     ranks.size() == 1 ? "has" : "have", call_text(c, ranks.front()),
                     span_text(c.job.end_ns - ranks.front().event->called_ns));
}

void add_evidence(const Case& c, const std::vector<Inside>& inside, Finding& finding) {
  for (const Inside& rank : inside) {
    if (finding.evidence.size() == 8) return;
    finding.evidence.push_back(
        {.file = c.process(rank.process).file,
         .record = fmt::format("event {}", rank.event->ticket),
         .text = fmt::format("{}: {}, entered and not left", rank_text(c.process(rank.process)),
                             call_text(c, rank))});
  }
}

// Ranks that a call of several waits for, and of which nothing is on file.
std::vector<int32_t> find_unknown(const Case& c, const Inside& lead) {
  const EventKind kind = lead.event->kind;
  const bool is_joint = is_end(kind) || is_creation(kind) || is_made_by_all(kind);
  if (lead.group == kNone || !is_joint) return {};
  return ranks_without_member(c.group(lead.group));
}

Draft judge_unknown(const Case& c, const std::vector<Inside>& inside,
                    const std::vector<int32_t>& unknown) {
  const bool is_one = unknown.size() == 1;
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  Finding& finding = draft.finding;
  finding.summary =
      fmt::format("{}; {} {} of it left no file, and may be the reason", inside_text(c, inside),
                  is_one ? "rank" : "ranks", number_list(unknown));
  finding.next = fmt::format("copy the missing {} into the directory: {}",
                             is_one ? "file" : "files", is_one ? "it decides" : "they decide");
  add_evidence(c, inside, finding);
  return draft;
}

Culprit culprit_of_call(const Case& c, uint32_t p, const Inside& lead) {
  Culprit culprit = culprit_of(c, p, lead.group);
  culprit.op = std::string(rollcall::name_of(lead.event->kind));
  return culprit;
}

Draft judge_absent(const Case& c, const std::vector<Inside>& inside,
                   const std::vector<uint32_t>& absent) {
  const Inside& lead = inside.front();
  Draft draft = make_draft(Verdict::missing_call, Confidence::likely);
  Finding& finding = draft.finding;
  for (const uint32_t p : absent) finding.culprits.push_back(culprit_of_call(c, p, lead));
  finding.summary = fmt::format(
      "{}, and {} not called it; all {} made the same operations", inside_text(c, inside),
      processes_text(c.index.run(), absent) + (absent.size() == 1 ? " has" : " have"),
      everyone_text(c.index));
  const std::string waits = is_end(lead.event->kind) ? "NCCL may wait there for every rank of the "
                                                       "communicator on the same machine"
                                                     : "every rank of the communicator has to";
  const trace::Process& first = c.process(absent.front());
  finding.next = c.job.live
                     ? fmt::format("look at the stack of {} ({}): `py-spy dump` or `gdb -p {}`",
                                   rank_text(first), waits, first.pid)
                     : fmt::format("look at the code path of {} behind its last call ({})",
                                   rank_text(first), waits);
  add_evidence(c, inside, finding);
  finding.evidence.push_back(process_evidence(c, absent.front()));
  return draft;
}

Draft judge_stuck(const Case& c, const std::vector<Inside>& inside, size_t captured) {
  const Inside& lead = inside.front();
  const bool is_some = inside.size() < c.index.active().size();
  Draft draft =
      make_draft(Verdict::stuck_in_call, is_some ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  for (const Inside& rank : inside) {
    finding.culprits.push_back(culprit_of_call(c, rank.process, rank));
  }
  std::sort(finding.culprits.begin(), finding.culprits.end(),
            [](const Culprit& a, const Culprit& b) { return a.rank < b.rank; });
  finding.summary = inside_text(c, inside);
  const std::string who = rank_text(c.process(lead.process));
  if (captured != 0) {
    finding.summary += fmt::format(
        "; {} captured into CUDA graphs, and NCCL ends no communicator before the graphs that hold "
        "its kernels are destroyed",
        captured == 1 ? "an operation of it was"
                      : fmt::format("{} operations of it were", captured));
    finding.next = fmt::format(
        "destroy the graphs before the communicator (in PyTorch: delete every CUDAGraph, and what "
        "holds one, before destroy_process_group); the stack of {} shows who ends it",
        who);
  } else {
    finding.summary += fmt::format("; all {} made the same operations", everyone_text(c.index));
    finding.next = fmt::format(
        "look at the stack of {}{}", who,
        is_end(lead.event->kind)
            ? ": NCCL waits there for kernels of this communicator, for CUDA graphs that hold "
              "some, and for its own threads"
            : ", and at its network");
  }
  add_evidence(c, inside, finding);
  return draft;
}

}  // namespace

std::optional<Draft> judge_life_cycle(const Case& c) {
  const std::vector<Inside> inside = find_inside(c);
  if (inside.empty()) return std::nullopt;
  const Inside& lead = inside.front();
  // What else is stuck may be so for another reason, and is told beside.
  std::vector<Inside> alike;
  std::copy_if(inside.begin(), inside.end(), std::back_inserter(alike), [&](const Inside& rank) {
    return rank.event->kind == lead.event->kind && rank.group == lead.group;
  });
  size_t captured = 0;
  for (const Inside& rank : alike) captured = std::max(captured, captured_of(c, rank));
  const std::vector<uint32_t> absent = find_absent(c, lead, inside);
  const std::vector<int32_t> unknown = find_unknown(c, lead);
  Draft draft;
  if (captured == 0 && !absent.empty()) {
    draft = judge_absent(c, alike, absent);
  } else if (captured == 0 && !unknown.empty()) {
    draft = judge_unknown(c, alike, unknown);
  } else {
    draft = judge_stuck(c, alike, captured);
  }
  draft.since_ns = lead.event->called_ns;
  // A large job takes its time to connect: nobody should end a running one for that.
  const bool is_stuck = draft.finding.verdict == Verdict::stuck_in_call;
  if (is_stuck && c.job.live && is_creation(lead.event->kind)) {
    draft.finding.severity = Severity::risk;
  }
  set_victims(c, c.index.active(), draft.finding);
  return draft;
}

}  // namespace rollcall::analysis
