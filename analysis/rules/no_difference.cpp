// All ranks made the same calls, as far as that is on file: is the job through, does it go on, or
// does it stand, and what is known of why?
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/gpu/captured.h"
#include "analysis/record/unread_prefix.h"
#include "analysis/rules/replay_waits.h"
#include "analysis/rules/rules.h"
#include "analysis/words/doing.h"
#include "analysis/words/gaps.h"
#include "analysis/words/label.h"
#include "analysis/words/tables.h"

namespace rollcall::analysis {
namespace {

std::string last_common_text(const Facts& facts) {
  std::string text;
  size_t shown = 0;
  for (const CommSummary& comm : summarise_comms(facts)) {
    if (!comm.last_common_seq) continue;
    if (++shown > 3) {
      text += ", ...";
      break;
    }
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", *comm.last_common_seq, comm.name);
  }
  return text.empty() ? "there was no collective" : "the last common seq is " + text;
}

// Some call is on file that has others to be compared with.
bool has_calls(const Facts& facts) {
  const auto is_known = [](const trace::Process& process, const trace::Op& op) {
    return !process.comms[op.comm].key.is_null();
  };
  return std::any_of(facts.index.active().begin(), facts.index.active().end(), [&](uint32_t p) {
    const trace::Process& process = facts.process(p);
    return std::any_of(process.ops.begin(), process.ops.end(),
                       [&](const trace::Op& op) { return is_known(process, op); });
  });
}
// Files of another recorder that hold no call that could be compared.
Finding judge_nothing(const Facts& facts) {
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary =
      fmt::format("the files of {} hold no call that can be compared between ranks",
                  everyone_text(facts.index));
  draft.finding.next =
      "record NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL, or run under `rollcall run`";
  return draft.finding;
}

// Reports of RAS that show no difference: numbers of calls that were launched, and not whether
// these ended.
std::optional<Finding> judge_ras(const Facts& facts) {
  const std::vector<uint32_t>& active = facts.index.active();
  const bool is_all_ras = std::all_of(active.begin(), active.end(), [&](uint32_t p) {
    return facts.process(p).recorder.starts_with("ncclras");
  });
  if (!is_all_ras) return {};
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "RAS shows no difference between the numbers of calls that the {} launched; it does not tell "
      "whether these calls ended, so a hang in which all launched equally many looks like this, "
      "too",
      everyone_text(facts.index));
  draft.finding.next =
      "ask ncclras again in a minute: if the numbers stand still in a job that should compute, "
      "look "
      "at the stacks (`py-spy dump --pid PID`); `rollcall run` records what decides";
  return draft.finding;
}

// Files of other recorders may have lost calls, or not know the order of all: no difference is then
// less than equality.
bool sees_everything(const Facts& facts) {
  return std::all_of(facts.index.active().begin(), facts.index.active().end(), [&](uint32_t p) {
    const trace::Knowledge& knowledge = facts.process(p).knowledge;
    return knowledge.tells_absence() && knowledge.calls_in_order;
  });
}

bool knows_reductions(const Facts& facts) {
  return std::all_of(facts.index.active().begin(), facts.index.active().end(),
                     [&](uint32_t p) { return facts.process(p).knowledge.reductions; });
}

// What could not be told apart was not compared (trace/shared_identifiers.h).
bool knows_communicators(const Facts& facts) {
  return std::all_of(facts.index.active().begin(), facts.index.active().end(), [&](uint32_t p) {
    const std::vector<trace::Comm>& comms = facts.process(p).comms;
    return facts.process(p).knowledge.identities ||
           std::none_of(comms.begin(), comms.end(),
                        [](const trace::Comm& comm) { return comm.key.is_null(); });
  });
}

// Why the GPU's progress, which would decide, is not on file.
const char* unseen_text(const Facts& facts) {
  bool watches = false;
  for (const uint32_t p : facts.index.active()) {
    const auto timing = facts.process(p).meta.find("gpu_timing");
    if (timing == facts.process(p).meta.end()) continue;
    if (timing->second == "cupti") {
      return "CUPTI does not tell of kernels that have not ended (record with "
             "ROLLCALL_GPU_TIMING=events)";
    }
    watches = watches || timing->second == "events" || timing->second == "progress";
  }
  return watches
             ? "was not seen for the calls in question (captured, not timed, or left out for the "
               "budget: ROLLCALL_OVERHEAD_BUDGET=100 times all)"
             : "was not recorded (the preloaded library does, unless ROLLCALL_GPU_TIMING=off)";
}

// Calls that PyTorch's Flight Recorder saw begin and not end.
struct Unfinished {
  OpRef oldest;
  std::vector<uint32_t> processes;
};

Unfinished find_unfinished(const Facts& facts) {
  Unfinished found;
  for (const uint32_t p : facts.index.active()) {
    const trace::Process& process = facts.process(p);
    if (process.recorder != "flight_recorder") continue;
    // In a dump that kept only what is active, the transfers of a batch seem so for ever.
    const bool tells_transfers =
        std::any_of(process.ops.begin(), process.ops.end(),
                    [](const trace::Op& op) { return op.state == trace::OpState::finished; });
    const auto first =
        std::find_if(process.ops.begin(), process.ops.end(), [&](const trace::Op& op) {
          return op.state != trace::OpState::finished && (tells_transfers || !is_p2p(op.kind));
        });
    // What was called just before the dump is simply on its way.
    if (first == process.ops.end() || !facts.job.is_stale(first->called_ns)) continue;
    found.processes.push_back(p);
    const OpRef& oldest = found.oldest;
    if (oldest.process != kNone &&
        facts.index.op(oldest.process, oldest.op).called_ns <= first->called_ns) {
      continue;
    }
    found.oldest = {p, static_cast<uint32_t>(first - process.ops.begin())};
  }
  return found;
}

// Equal as far as they go, but not through: the dumps alone do not say why, nor whether it will
// last.
Finding judge_unfinished(const Facts& facts, const Unfinished& unfinished) {
  const auto [p, i] = unfinished.oldest;
  const Seat seat = facts.index.seat(p, facts.index.op(p, i).comm);
  const Group& group = facts.group(seat.group);
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "{} made the same calls ({}), but calls of {} were not complete when the dumps "
      "were written, the oldest {} on {}",
      all_text(facts.index), last_common_text(facts),
      processes_text(facts.index.run(), unfinished.processes),
      call_text(facts.index, p, facts.index.op(p, i)), group.name);
  const std::vector<int32_t> absent = ranks_without_member(group);
  if (!absent.empty()) {
    // A dump learns of a group by a call on it: a rank without one may have a dump.
    const bool has_dumps = facts.index.active().size() >= static_cast<size_t>(group.nranks);
    draft.finding.summary +=
        "; " + absent_ranks_text(group, !has_dumps           ? "left no dump that can be read"
                                        : absent.size() == 1 ? "shows no call there"
                                                             : "show no call there");
    draft.finding.next =
        has_dumps ? "dump all calls, not only the active ones: that decides"
                  : "look whether a rank without a dump is alive; if it is, copy its dump into the "
                    "directory";
  } else {
    draft.finding.next =
        "dump again: if nothing has moved, a cycle of waits through communicators or transfers, a "
        "stuck kernel or a stream that never got there all look like this; `rollcall run` records "
        "what decides";
  }
  draft.finding.evidence.push_back(op_evidence(facts, p, i, "is not complete"));
  return draft.finding;
}

// The first communicator with ranks that left no file.
const Group* group_without_files(const Facts& facts) {
  for (const Group& group : facts.index.groups()) {
    if (group.has_strangers()) return &group;
  }
  return nullptr;
}

// Somebody ended by itself and left a communicator as it was: the end of a script that does not
// clean up, or one that came too early.
bool has_left_open(const Facts& facts, const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(), [&](const Member& member) {
    return facts.process(member.process).comms[member.comm].state == CommState::ready;
  });
}

// How a job ended, or that it did not: "the 8 ranks on file made the same calls, and ...".
struct Ending {
  const char* text;
  bool in_order;
};
Ending ending_of(const Facts& facts, bool stands) {
  if (facts.job.any_aborted()) return {"aborted their communicators", false};
  if (stands) return {"nothing moves", false};
  if (!facts.job.all_ended_themselves) return {"did not end by themselves", false};
  return {"ended without destroying their communicators", true};
}

std::optional<Finding> judge_absent_files(const Facts& facts, const Ending& end) {
  const Group* group = group_without_files(facts);
  if (group == nullptr || (end.in_order && !has_left_open(facts, *group))) return {};
  const std::vector<int32_t> absent = ranks_without_member(*group);
  if (absent.empty()) return {};
  const bool one = absent.size() == 1;
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary =
      fmt::format("the {} on file made the same calls, and {}; {}, and may be the reason",
                  everyone_text(facts.index), end.text,
                  absent_ranks_text(*group, "left no file that can be read"));
  draft.finding.next = fmt::format("copy the missing {} into the directory: {}",
                                   one ? "file" : "files", one ? "it decides" : "they decide");
  return draft.finding;
}

std::optional<Finding> judge_torn_records(const Facts& facts, const Ending& end) {
  std::vector<uint32_t> torn;
  for (const uint32_t p : facts.index.active()) {
    if (facts.process(p).torn != 0) torn.push_back(p);
  }
  if (torn.empty() || end.in_order) return {};
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "{} made the same calls as far as they are on file, and {}; the newest record "
      "of {} was not complete, and may tell the reason",
      all_text(facts.index), end.text, processes_text(facts.index.run(), torn));
  draft.finding.next = fmt::format("look in the log of {} for its last call",
                                   rank_text(facts.process(torn.front())));
  return draft.finding;
}

// Equal as far as the files go, in a job that did not end in order: the reason is as likely with
// the rank whose file is not there, or in the record that was not complete.
std::optional<Finding> judge_incomplete(const Facts& facts, bool stands) {
  if (facts.job.is_foreign || (facts.job.live && !stands)) return {};
  const Ending end = ending_of(facts, stands);
  if (std::optional<Finding> absent = judge_absent_files(facts, end)) return absent;
  return judge_torn_records(facts, end);
}

// Calls that a host thread entered and has not left, where all ranks made the same calls: it may
// not have handed the last one to the GPU, and the others wait for that.
std::optional<Finding> judge_inside(const Facts& facts) {
  std::vector<uint32_t> inside;
  for (const uint32_t p : facts.index.active()) {
    const ProcessState& state = facts.job.processes[p];
    if (state.inside_op != kNoRecord && facts.job.is_stale(state.inside_since_ns))
      inside.push_back(p);
  }
  if (inside.empty()) return {};
  const bool is_some = inside.size() < facts.index.active().size();
  Draft draft =
      make_draft(Verdict::stuck_in_call, is_some ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  for (const uint32_t p : inside) {
    const ProcessState& state = facts.job.processes[p];
    const trace::Op& op = facts.process(p).ops[state.inside_op];
    Culprit culprit = culprit_of(facts, p, facts.index.seat(p, op.comm).group);
    culprit.op = std::string(rollcall::name_of(op.kind));
    if (is_collective(op.kind)) culprit.seq = op.seq;
    finding.culprits.push_back(std::move(culprit));
    if (finding.evidence.size() < kEvidenceMax) {
      const char* text =
          op.returned_ns != 0 ? "in progress, not seen to be launched" : "entered and not left";
      finding.evidence.push_back(op_evidence(facts, p, state.inside_op, text));
    }
  }
  const ProcessState& first = facts.job.processes[inside.front()];
  finding.summary = fmt::format(
      "{} {} been {} for {}; {}", processes_text(facts.index.run(), inside),
      inside.size() == 1 ? "has" : "have",
      inside_text(facts.index, inside.front(), first.inside_op),
      span_text(facts.job.end_ns - first.inside_since_ns),
      is_some ? "the others made the same calls and returned" : "all ranks made the same calls");
  finding.next = fmt::format("look at the stack of {}, and at its network",
                             rank_text(facts.process(inside.front())));
  set_victims(facts, facts.index.active(), finding);
  return finding;
}

// Ranks that somebody stopped, for longer than a debugger takes, or while all others have ended;
// nobody waits for them (any more).
std::optional<Finding> judge_stopped(const Facts& facts) {
  std::vector<uint32_t> stopped;
  bool any_runs = false;
  bool any_stands = false;
  for (const uint32_t p : facts.index.active()) {
    const ProcessState& state = facts.job.processes[p];
    any_runs = any_runs || (!state.stopped && !state.gone && !state.ended_itself);
    any_stands = any_stands || (state.stopped && facts.job.is_stale(state.last_sign_ns));
    if (state.stopped) stopped.push_back(p);
  }
  if (stopped.empty() || (any_runs && !any_stands)) return {};
  Draft draft = make_draft(Verdict::rank_stopped, Confidence::certain);
  Finding& finding = draft.finding;
  for (const uint32_t p : stopped) {
    finding.culprits.push_back(culprit_of(facts, p, kNone));
    if (finding.evidence.size() < kEvidenceMax)
      finding.evidence.push_back(process_evidence(facts, p));
  }
  const trace::Process& first = facts.process(stopped.front());
  finding.summary =
      fmt::format("{} {} stopped ({}); no other rank waits for {} in an operation",
                  processes_text(facts.index.run(), stopped), stopped.size() == 1 ? "is" : "are",
                  first.liveness_evidence, stopped.size() == 1 ? "it" : "them");
  finding.next = continue_text(first, rank_text(first));
  return finding;
}

// Most have ended by themselves, and a few stay: those are to be looked at, not the GPUs of all.
std::optional<Finding> judge_left_behind(const Facts& facts) {
  std::vector<uint32_t> ended;
  std::vector<uint32_t> staying;
  for (const uint32_t p : facts.index.active()) {
    (facts.job.processes[p].ended_itself ? ended : staying).push_back(p);
  }
  if (staying.empty() || ended.size() <= staying.size()) return {};
  const trace::Process& first = facts.process(staying.front());
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  Finding& finding = draft.finding;
  finding.summary = fmt::format(
      "{} made the same calls ({}); {} ended by {} then, and {} {} not: {}", all_text(facts.index),
      last_common_text(facts), processes_text(facts.index.run(), ended),
      ended.size() == 1 ? "itself" : "themselves", processes_text(facts.index.run(), staying),
      facts.job.live ? (staying.size() == 1 ? "has" : "have") : "did",
      doing_text(facts.index, facts.job, staying.front()));
  finding.next =
      facts.job.live
          ? fmt::format(
                "look at the stack of {} (pid {} on {}): {}; and in the logs of the others "
                "for why they ended",
                rank_text(first), first.pid, first.host, stack_tools_text(first))
          : fmt::format(
                "look at the code path of {} behind its last call, and in the "
                "logs of the others for why they ended",
                rank_text(first));
  for (const uint32_t p : staying) {
    if (finding.evidence.size() < kEvidenceMax)
      finding.evidence.push_back(process_evidence(facts, p));
  }
  return finding;
}

// How processes that ended by themselves did so, long after the last call: as a script that cleans
// up nothing does when it is through, and a watchdog when it has waited for long enough. Empty
// where none did.
std::string late_end_text(const Facts& facts) {
  int64_t last_ns = 0;
  for (const uint32_t p : facts.index.active()) {
    const uint32_t last = facts.job.processes[p].last_op;
    if (last != kNoRecord) last_ns = std::max(last_ns, facts.process(p).ops[last].called_ns);
  }
  if (last_ns == 0) return {};
  int64_t abort_ns = 0;
  int64_t exit_ns = 0;
  for (const uint32_t p : facts.index.active()) {
    const trace::Process& process = facts.process(p);
    for (const trace::Comm& comm : process.comms) {
      if (comm.state != CommState::aborted) continue;
      abort_ns = std::max(abort_ns, comm.ended_ns - last_ns);
    }
    if (process.has_left_at_once()) {
      exit_ns = std::max(exit_ns, process.exited_ns - last_ns);
    }
  }
  const int64_t late_ns = std::max(abort_ns, exit_ns);
  if (late_ns <= facts.options.ended_threshold_ns) return {};
  return fmt::format(
      "; {} after the last call they {}, as a script does that is through and cleans up nothing, "
      "and as a watchdog does in a hang",
      span_text(late_ns), abort_ns >= exit_ns ? "aborted communicators" : "ended by _exit");
}

// Killed, or crashed.
std::vector<uint32_t> ended_from_outside(const Facts& facts) {
  std::vector<uint32_t> dead;
  for (const uint32_t p : facts.index.active()) {
    const bool is_dead = facts.process(p).liveness == trace::Liveness::dead;
    if (is_dead && !facts.job.processes[p].ended_itself) dead.push_back(p);
  }
  return dead;
}

// Calls that are no longer on file were not the same, as the history's digests tell.
std::optional<Finding> judge_parted(const Facts& facts, const UnreadPrefixes& prefixes) {
  if (prefixes.parted.empty()) return {};
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  Finding& finding = draft.finding;
  for (const PartedPrefix& parted : prefixes.parted) {
    const Group& group = facts.group(parted.group);
    if (!finding.summary.empty()) finding.summary += "; ";
    const bool are_all = parted.deviators.size() == group.members.size();
    finding.summary +=
        fmt::format("{} did not {}make the same calls {} {} in front of seq {}",
                    processes_text(facts.index.run(), parted.deviators), are_all ? "all " : "",
                    are_all ? "on" : "as the other members of", group.name, parted.behind);
    for (const uint32_t p : parted.deviators) {
      Culprit culprit = culprit_of(facts, p, parted.group);
      finding.culprits.push_back(std::move(culprit));
    }
    for (const Member& member : group.members) {
      if (finding.evidence.size() == 8) break;
      finding.evidence.push_back(
          {.file = facts.process(member.process).file,
           .record = "history",
           .text = fmt::format("{}: its digest at seq {}", rank_text(facts.process(member.process)),
                               parted.seq)});
    }
  }
  finding.summary += fmt::format(
      ": the digests of the history differ, and those calls are not at hand; behind them {} "
      "made the same; {}",
      all_text(facts.index), last_common_text(facts));
  finding.next =
      "compare while those calls are still on file, or run again with a larger "
      "ROLLCALL_MAX_HISTORY; --window 0 reads all that is on file";
  return finding;
}

// Of which calls nothing is known, and from where on they are the same.
std::string open_text(const Facts& facts, const UnreadPrefixes& prefixes) {
  if (prefixes.open.empty() || facts.job.is_foreign) return {};
  const OpenPrefix& open = prefixes.open.front();
  const size_t more = prefixes.open.size() - 1;
  return fmt::format(
      "from seq {} of {} on{}; older calls are on no file, or were not read", open.seq,
      facts.group(open.group).name,
      more == 0 ? ""
                : fmt::format(" (likewise {})",
                              number_text(more, "more communicator", "more communicators")));
}

Finding judge_lockstep(const Facts& facts, const std::optional<Draft>& captured,
                       const UnreadPrefixes& prefixes) {
  const std::string ranks = everyone_text(facts.index);
  const std::string late_end = facts.job.all_ended_themselves ? late_end_text(facts) : "";
  const bool is_sure = facts.job.all_ended_themselves && late_end.empty();
  Draft draft =
      make_draft(Verdict::in_lockstep, is_sure ? Confidence::certain : Confidence::likely);
  draft.finding.summary =
      fmt::format("{} made the same calls; {}", all_text(facts.index), last_common_text(facts));
  draft.finding.next = "nothing to do";
  if (const std::string open = open_text(facts, prefixes); !open.empty()) {
    draft.finding.confidence = Confidence::likely;
    draft.finding.summary = fmt::format("{} made the same calls {}; {}", all_text(facts.index),
                                        open, last_common_text(facts));
    draft.finding.next =
        "nothing to do, as far as the files tell; ROLLCALL_HISTORY and ROLLCALL_MAX_HISTORY say "
        "how much stays on file";
  }
  if (!gaps_text(facts).empty()) {
    draft.finding.confidence = std::max(draft.finding.confidence, Confidence::likely);
    draft.finding.summary =
        fmt::format("the {} on file made the same calls as far as these are on file; {}",
                    everyone_text(facts.index), last_common_text(facts));
    draft.finding.next =
        "nothing to do, as far as the files tell; to know of the rest, copy what is missing into "
        "the "
        "directory";
  }
  if (const std::vector<uint32_t> dead = ended_from_outside(facts); !dead.empty()) {
    draft.finding.summary +=
        fmt::format("; {} did not end by {}", processes_text(facts.index.run(), dead),
                    dead.size() == 1 ? "itself" : "themselves");
    draft.finding.next =
        fmt::format("nothing to do if the job was ended on purpose; else look at the log of {}",
                    rank_text(facts.process(dead.front())));
  }
  if (!late_end.empty()) {
    draft.finding.summary += late_end;
    draft.finding.next = "nothing to do, unless the log tells of a timeout";
  }
  if (!sees_everything(facts)) {
    draft.finding.summary =
        fmt::format("no difference is on file ({}), but not every call is, nor their order; {}",
                    ranks, last_common_text(facts));
    draft.finding.next = "record with `rollcall run` to see every call in order";
  }
  if (!knows_reductions(facts)) {
    draft.finding.confidence = Confidence::likely;
    draft.finding.summary += "; reductions (sum, max, ...) were not recorded, so not compared";
    draft.finding.next = "preload librollcall.so as well (`rollcall run`) to compare reductions";
  }
  if (!knows_communicators(facts)) {
    draft.finding.summary += facts.job.is_foreign
                                 ? "; nor were communicators that nothing on file tells apart"
                                 : "; nor were communicators of one parent and colour, which NCCL "
                                   "2.23 does not tell apart";
  }
  if (captured) {
    draft.finding.summary +=
        "; into CUDA graphs they captured different ones, which nobody was seen to wait for: " +
        captured->finding.summary;
  }
  return draft.finding;
}

// Some rank aborted long after its last call.
bool has_late_abort(const Facts& facts) {
  return std::any_of(facts.index.active().begin(), facts.index.active().end(), [&](uint32_t p) {
    const uint32_t last = facts.job.processes[p].last_op;
    const int64_t last_ns = last == kNoRecord ? 0 : facts.process(p).ops[last].called_ns;
    const std::vector<trace::Comm>& comms = facts.process(p).comms;
    return std::any_of(comms.begin(), comms.end(), [&](const trace::Comm& comm) {
      return comm.state == CommState::aborted && last_ns != 0 &&
             comm.ended_ns - last_ns > facts.options.ended_threshold_ns;
    });
  });
}

// What was captured into CUDA graphs, and how often those were launched, is on no file of some.
bool may_have_graphs(const Facts& facts) {
  const std::vector<uint32_t>& active = facts.index.active();
  return std::any_of(active.begin(), active.end(),
                     [&](uint32_t p) { return !watches_graphs(facts.process(p)); });
}

Finding judge_unexplained(const Facts& facts) {
  const int64_t quiet_ns = facts.job.end_ns - facts.job.last_call_ns;
  const std::string ranks = everyone_text(facts.index);
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "{}, yet none has called NCCL {} {}: a stream that never reached the last calls, a stuck "
      "kernel or a wait outside NCCL would look like this; {}",
      sees_everything(facts)
          ? fmt::format("{} made the same calls", all_text(facts.index))
          : fmt::format("no difference is on file ({}), but not every call is, nor their "
                        "order",
                        ranks),
      facts.job.live ? "for" : "in the last",
      span_text(has_late_abort(facts) ? std::max(quiet_ns, facts.options.ended_threshold_ns)
                                      : quiet_ns),
      last_common_text(facts));
  draft.finding.next = fmt::format(
      "what decides is the GPU's progress, which {}; candidates: RC-STREAM-BLOCKED, "
      "RC-STUCK-ON-GPU, RC-STUCK-OUTSIDE{}; look at a rank's stack",
      unseen_text(facts),
      may_have_graphs(facts) ? " and, with CUDA graphs, RC-GRAPH-DIVERGED" : "");
  for (const uint32_t p : facts.index.active()) {
    if (draft.finding.evidence.size() == 8) break;
    draft.finding.evidence.push_back(process_evidence(facts, p));
  }
  return draft.finding;
}

// A running job of which nothing is recorded at the moment.
std::optional<Finding> judge_paused(const Facts& facts) {
  std::vector<uint32_t> paused;
  for (const uint32_t p : facts.index.active()) {
    if (facts.process(p).capture_paused) paused.push_back(p);
  }
  if (!facts.job.live || paused.empty()) return {};
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "recording is paused on {} (rollcall ctl pause): what they call is not on file; before that "
      "the {} made the same calls as far as these are on file; {}",
      processes_text(facts.index.run(), paused), everyone_text(facts.index),
      last_common_text(facts));
  draft.finding.next = "`rollcall ctl resume` with this directory, and ask again";
  return draft.finding;
}

// The job is through, or goes on.
Equal judge_moving(const Facts& facts, const std::optional<Draft>& captured) {
  const Unfinished unfinished = find_unfinished(facts);
  if (!unfinished.processes.empty()) return {judge_unfinished(facts, unfinished), true};
  if (std::optional<Finding> open = judge_incomplete(facts, false)) return {std::move(*open)};
  const UnreadPrefixes prefixes = unread_prefixes(facts.index);
  if (std::optional<Finding> parted = judge_parted(facts, prefixes)) return {std::move(*parted)};
  return {judge_lockstep(facts, captured, prefixes),
          facts.job.all_ended_themselves && !late_end_text(facts).empty()};
}

Equal judge_stalled(const Facts& facts) {
  if (std::optional<Finding> inside = judge_inside(facts)) return {std::move(*inside)};
  if (std::optional<Draft> gpu = judge_gpu(facts)) return {std::move(gpu->finding)};
  if (std::optional<Draft> inside = judge_life_cycle(facts))
    return {std::move(inside->finding), true};
  if (std::optional<Finding> few = judge_left_behind(facts)) return {std::move(*few)};
  if (std::optional<Finding> open = judge_incomplete(facts, true)) return {std::move(*open), true};
  if (std::optional<Draft> circle = judge_replay_circle(facts)) return {std::move(circle->finding)};
  return {judge_unexplained(facts), true};
}

}  // namespace

Equal judge_equal(const Facts& facts, const std::optional<Draft>& captured) {
  if (std::optional<Finding> ras = judge_ras(facts)) return {std::move(*ras)};
  if (facts.job.is_foreign && !has_calls(facts)) return {judge_nothing(facts)};
  if (std::optional<Finding> stopped = judge_stopped(facts)) return {std::move(*stopped)};
  if (std::optional<Finding> paused = judge_paused(facts)) return {std::move(*paused)};
  const bool is_silent = !facts.job.is_foreign && facts.job.is_stale(facts.job.last_call_ns);
  const bool has_stalled = !facts.job.all_ended_themselves && (has_late_abort(facts) || is_silent);
  return has_stalled ? judge_stalled(facts) : judge_moving(facts, captured);
}

}  // namespace rollcall::analysis
