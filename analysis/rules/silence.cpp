// Roots of the wait graph become findings: a rank that has not made the call in which others wait
// (RC-MISSING-CALL, of its kinds Misstep::not_reached). That one left a call out is told from the
// calls behind it, in disagreement.cpp, and in a circle in left_out.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analysis/rules/absence.h"
#include "analysis/rules/circle.h"
#include "analysis/rules/open_creations.h"
#include "analysis/rules/rules.h"
#include "analysis/rules/stray_call.h"
#include "analysis/words/doing.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::OpState;
using trace::Process;

// The oldest of the waiting calls, creations before collectives before sends and receives. Of
// creations the one that most ranks are in: who joins a communicator that grows also waits for
// those who wait for its parent.
uint32_t leading_waiter(const Facts& facts, const Root& root) {
  const auto order = [&](uint32_t n) {
    switch (facts.graph.nodes()[n].kind) {
      case NodeKind::creation:
        return 0;
      case NodeKind::collective:
        return 1;
      default:
        return 2;
    }
  };
  return *std::min_element(root.waiters.begin(), root.waiters.end(), [&](uint32_t a, uint32_t b) {
    const Node& left = facts.graph.nodes()[a];
    const Node& right = facts.graph.nodes()[b];
    const auto inside = [](const Node& node) {
      return node.kind == NodeKind::creation ? node.callers.size() : 0;
    };
    return std::make_tuple(order(a), inside(right), left.since_ns) <
           std::make_tuple(order(b), inside(left), right.since_ns);
  });
}

// Where the members of a collective have it in the order of their calls.
std::unordered_map<uint32_t, uint32_t> places_of(const Facts& facts, const Node& node) {
  std::unordered_map<uint32_t, uint32_t> places;
  for (const Member& member : facts.group(node.group).members) {
    const bool is_known =
        member.lane.has(node.seq) && facts.process(member.process).knowledge.calls_in_order;
    if (is_known) places[member.process] = member.lane.at(node.seq);
  }
  return places;
}

// Some rank made the one in front of the other, and none behind it.
bool is_in_front(const Facts& facts, const Node& one, const Node& other) {
  const std::unordered_map<uint32_t, uint32_t> places = places_of(facts, other);
  bool is_seen = false;
  for (const auto& [p, place] : places_of(facts, one)) {
    const auto found = places.find(p);
    if (found == places.end()) continue;
    if (found->second < place) return false;
    is_seen = true;
  }
  return is_seen;
}

// Of a process that lives, or ended by itself: how it came to pass the call by.
std::string silence_text(const Facts& facts, uint32_t p, const Node& waited) {
  const ProcessState& state = facts.job.processes[p];
  if (state.ended_itself) {
    return fmt::format("ended by itself, {} before {}, without the call that others wait in",
                       span_text(facts.job.end_ns - state.last_sign_ns),
                       facts.job.live ? "now" : "the end of the job");
  }
  const bool is_known = waited.kind != NodeKind::creation;
  if (is_known && is_ended(comm_of(facts, p, waited.group))) {
    return "has destroyed the communicator without the call that others wait in";
  }
  return "has not made the call that others wait in";
}

// "died, 12 s before now, inside an NCCL call".
std::string end_text(const Facts& facts, uint32_t p) {
  const Process& process = facts.process(p);
  const ProcessState& state = facts.job.processes[p];
  // A report of RAS has no time of death.
  if (is_only_unheard(process)) return unheard_text();
  if (facts.job.is_foreign && !process.liveness_evidence.empty()) return "is gone";
  const bool inside = state.inside_op != kNoRecord || state.inside_event != kNoRecord;
  const std::string text = fmt::format(
      "{}, {} before {}, {}", state.ended_itself ? "ended by itself" : death_text(facts.job.live),
      span_text(facts.job.end_ns - state.last_sign_ns),
      facts.job.live ? "now" : "the end of the job",
      inside ? "inside an NCCL call" : "outside NCCL");
  const std::string oom = state.ended_itself ? "" : oom_text(process);
  return oom.empty() ? text : text + "; " + oom;
}

// "has been inside CommSplit for 30 s".
std::string stuck_text(const Facts& facts, uint32_t p) {
  const ProcessState& state = facts.job.processes[p];
  const std::string inside =
      state.inside_event != kNoRecord
          ? fmt::format("inside {}", name_of(facts.process(p).events[state.inside_event].kind))
          : inside_text(facts.index, p, state.inside_op);
  return fmt::format("has been {} for {}", inside,
                     span_text(facts.job.end_ns - state.inside_since_ns));
}

std::string why_text(const Facts& facts, Verdict verdict, uint32_t p, const Node& waited) {
  switch (verdict) {
    case Verdict::rank_dead:
      return end_text(facts, p);
    case Verdict::rank_stopped:
      return fmt::format("is stopped ({})", facts.process(p).liveness_evidence);
    case Verdict::stuck_in_call:
      return stuck_text(facts, p);
    case Verdict::cuda_error:
      return "could not make the call that others wait in, as CUDA had already failed there";
    case Verdict::abort_cascade:
      return "aborted the communicator";
    case Verdict::async_error:
      return "made the call, and NCCL refused it";
    case Verdict::insufficient:
      if (facts.job.processes[p].uncounted != 0)
        return "is not on file with it, but its recorder missed calls";
      return "has not made the call that others wait in, but may itself wait for a rank whose "
             "records are not all on file, or for signals that are not counted";
    default:
      return silence_text(facts, p, waited);
  }
}

// "rank 3 (pid 4711 on node2)", as far as that is known.
std::string address_text(const Process& process) {
  if (process.pid == 0) return rank_text(process);
  return fmt::format("{} (pid {} on {})", rank_text(process), process.pid, process.host);
}

std::string next_text(const Facts& facts, Verdict verdict, uint32_t p) {
  const Process& process = facts.process(p);
  const ProcessState& state = facts.job.processes[p];
  const std::string who = address_text(process);
  switch (verdict) {
    case Verdict::rank_dead:
      return fmt::format("look at the log and exit status of {}{}", who,
                         state.ended_itself ? "" : ", and at `dmesg` there");
    case Verdict::rank_stopped:
      return continue_text(process, who);
    case Verdict::stuck_in_call:
      return fmt::format("look at the stack of {}, and at its network", who);
    case Verdict::cuda_error:
      return fmt::format("look for the first CUDA error in the log of {}", who);
    case Verdict::abort_cascade:
      return fmt::format("look in the log of {} for why it aborted", who);
    case Verdict::async_error:
      return fmt::format(
          "look at the arguments of that call on {}, and at its log with "
          "NCCL_DEBUG=WARN",
          who);
    case Verdict::init_incomplete:
      return fmt::format("look why {} does not create the communicator", who);
    case Verdict::split_mismatch:
      return fmt::format("compare the calls to ncclCommSplit on {} with another rank's", who);
    case Verdict::insufficient:
      return state.uncounted != 0
                 ? "run again without pausing the recorder and with a larger ROLLCALL_RING_SLOTS"
                 : "copy the missing file into the directory, if there is one: it decides between "
                   "this rank and the one it would wait for";
    default:
      return facts.job.live && !state.gone && !state.ended_itself
                 ? fmt::format("look at the stack of {}: {}", who, stack_tools_text(process))
                 : fmt::format("look at the code path of {} behind its last call", who);
  }
}

// Who came last, and much later than all others, to the collective before the one that others wait
// in: watchdogs may have ended those who waited then. Nothing where one of `ended` did.
struct Latecomer {
  uint32_t process = kNone;
  int64_t late_ns = 0;
};
std::optional<Latecomer> latecomer_before(const Facts& facts, const Node& waited,
                                          const std::vector<uint32_t>& ended) {
  constexpr int64_t kLateNs = 5'000'000'000;
  // What a watchdog takes from its decision to the end.
  constexpr int64_t kGraceNs = 60'000'000'000;
  if (waited.kind != NodeKind::collective || waited.seq == 0) return {};
  Latecomer last;
  int64_t last_ns = 0;
  int64_t others_ns = 0;
  for (const Member& member : facts.group(waited.group).members) {
    if (!member.lane.has(waited.seq - 1)) return {};
    const int64_t called_ns = facts.index.op_at(member, waited.seq - 1).called_ns;
    others_ns = std::max(others_ns, std::min(called_ns, last_ns));
    if (called_ns <= last_ns) continue;
    last_ns = called_ns;
    last.process = member.process;
  }
  last.late_ns = last_ns - others_ns;
  if (others_ns == 0 || last.late_ns < kLateNs + facts.job.clock_doubt_ns) return {};
  const bool ended_soon = std::all_of(ended.begin(), ended.end(), [&](uint32_t p) {
    const int64_t stayed_ns = facts.job.processes[p].last_sign_ns - last_ns;
    return p != last.process && stayed_ns < kGraceNs;
  });
  return ended_soon ? std::optional(last) : std::nullopt;
}

void mention_latecomer(const Facts& facts, const Node& waited, const std::vector<uint32_t>& ended,
                       Finding& finding) {
  const std::optional<Latecomer> late = latecomer_before(facts, waited, ended);
  if (!late) return;
  const std::string who = rank_text(facts.process(late->process));
  finding.summary += fmt::format("; {} came {} later than all others to the call before (seq {})",
                                 who, span_text(late->late_ns), waited.seq - 1);
  finding.next += fmt::format("; a watchdog may have ended it for the time {} took", who);
}

// A rank that said nothing for long, and was killed before all others were: by somebody who saw it
// hang, or in the middle of what took so long.
void mention_early_death(const Facts& facts, uint32_t p, Finding& finding) {
  const int64_t lead_ns = facts.job.processes[p].lead_ns;
  if (lead_ns == 0) return;
  finding.confidence = std::max(finding.confidence, Confidence::likely);
  finding.summary += fmt::format(
      "; it was killed {} before all others: if nobody did that by hand, it died in what it was "
      "doing then",
      span_text(lead_ns));
  finding.next += ", and at its log and exit status, and at `dmesg` there";
}

void complete_culprit(const Facts& facts, const Node& waited, Culprit& culprit) {
  if (waited.kind == NodeKind::collective) culprit.seq = waited.seq;
  if (waited.kind == NodeKind::creation) {
    culprit.op = std::string(rollcall::name_of(creating_call(facts, waited)));
  }
  if (waited.kind != NodeKind::p2p) return;
  culprit.p2p_seq = waited.seq;
  const Op& op = facts.index.op(waited.process, waited.op);
  const Seat seat = facts.index.seat(waited.process, op.comm);
  culprit.peer = facts.group(seat.group).members[seat.member].rank;
  culprit.op = std::string(rollcall::name_of(other_side_of(op.kind)));
}

bool have_ended(const Facts& facts, const std::vector<uint32_t>& processes) {
  return std::all_of(processes.begin(), processes.end(),
                     [&](uint32_t p) { return facts.job.processes[p].ended_itself; });
}

// Ranks that finished, or went past, where a few others called once more: the few are the odd ones,
// and so are as many who are it elsewhere (`odd`: sorted).
bool is_extra_call(const Facts& facts, const Node& waited, const std::vector<uint32_t>& odd) {
  if (waited.kind != NodeKind::collective) return false;
  const std::vector<uint32_t> without = who_is_without(facts, waited);
  const size_t called = facts.group(waited.group).members.size() - without.size();
  if (without.size() < called) return false;
  const bool all_ended = std::all_of(without.begin(), without.end(), [&](uint32_t p) {
    return is_ended(comm_of(facts, p, waited.group)) || facts.job.processes[p].ended_itself;
  });
  if (all_ended && without.size() > called) return true;
  if (is_unheard_of(facts, waited)) return true;
  const size_t past = who_went_past(facts, waited, without).size();
  if (past < called) return false;
  const bool are_odd = std::all_of(waited.callers.begin(), waited.callers.end(), [&](uint32_t p) {
    return std::binary_search(odd.begin(), odd.end(), p);
  });
  if (past == called && !are_odd && !is_against_habit(facts, waited)) return false;
  // Who is neither here nor past may still come, unless it is the callers that are odd.
  const size_t behind = without.size() - past;
  return behind == 0 || past > called + behind || is_new_to_callers(facts, waited) ||
         is_against_habit(facts, waited);
}

struct Gathered {
  std::vector<uint32_t> processes;
  std::vector<uint32_t> roots;
  Absence absence;
};

std::string callers_text(const Facts& facts, const Node& waited) {
  const size_t members = waited.kind == NodeKind::creation && facts.group(waited.group).nranks > 0
                             ? static_cast<size_t>(facts.group(waited.group).nranks)
                             : facts.group(waited.group).members.size();
  return fmt::format("{} of {} ranks", waited.callers.size(), members);
}

std::string_view recorder_text(const Process& process) {
  if (process.recorder == "flight_recorder") return "its Flight Recorder dump";
  if (process.recorder == "inspector") return "its file of NCCL Inspector";
  if (process.recorder == "kineto") return "its trace of the PyTorch profiler";
  if (process.recorder == "nsys") return "its export of Nsight Systems";
  return process.recorder == "nccl_log" ? "its NCCL log" : "the report of RAS";
}

// Where RAS finds a few ranks one call ahead of most, as in a busy job that is well, nothing speaks
// against most.
void excuse_most(const Facts& facts, uint32_t n, Finding& finding) {
  const Node& waited = facts.graph.nodes()[n];
  const bool is_about_calls = waited.kind == NodeKind::collective;
  if (!is_about_calls || finding.verdict != Verdict::missing_call) return;
  if (2 * finding.culprits.size() <= facts.group(waited.group).members.size()) return;
  finding.verdict = Verdict::insufficient;
  finding.severity = severity_of(finding.verdict);
  finding.misstep.reset();
  finding.summary =
      fmt::format("{} had made {} when the report of RAS was written, and {} others of {} had not",
                  processes_text(facts.index.run(), waited.callers), node_text(facts, n),
                  finding.culprits.size(), facts.group(waited.group).members.size());
  finding.culprits.clear();
  finding.next =
      "ask ncclras again in a minute: if the same ranks are ahead by the same number, look at the "
      "stacks of the others (`py-spy dump --pid PID`)";
}

// Other recorders tell neither how long a call waited nor that the absent rank's file is complete;
// and where they saw the call finish on the ranks that made it, they speak against themselves.
void weigh_states(const Facts& facts, uint32_t n, Finding& finding) {
  const Node& waited = facts.graph.nodes()[n];
  if (finding.confidence == Confidence::certain) finding.confidence = Confidence::likely;
  const std::string& recorder = facts.process(facts.index.active().front()).recorder;
  if (recorder.starts_with("ncclras")) {
    finding.confidence = Confidence::open;
    excuse_most(facts, n, finding);
    finding.summary +=
        "; RAS does not ask all ranks at one moment: only a difference that stays in a second "
        "report counts";
    return;
  }
  if (waited.kind != NodeKind::collective) return;
  std::vector<uint32_t> finished;
  for (const Member& member : facts.group(waited.group).members) {
    if (!member.lane.has(waited.seq)) continue;
    const bool is_finished = facts.index.op_at(member, waited.seq).state == OpState::finished;
    if (is_finished) finished.push_back(member.process);
  }
  if (finished.empty()) return;
  finding.confidence = Confidence::open;
  finding.summary += fmt::format(
      "; the states contradict it: the call is on file as finished on {}, which it cannot be "
      "without every rank, so this rests on the sequence alone",
      processes_text(facts.index.run(), finished));
}

// Where most of a communicator have not made a call, those who have may be the ones that are wrong.
void weigh_numbers(const Facts& facts, const Node& waited, Finding& finding) {
  if (waited.kind != NodeKind::collective) return;
  // Who called and was freed since is in no call any more.
  if (waited.callers.empty() || waited.callers.size() >= finding.culprits.size()) return;
  finding.confidence = Confidence::open;
  finding.summary += fmt::format("; or {} should not have made it",
                                 processes_text(facts.index.run(), waited.callers));
  finding.next +=
      fmt::format(", and at that of {}", rank_text(facts.process(waited.callers.front())));
}

std::string in_plural(std::string why) {
  if (why.starts_with("has ")) why.replace(0, 3, "have");
  if (why.starts_with("is ")) why.replace(0, 2, "are");
  if (why.starts_with("does ")) why.replace(0, 4, "do");
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"itself", "themselves"},
      {"or was", "or were"},
      {"its recorder", "their recorders"},
      {": it may", ": they may"}};
  for (const auto& [one, several] : kWords) {
    const size_t at = why.find(one);
    if (at != std::string::npos) why.replace(at, one.size(), several);
  }
  return why;
}

// Whether they went on without the call, or have not come to it.
std::optional<Misstep> misstep_of(const Facts& facts, const Node& waited,
                                  const Gathered& gathered) {
  switch (gathered.absence.verdict) {
    case Verdict::p2p_unmatched:
      return Misstep::left_out;
    case Verdict::missing_call:
    case Verdict::init_incomplete:
    case Verdict::split_mismatch:
      break;
    default:
      return std::nullopt;
  }
  const bool have_gone_past = std::ranges::all_of(gathered.processes, [&](uint32_t p) {
    if (facts.job.processes[p].ended_itself) return true;
    return waited.kind != NodeKind::creation &&
           (is_ended(comm_of(facts, p, waited.group)) || has_passed_by(facts, p, waited));
  });
  return have_gone_past ? Misstep::left_out : Misstep::not_reached;
}

void blame_absent(const Facts& facts, uint32_t n, const std::vector<uint32_t>& processes,
                  Finding& finding) {
  const Node& waited = facts.graph.nodes()[n];
  const OpRef example = example_of(facts, n);
  for (const uint32_t p : processes) {
    Culprit culprit = culprit_of(facts, p, waited.group);
    if (example.process != kNone) {
      culprit.op = std::string(rollcall::name_of(facts.index.op(example.process, example.op).kind));
    }
    complete_culprit(facts, waited, culprit);
    finding.culprits.push_back(std::move(culprit));
    if (finding.evidence.size() < kEvidenceMax)
      finding.evidence.push_back(process_evidence(facts, p));
  }
  if (example.process != kNone) {
    finding.evidence.push_back(op_evidence(facts, example.process, example.op, "waits"));
  }
}

// "7 of 8 ranks have been in AllReduce of 1024 float32 (sum), seq 11 of world for 30 s". `absent`:
// one of those that they wait for.
std::string waiting_text(const Facts& facts, uint32_t n, const Process& absent) {
  const Node& waited = facts.graph.nodes()[n];
  const bool is_pair = waited.kind == NodeKind::p2p;
  const bool waits_one = is_pair || waited.callers.size() == 1;
  const char* waits =
      waits_one ? (facts.job.live ? "has been" : "was") : (facts.job.live ? "have been" : "were");
  return fmt::format("{} {} in {} {}", is_pair ? "its peer" : callers_text(facts, waited), waits,
                     node_text(facts, n),
                     facts.job.is_foreign
                         ? fmt::format("when {} was written", recorder_text(absent))
                         : fmt::format("for {}", span_text(facts.job.end_ns - waited.since_ns)));
}

// What else may have been, or speaks against it.
void weigh_absence(const Facts& facts, uint32_t n, const Gathered& gathered, Finding& finding) {
  const Node& waited = facts.graph.nodes()[n];
  const std::vector<uint32_t>& absent = gathered.processes;
  const bool is_missing = gathered.absence.verdict == Verdict::missing_call;
  // The dumps of a Flight Recorder do not tell who had been ended when the others called.
  if (gathered.absence.verdict == Verdict::rank_dead || (is_missing && facts.job.is_foreign)) {
    mention_latecomer(facts, waited, absent, finding);
  }
  if (facts.job.is_foreign) {
    weigh_states(facts, n, finding);
  } else if (is_missing) {
    if (absent.size() == 1) mention_early_death(facts, absent.front(), finding);
    weigh_numbers(facts, waited, finding);
    weigh_ids(facts, absent, finding);
  }
}

Draft draft_absence(const Facts& facts, uint32_t n, const Gathered& gathered) {
  const Node& waited = facts.graph.nodes()[n];
  const Verdict verdict = gathered.absence.verdict;
  Draft draft =
      make_draft(verdict, gathered.absence.confidence, misstep_of(facts, waited, gathered));
  Finding& finding = draft.finding;
  blame_absent(facts, n, gathered.processes, finding);
  const uint32_t first = gathered.processes.front();
  const bool is_one = gathered.processes.size() == 1;
  const std::string why = why_text(facts, verdict, first, waited);
  finding.summary =
      fmt::format("{} {}: {}; {}{}", processes_text(facts.index.run(), gathered.processes),
                  is_one ? why : in_plural(why), waiting_text(facts, n, facts.process(first)),
                  is_one ? "" : rank_text(facts.process(first)) + ": ",
                  doing_text(facts.index, facts.job, first));
  finding.next = next_text(facts, verdict, first);
  weigh_absence(facts, n, gathered, finding);
  std::vector<uint32_t> victims = waited.callers;
  for (const uint32_t r : gathered.roots) {
    const Root& root = facts.graph.roots()[r];
    victims.insert(victims.end(), root.victims.begin(), root.victims.end());
  }
  set_victims(facts, victims, finding);
  draft.since_ns = waited.since_ns;
  draft.root = gathered.roots.front();
  draft.node = n;
  if (waited.kind == NodeKind::collective) {
    draft.group = waited.group;
    draft.seq = waited.seq;
  }
  return draft;
}

bool is_in_logs(const Facts& facts, const Creation& creation) {
  return std::ranges::all_of(creation.callers,
                             [&](uint32_t p) { return facts.process(p).recorder == "nccl_log"; });
}

// NCCL's own words say that all ranks had come to the creation (trace/import/nccl_log.cpp).
bool has_met_all(const Facts& facts, uint32_t p, uint32_t group) {
  const Process& process = facts.process(p);
  for (size_t i = 0; i < process.comms.size(); ++i) {
    const Seat seat = facts.index.seat(p, static_cast<uint32_t>(i));
    if (seat.group == group && process.meta.contains(fmt::format("met.{}", i))) return true;
  }
  return false;
}

// Logs end while a communicator is made, as those of a job that just starts do, and hold nothing of
// some ranks. These may write elsewhere, and NCCL's own words may say that they had come.
Draft draft_cut_creation(const Facts& facts, uint32_t r) {
  const Root& root = facts.graph.roots()[r];
  const Creation& creation = facts.graph.creations()[facts.graph.nodes()[root.nodes[0]].creation];
  const bool have_met = std::ranges::any_of(
      creation.callers, [&](uint32_t p) { return has_met_all(facts, p, creation.group); });
  const bool is_one = creation.missing_ranks.size() == 1;
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "{} {} making a communicator of {} ranks when the log ends; of its {} {} the log holds "
      "nothing{}",
      processes_text(facts.index.run(), creation.callers),
      creation.callers.size() == 1 ? "was" : "were", facts.group(creation.group).nranks,
      is_one ? "rank" : "ranks", number_list(creation.missing_ranks),
      have_met ? ", but all had come, for NCCL had begun to connect them"
               : fmt::format(": whether {} came it does not tell", is_one ? "it" : "they"));
  draft.finding.next =
      have_met ? "if the job does not go on, look at the end of each rank's log, and at its stack"
               : "collect the logs of all ranks; if the job does not go on, look whether each was "
                 "started";
  for (const uint32_t p : creation.callers) {
    if (draft.finding.evidence.size() < kEvidenceMax)
      draft.finding.evidence.push_back(process_evidence(facts, p));
  }
  draft.root = r;
  draft.node = root.waiters.front();
  return draft;
}

// Ranks of a communicator that left no file: what they did is unknown, not nothing.
Draft draft_nobody(const Facts& facts, uint32_t r) {
  const Root& root = facts.graph.roots()[r];
  const Creation& creation = facts.graph.creations()[facts.graph.nodes()[root.nodes[0]].creation];
  const Group& group = facts.group(creation.group);
  Draft draft = make_draft(Verdict::init_incomplete, Confidence::likely, Misstep::not_reached);
  Finding& finding = draft.finding;
  const bool same_numbers = std::all_of(
      group.members.begin(), group.members.end(),
      [&](const Member& member) { return facts.process(member.process).job_rank == member.rank; });
  for (const int32_t rank : creation.missing_ranks) {
    Culprit culprit;
    culprit.process = kNone;
    culprit.comm = group.key;
    culprit.comm_name = group.name;
    culprit.comm_rank = rank;
    if (same_numbers) culprit.rank = rank;
    finding.culprits.push_back(std::move(culprit));
  }
  const bool is_one = creation.missing_ranks.size() == 1;
  finding.summary = fmt::format(
      "{} of {} ranks {} been creating {} for {}; communicator {} {} never joined, and left no "
      "file: {} made no NCCL call, or {} did not run",
      creation.callers.size(), group.nranks, creation.callers.size() == 1 ? "has" : "have",
      group.name, span_text(facts.job.end_ns - creation.since_ns), is_one ? "rank" : "ranks",
      number_list(creation.missing_ranks), is_one ? "it" : "they",
      is_one ? "its recorder" : "their recorders");
  finding.next = is_one
                     ? "look whether the missing rank's process was started, and at its log"
                     : "look whether the missing ranks' processes were started, and at their logs";
  set_victims(facts, root.victims, finding);
  draft.since_ns = creation.since_ns;
  draft.root = r;
  draft.node = root.waiters.front();
  return draft;
}

// All have ended, and not in order: who waited then would have waited on.
bool was_cut_short(const Facts& facts) {
  return facts.job.all_ended_themselves && !facts.job.live && facts.job.any_aborted();
}

bool is_immediate(const Facts& facts, const Absence& absence) {
  return absence.verdict == Verdict::rank_dead || absence.verdict == Verdict::abort_cascade ||
         absence.verdict == Verdict::cuda_error || absence.verdict == Verdict::async_error ||
         absence.verdict == Verdict::rank_stopped ||
         (facts.job.all_ended_themselves && !facts.job.live);
}

// Who waits because of it: not those that have ended in order.
std::vector<uint32_t> victims_of(const Facts& facts, const Gathered& gathered) {
  std::vector<uint32_t> victims;
  for (const uint32_t r : gathered.roots) {
    for (const uint32_t p : facts.graph.roots()[r].victims) {
      if (!facts.job.processes[p].ended_itself) victims.push_back(p);
    }
  }
  return victims;
}

Draft draft_extra(const Facts& facts, uint32_t n, const Gathered& gathered) {
  Draft draft = draft_extra_call(facts, n);
  draft.since_ns = facts.graph.roots()[gathered.roots.front()].since_ns;
  draft.root = gathered.roots.front();
  std::vector<uint32_t> victims = victims_of(facts, gathered);
  for (const uint32_t p : gathered.processes) {
    if (!facts.job.processes[p].ended_itself) victims.push_back(p);
  }
  set_victims(facts, victims, draft.finding);
  return draft;
}

// What others wait for and somebody has not done.
Draft draft_owed(const Facts& facts, uint32_t n, const Gathered& gathered) {
  const Verdict verdict = gathered.absence.verdict;
  const bool is_silence = verdict == Verdict::missing_call || verdict == Verdict::p2p_unmatched;
  std::optional<Draft> stray;
  if (is_silence) stray = draft_stray_transfer(facts, facts.graph.nodes()[n]);
  if (is_silence && !stray) stray = draft_extra_transfer(facts, facts.graph.nodes()[n]);
  if (!stray) return draft_absence(facts, n, gathered);
  stray->root = gathered.roots.front();
  set_victims(facts, victims_of(facts, gathered), stray->finding);
  return std::move(*stray);
}

// Of several collectives that one rank owes, the one that others made in front of the rest.
uint32_t first_owed(const Facts& facts, uint32_t n, const Gathered& gathered) {
  const Verdict verdict = gathered.absence.verdict;
  const bool is_any = verdict == Verdict::missing_call || verdict == Verdict::rank_dead ||
                      verdict == Verdict::rank_stopped;
  if (!is_any || gathered.processes.size() != 1) return n;
  for (const uint32_t other : facts.graph.roots()[gathered.roots.front()].waiters) {
    const Node& candidate = facts.graph.nodes()[other];
    const bool are_collectives = candidate.kind == NodeKind::collective &&
                                 facts.graph.nodes()[n].kind == NodeKind::collective;
    if (are_collectives && other != n && is_in_front(facts, candidate, facts.graph.nodes()[n]))
      n = other;
  }
  return n;
}

// Not where a rank is known to have gone on without one of them: that explains the others.
void add_open_creations(const Facts& facts, const std::vector<uint32_t>& open,
                        std::vector<Draft>& drafts) {
  const bool is_explained = std::ranges::any_of(drafts, [&](const Draft& draft) {
    return draft.node != kNone && facts.graph.nodes()[draft.node].kind == NodeKind::creation &&
           draft.finding.misstep == Misstep::left_out;
  });
  if (!open.empty() && !is_explained) drafts.push_back(draft_open_creations(facts, open));
}

using Absences = std::map<std::pair<uint32_t, Verdict>, Gathered>;  // by node

// Of a root that is a host. Not where it followed an abort, or the wait is too young.
void gather_absence(const Facts& facts, uint32_t r, Absences& absences) {
  const Root& root = facts.graph.roots()[r];
  const uint32_t p = facts.graph.nodes()[root.nodes[0]].process;
  const uint32_t n = leading_waiter(facts, root);
  const Node& waited = facts.graph.nodes()[n];
  if (follows_an_abort(facts, p, waited)) return;
  const Absence absence = judge_absence(facts, p, waited);
  if (!is_immediate(facts, absence) && !facts.job.is_stale(root.since_ns)) return;
  Gathered& gathered = absences[{n, absence.verdict}];
  // One sentence for all of them: the weakest.
  if (gathered.processes.empty() || absence.confidence > gathered.absence.confidence) {
    gathered.absence = absence;
  }
  gathered.processes.push_back(p);
  gathered.roots.push_back(r);
}

// It is not those who are absent that are odd, but who made the call. `odd`: see is_extra_call().
bool is_of_extra_call(const Facts& facts, uint32_t n, const Gathered& gathered,
                      const std::vector<uint32_t>& odd) {
  const Verdict verdict = gathered.absence.verdict;
  // Ranks that ended by themselves count as dead where others still call.
  const bool is_silence = verdict == Verdict::missing_call || verdict == Verdict::insufficient ||
                          (verdict == Verdict::rank_dead && have_ended(facts, gathered.processes));
  return is_silence && is_extra_call(facts, facts.graph.nodes()[n], odd);
}

std::vector<Draft> draft_absences(const Facts& facts, const Absences& absences) {
  // A tie is decided by who called once more elsewhere.
  std::vector<uint32_t> odd;
  for (const auto& [key, gathered] : absences) {
    if (!is_of_extra_call(facts, key.first, gathered, {})) continue;
    const std::vector<uint32_t>& callers = facts.graph.nodes()[key.first].callers;
    odd.insert(odd.end(), callers.begin(), callers.end());
  }
  std::sort(odd.begin(), odd.end());
  std::vector<Draft> drafts;
  for (const auto& [key, gathered] : absences) {
    const uint32_t n = key.first;
    drafts.push_back(is_of_extra_call(facts, n, gathered, odd)
                         ? draft_extra(facts, n, gathered)
                         : draft_owed(facts, first_owed(facts, n, gathered), gathered));
  }
  return drafts;
}

}  // namespace

std::vector<Draft> judge_waits(const Facts& facts) {
  std::vector<Draft> drafts;
  Absences absences;
  std::vector<uint32_t> open;
  for (uint32_t r = 0; r < facts.graph.roots().size(); ++r) {
    const Root& root = facts.graph.roots()[r];
    const bool is_old = facts.job.is_stale(root.since_ns);
    if (root.is_circle) {
      if (is_old || was_cut_short(facts)) drafts.push_back(draft_circle(facts, r));
      continue;
    }
    if (root.waiters.empty()) continue;
    const Node& node = facts.graph.nodes()[root.nodes[0]];
    if (node.kind == NodeKind::host) gather_absence(facts, r, absences);
    if (node.kind != NodeKind::unknown || !is_old) continue;
    const Creation& creation = facts.graph.creations()[node.creation];
    if (!creation.candidates.empty()) {
      open.push_back(r);
      continue;
    }
    const bool is_disputed = creation.dispute != kNone;
    const bool is_cut = !is_disputed && is_in_logs(facts, creation);
    drafts.push_back(is_disputed ? draft_join_dispute(facts, r)
                     : is_cut    ? draft_cut_creation(facts, r)
                                 : draft_nobody(facts, r));
  }
  add_open_creations(facts, open, drafts);
  std::vector<Draft> absent = draft_absences(facts, absences);
  std::move(absent.begin(), absent.end(), std::back_inserter(drafts));
  return drafts;
}

}  // namespace rollcall::analysis
