// Jobs that stand inside a call which creates or ends a communicator, or registers memory: a host
// thread entered it and has not left it.
//
// Operations and creations that some ranks have not called are waits (waits/wait_graph.h), so here
// all ranks made the same ones. What NCCL waits for in the rest is not on file, but for three
// things:
//
// - Who has not made the call, where it is one that ranks make together: registering a window, and,
//   among the ranks of a machine, destroying and finalizing (NCCL's documentation of
//   ncclCommDestroy; seen of 2.31). Aborting waits for no other rank.
// - In which of these the others are instead, as where communicators are ended in different orders.
// - What was captured: the end of a communicator waits for every CUDA graph that holds its kernels
//   (seen of NCCL 2.27 to 2.31, of destroying, finalizing and aborting).
//
// The end of a communicator also waits for its kernels. So nothing here is certain, and where most
// ranks have not ended theirs, they may as well wait for the kernels, too.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/rules/rules.h"
#include "analysis/words/doing.h"
#include "analysis/words/gaps.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Event;
using trace::Op;
using trace::Process;

struct Inside {
  uint32_t process = kNone;
  const Event* event = nullptr;
};

// Ranks that are inside the same call of the same communicator, by the time of the call.
struct Stand {
  EventKind kind{};
  uint32_t group = kNone;  // of a creation: the parent's
  std::vector<Inside> ranks;
  bool is_late_abort = false;
  // Members that the call may wait for: they have not made it and are inside no other;
  std::vector<uint32_t> absent;
  // of these it is not on file whether they have made it;
  std::vector<uint32_t> unclear;
  // and these ranks of the communicator left no file.
  std::vector<int32_t> unknown;
  bool waits_for_others = false;  // for ranks that are inside another of these calls
  size_t captured = 0;            // operations that CUDA graphs may still hold
  uint64_t calls = 0;             // of this kind by the first rank on this communicator
};

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

// Ranks of one machine may wait for each other there.
bool is_joint_end(EventKind kind) {
  return kind == EventKind::CommDestroy || kind == EventKind::CommFinalize;
}

// Calls that return when every rank of the communicator has made them.
bool is_made_by_all(EventKind kind) {
  return kind == EventKind::CommWindowRegister || kind == EventKind::DevCommCreate;
}

bool has_ended(const Comm& comm) {
  return comm.state == CommState::destroyed || comm.state == CommState::finalized ||
         comm.state == CommState::aborted;
}

// An abort that came long after the last call, or replay of a graph, may be how somebody wanted to
// end a hang, and not the hang.
bool is_late_abort(const Facts& facts, uint32_t p, const Event& event) {
  const std::vector<Op>& ops = facts.process(p).ops;
  return event.kind == EventKind::CommAbort && !ops.empty() &&
         event.called_ns - ops.back().called_ns > facts.options.ended_threshold_ns;
}

std::vector<Inside> find_inside(const Facts& facts) {
  std::vector<Inside> inside;
  for (const uint32_t p : facts.index.active()) {
    const ProcessState& state = facts.job.processes[p];
    if (state.inside_event == kNoRecord || state.ended_itself) continue;
    if (!facts.process(p).knowledge.returns) continue;
    const Event& event = facts.process(p).events[state.inside_event];
    if (facts.job.is_stale(event.called_ns)) inside.push_back({p, &event});
  }
  std::stable_sort(inside.begin(), inside.end(), [](const Inside& a, const Inside& b) {
    return a.event->called_ns < b.event->called_ns;
  });
  return inside;
}

uint64_t calls_of(const Process& process, EventKind kind, uint32_t comm) {
  return static_cast<uint64_t>(
      std::count_if(process.events.begin(), process.events.end(),
                    [&](const Event& event) { return event.kind == kind && event.comm == comm; }));
}

// By the first rank that entered.
std::vector<Stand> find_stands(const Facts& facts) {
  std::vector<Stand> stands;
  for (const Inside& rank : find_inside(facts)) {
    const Event& event = *rank.event;
    const bool has_comm = event.comm < facts.process(rank.process).comms.size();
    const uint32_t group = has_comm ? facts.index.seat(rank.process, event.comm).group : kNone;
    const bool is_late = is_late_abort(facts, rank.process, event);
    const auto same = std::find_if(stands.begin(), stands.end(), [&](const Stand& stand) {
      return stand.kind == event.kind && stand.group == group && stand.is_late_abort == is_late;
    });
    Stand& stand = same == stands.end() ? stands.emplace_back() : *same;
    stand.kind = event.kind;
    stand.group = group;
    stand.is_late_abort = is_late;
    if (stand.ranks.empty())
      stand.calls = calls_of(facts.process(rank.process), event.kind, event.comm);
    stand.ranks.push_back(rank);
  }
  return stands;
}

bool has_all_events(const Process& process) {
  const auto dropped = process.statistics.find("dropped_event");
  const bool has_dropped = dropped != process.statistics.end() && dropped->second != 0;
  return !has_dropped && (process.events.empty() || process.events.front().ticket <= 1);
}

// Whether the file of this member can show that it has not made the call.
bool shows_calls(const Facts& facts, uint32_t p) {
  const Process& process = facts.process(p);
  return process.knowledge.returns && !process.capture_off && facts.job.processes[p].uncounted == 0;
}

size_t captured_of(const Facts& facts, const Inside& rank) {
  const std::vector<Op>& ops = facts.process(rank.process).ops;
  return static_cast<size_t>(std::count_if(ops.begin(), ops.end(), [&](const Op& op) {
    return op.graph != 0 && op.comm == rank.event->comm;
  }));
}

// Whether this member has made the call, or another end of the communicator.
bool has_called(const Facts& facts, const Member& member, const Stand& stand) {
  const Process& process = facts.process(member.process);
  if (is_made_by_all(stand.kind)) {
    return calls_of(process, stand.kind, member.comm) >= stand.calls;
  }
  return has_ended(process.comms[member.comm]) ||
         std::any_of(process.events.begin(), process.events.end(), [&](const Event& event) {
           return is_teardown(event.kind) && event.comm == member.comm;
         });
}

// `stand_of`: by process, kNone for those that are inside no call.
void look_at_members(const Facts& facts, const std::vector<Stand>& stands,
                     const std::vector<uint32_t>& stand_of, Stand& stand) {
  const bool is_by_all = is_made_by_all(stand.kind);
  const Process& caller = facts.process(stand.ranks.front().process);
  for (const Member& member : facts.group(stand.group).members) {
    const uint32_t p = member.process;
    const Process& process = facts.process(p);
    const bool is_inside = stand_of[p] != kNone;
    if (is_inside && &stands[stand_of[p]] == &stand) continue;
    if (!is_by_all && process.host != caller.host) continue;
    // Calls are counted where those are.
    const bool is_clear = !is_by_all || (has_all_events(process) && has_all_events(caller));
    if (is_clear && has_called(facts, member, stand)) continue;
    const ProcessState& state = facts.job.processes[p];
    if (is_inside) {
      stand.waits_for_others = true;
    } else if (!is_clear || !shows_calls(facts, p)) {
      stand.unclear.push_back(p);
    } else if (!state.gone || state.ended_itself) {
      stand.absent.push_back(p);
    }
  }
}

void look_for_reasons(const Facts& facts, std::vector<Stand>& stands) {
  std::vector<uint32_t> stand_of(facts.index.run().processes.size(), kNone);
  for (size_t i = 0; i < stands.size(); ++i) {
    for (const Inside& rank : stands[i].ranks) stand_of[rank.process] = static_cast<uint32_t>(i);
  }
  for (Stand& stand : stands) {
    if (stand.group == kNone) continue;
    const bool is_joint = is_joint_end(stand.kind) || is_made_by_all(stand.kind);
    if (is_joint) look_at_members(facts, stands, stand_of, stand);
    if (is_joint || is_creation(stand.kind)) {
      stand.unknown = ranks_without_member(facts.group(stand.group));
    }
    if (!is_teardown(stand.kind)) continue;
    for (const Inside& rank : stand.ranks) {
      stand.captured = std::max(stand.captured, captured_of(facts, rank));
    }
  }
}

// The stand that explains the others: one that waits for a rank inside no call, else one that waits
// for none of the others, else, in a circle, the first.
const Stand* find_lead(const std::vector<Stand>& stands) {
  const Stand* lead = nullptr;
  const auto merit = [](const Stand& stand) {
    if (stand.is_late_abort) return stand.captured != 0 ? 1 : 0;
    if (!stand.absent.empty()) return 4;
    return stand.waits_for_others ? 2 : 3;
  };
  for (const Stand& stand : stands) {
    if (merit(stand) > (lead == nullptr ? 0 : merit(*lead))) lead = &stand;
  }
  return lead;
}

std::string call_text(const Facts& facts, const Stand& stand) {
  const std::string name(rollcall::name_of(stand.kind));
  return stand.group == kNone ? name : fmt::format("{} of {}", name, facts.group(stand.group).name);
}

std::string inside_text(const Facts& facts, const Stand& stand) {
  return fmt::format("{} {} been inside {} for {}",
                     processes_text(facts.index.run(), processes_of(stand.ranks)),
                     stand.ranks.size() == 1 ? "has" : "have", call_text(facts, stand),
                     span_text(facts.job.end_ns - stand.ranks.front().event->called_ns));
}

std::string graphs_text(size_t captured) {
  return fmt::format(
      "{} captured into CUDA graphs, and NCCL ends no communicator before the graphs that hold its "
      "kernels are destroyed",
      captured == 1 ? "an operation of it was" : fmt::format("{} operations of it were", captured));
}

void add_evidence(const Facts& facts, const Stand& stand, Finding& finding) {
  for (const Inside& rank : stand.ranks) {
    if (finding.evidence.size() == kEvidenceMax) return;
    finding.evidence.push_back(
        {.file = facts.process(rank.process).file,
         .record = fmt::format("event {}", rank.event->ticket),
         .text = fmt::format("{}: {}, {}", rank_text(facts.process(rank.process)),
                             call_text(facts, stand),
                             rank.event->is_in_progress ? "in progress" : "entered and not left")});
  }
}

void add_culprits(const Facts& facts, const Stand& stand, const std::vector<uint32_t>& processes,
                  Finding& finding) {
  for (const uint32_t p : processes) {
    finding.culprits.push_back(culprit_of(facts, p, stand.group));
    finding.culprits.back().op = std::string(rollcall::name_of(stand.kind));
  }
  std::sort(finding.culprits.begin(), finding.culprits.end(),
            [](const Culprit& a, const Culprit& b) { return a.rank < b.rank; });
}

std::string have_text(const Facts& facts, const std::vector<uint32_t>& processes) {
  return processes_text(facts.index.run(), processes) + (processes.size() == 1 ? " has" : " have");
}

// Nothing on file decides: `why` is about the stand, and begins a part of the sentence.
Draft leave_open(const Facts& facts, const Stand& stand, const std::string& why, std::string next) {
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = inside_text(facts, stand) + why;
  draft.finding.next = std::move(next);
  add_evidence(facts, stand, draft.finding);
  return draft;
}

Draft judge_unknown(const Facts& facts, const Stand& stand) {
  const bool is_one = stand.unknown.size() == 1;
  return leave_open(facts, stand,
                    fmt::format("; {}, and may be the reason",
                                absent_ranks_text(facts.group(stand.group), "left no file")),
                    fmt::format("copy the missing {} into the directory: {}",
                                is_one ? "file" : "files", is_one ? "it decides" : "they decide"));
}

Draft judge_unclear(const Facts& facts, const Stand& stand) {
  const uint32_t p = stand.unclear.front();
  Draft draft = leave_open(
      facts, stand,
      fmt::format("; whether {} made that call is not on file", have_text(facts, stand.unclear)),
      fmt::format("look at the stack of {}; `rollcall info` says what its recorder missed",
                  rank_text(facts.process(p))));
  draft.finding.evidence.push_back(process_evidence(facts, p));
  return draft;
}

Draft judge_late_abort(const Facts& facts, const Stand& stand) {
  return leave_open(facts, stand,
                    fmt::format(", and entered it long after the last call on file; {}. That, or "
                                "what was to be aborted, is what hangs",
                                graphs_text(stand.captured)),
                    "look in the job's log for what aborted the communicator, and why");
}

// Ends: most members of the machine are elsewhere, so they may wait for the kernels as well.
Draft judge_few(const Facts& facts, const Stand& stand) {
  Draft draft = leave_open(
      facts, stand,
      fmt::format(", and {} not called it: NCCL waits there for kernels of the communicator, and "
                  "may wait for its ranks on the same machine",
                  have_text(facts, stand.absent)),
      fmt::format("look at the stacks of {} and {}: if they wait for the GPU alike, a kernel hangs",
                  rank_text(facts.process(stand.ranks.front().process)),
                  rank_text(facts.process(stand.absent.front()))));
  draft.finding.evidence.push_back(process_evidence(facts, stand.absent.front()));
  return draft;
}

bool is_of_one_process(const Facts& facts, const Stand& stand) {
  const Process& caller = facts.process(stand.ranks.front().process);
  return std::all_of(stand.absent.begin(), stand.absent.end(), [&](uint32_t p) {
    return facts.process(p).pid == caller.pid && facts.process(p).host == caller.host;
  });
}

std::string absent_next_text(const Facts& facts, const Stand& stand) {
  const Process& first = facts.process(stand.absent.front());
  const char* waits = is_made_by_all(stand.kind)
                          ? "every rank of the communicator has to"
                          : "NCCL may wait there for every rank of the communicator on the same "
                            "machine";
  if (is_of_one_process(facts, stand)) {
    return fmt::format("call it for all GPUs of a process in one group ({})", waits);
  }
  if (!facts.job.live || facts.job.processes[stand.absent.front()].ended_itself) {
    return fmt::format("look at the code path of {} behind its last call ({})", rank_text(first),
                       waits);
  }
  return fmt::format("look at the stack of {} ({}): {}", rank_text(first), waits,
                     stack_tools_text(first));
}

Draft judge_absent(const Facts& facts, const Stand& stand) {
  const bool is_few = 2 * stand.absent.size() <= stand.absent.size() + stand.ranks.size();
  if (!is_few && !is_made_by_all(stand.kind)) return judge_few(facts, stand);
  const bool has_exited = std::all_of(stand.absent.begin(), stand.absent.end(), [&](uint32_t p) {
    return facts.job.processes[p].ended_itself;
  });
  Draft draft = make_draft(Verdict::missing_call, is_few ? Confidence::likely : Confidence::open,
                           has_exited ? Misstep::left_out : Misstep::not_reached);
  Finding& finding = draft.finding;
  add_culprits(facts, stand, stand.absent, finding);
  finding.summary =
      fmt::format("{}, and {} {}; {} made the same operations", inside_text(facts, stand),
                  have_text(facts, stand.absent),
                  has_exited ? "exited without it" : "not called it", all_text(facts.index));
  finding.next = absent_next_text(facts, stand);
  add_evidence(facts, stand, finding);
  finding.evidence.push_back(process_evidence(facts, stand.absent.front()));
  return draft;
}

std::string stuck_next_text(const Facts& facts, const Stand& stand) {
  const std::string who = rank_text(facts.process(stand.ranks.front().process));
  if (stand.captured != 0) {
    return fmt::format(
        "destroy the graphs before the communicator (in PyTorch: delete every CUDAGraph, and what "
        "holds one, before destroy_process_group); the stack of {} shows who ends it",
        who);
  }
  if (is_teardown(stand.kind)) {
    return fmt::format(
        "look at the stack of {}: NCCL waits there for kernels of this communicator, for CUDA "
        "graphs that hold some, and for its own threads",
        who);
  }
  const bool is_joint = is_creation(stand.kind) || is_made_by_all(stand.kind);
  return fmt::format("look at the stack of {}{}", who,
                     is_joint ? ", and at its network" : ": it may wait for the GPU or its driver");
}

Draft judge_stuck(const Facts& facts, const Stand& stand) {
  Draft draft = make_draft(Verdict::stuck_in_call, Confidence::likely);
  Finding& finding = draft.finding;
  add_culprits(facts, stand, processes_of(stand.ranks), finding);
  finding.summary = inside_text(facts, stand);
  if (!stand.absent.empty()) {
    finding.summary += fmt::format(", and {} not called it", have_text(facts, stand.absent));
  }
  finding.summary += "; ";
  finding.summary += stand.captured != 0
                         ? graphs_text(stand.captured)
                         : fmt::format("{} made the same operations", all_text(facts.index));
  finding.next = stuck_next_text(facts, stand);
  add_evidence(facts, stand, finding);
  // A large job takes its time to connect: nobody should end a running one for that.
  if (facts.job.live && is_creation(stand.kind)) finding.severity = Severity::risk;
  return draft;
}

// All wait for ranks that are inside another of these calls.
Draft judge_circle(const Facts& facts, const Stand& lead, const std::vector<Stand>& stands) {
  Draft draft = make_draft(Verdict::stuck_in_call, Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<std::string> parts;
  for (const Stand& stand : stands) {
    if (!stand.waits_for_others) continue;
    add_culprits(facts, stand, processes_of(stand.ranks), finding);
    if (parts.size() < 3) parts.push_back(inside_text(facts, stand));
  }
  add_evidence(facts, lead, finding);
  finding.summary = fmt::format(
      "{}: each may wait for ranks that are inside another of these calls; {} made the same "
      "operations",
      fmt::join(parts, ", "), all_text(facts.index));
  finding.next = "end communicators, and register windows, in the same order on all ranks";
  return draft;
}

Draft judge_stand(const Facts& facts, const Stand& stand, const std::vector<Stand>& stands) {
  if (stand.is_late_abort) return judge_late_abort(facts, stand);
  if (stand.captured != 0) return judge_stuck(facts, stand);
  if (!stand.absent.empty()) return judge_absent(facts, stand);
  if (!stand.unknown.empty()) return judge_unknown(facts, stand);
  if (!stand.unclear.empty()) return judge_unclear(facts, stand);
  if (stand.waits_for_others) return judge_circle(facts, stand, stands);
  return judge_stuck(facts, stand);
}

}  // namespace

std::optional<Draft> judge_life_cycle(const Facts& facts) {
  std::vector<Stand> stands = find_stands(facts);
  look_for_reasons(facts, stands);
  const Stand* lead = find_lead(stands);
  if (lead == nullptr) return std::nullopt;
  Draft draft = judge_stand(facts, *lead, stands);
  draft.since_ns = lead->ranks.front().event->called_ns;
  std::vector<uint32_t> inside;
  for (const Stand& stand : stands) {
    for (const Inside& rank : stand.ranks) inside.push_back(rank.process);
    if (&stand != lead) add_evidence(facts, stand, draft.finding);
  }
  // Who is outside NCCL is not known to wait.
  set_victims(facts, inside, draft.finding);
  return draft;
}

}  // namespace rollcall::analysis
