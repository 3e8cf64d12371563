#include "analysis/testimony/testimony.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "analysis/record/index.h"
#include "analysis/terms/numbers.h"
#include "analysis/testimony/attempts.h"
#include "analysis/testimony/catalogue.h"
#include "analysis/testimony/causes.h"
#include "analysis/testimony/parts.h"
#include "analysis/testimony/stacks.h"
#include "analysis/testimony/waits.h"
#include "trace/stacks.h"

namespace rollcall::analysis {
namespace {

using trace::JobLog;
using trace::kUntold;
using trace::Saying;
using trace::SayingKind;

template <typename Map>
std::vector<int32_t> ranks_of(const Map& by_rank) {
  std::vector<int32_t> ranks;
  for (const auto& [rank, value] : by_rank) ranks.push_back(rank);
  return ranks;
}

std::string call_text(const Saying& saying) {
  std::string text = saying.op;
  if (saying.elements_in != kUntold) text += fmt::format(" of {} elements", saying.elements_in);
  return text;
}

// "they had waited since about 01:35:40 of the log's clock".
std::string since_text(const WaitGroup& group) {
  const Saying* first = nullptr;
  for (const auto& [rank, wait] : group.waits) {
    const Saying& saying = *wait.saying;
    if (saying.ran_ms == kUntold) continue;
    if (first == nullptr || saying.line < first->line) first = &saying;
  }
  if (first == nullptr) return {};
  // As a file tells it: what no clock can say is not repeated.
  constexpr int64_t kDayMs = 86'400'000;
  if (first->ran_ms < 0 || first->ran_ms > 365 * kDayMs) return {};
  const std::string waited = span_text(first->ran_ms * 1'000'000);
  if (first->day_ms == kUntold) return fmt::format("; they waited for {}", waited);
  const int64_t began = ((first->day_ms - first->ran_ms) % kDayMs + kDayMs) % kDayMs / 1000;
  return fmt::format(
      "; the call began at {:02}:{:02}:{:02} by the log's clock, and was given up "
      "after {}",
      began / 3600, began / 60 % 60, began % 60, waited);
}

// --- calls that PyTorch compared itself ----------------------------------------------------------

Verdict verdict_of_mismatch(const Saying& saying, Confidence& confidence) {
  confidence = Confidence::certain;
  if (!saying.other_op.empty() && saying.op != saying.other_op) return Verdict::op_mismatch;
  if (saying.elements_in == 0) return Verdict::count_mismatch;
  if (saying.elements_out == 0) return Verdict::dtype_mismatch;
  confidence = Confidence::likely;
  const bool is_shifted =
      saying.seq != kUntold && saying.enqueued != kUntold && saying.seq != saying.enqueued;
  return is_shifted ? Verdict::missing_call : Verdict::op_mismatch;
}

std::optional<Finding> judge_mismatch(const trace::Run& run) {
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind != SayingKind::mismatch) continue;
      Confidence confidence = Confidence::certain;
      const Verdict verdict = verdict_of_mismatch(saying, confidence);
      Finding finding = make_finding(verdict, confidence);
      finding.culprits.push_back(culprit_named(saying.group_rank, saying));
      finding.summary =
          fmt::format("PyTorch compared the calls of a group: rank {} of it called {} {}",
                      saying.group_rank, saying.op, saying.text);
      if (saying.other_rank >= 0) {
        Culprit other = culprit_named(saying.other_rank, saying);
        other.op = saying.other_op;
        finding.culprits.push_back(std::move(other));
        finding.summary += fmt::format(" where rank {} called {}", saying.other_rank,
                                       saying.other_op == saying.op
                                           ? "it with other arguments, or at another position"
                                           : saying.other_op);
      } else {
        finding.summary += ", and another rank something else";
      }
      finding.next = "compare the code of these ranks that leads to this call";
      add_evidence(log, saying, finding);
      return finding;
    }
  }
  return {};
}

std::optional<Finding> judge_parameters(const trace::Run& run) {
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind != SayingKind::parameters_differ) continue;
      // None: the call that would have told the number failed.
      const bool is_empty = saying.elements_in == 0 || saying.elements_out == 0;
      Finding finding = make_finding(is_empty ? Verdict::insufficient : Verdict::count_mismatch,
                                     is_empty ? Confidence::open : Confidence::likely);
      finding.summary =
          is_empty ? "DDP could not compare the models of the ranks: the first call failed"
                   : fmt::format("rank {} built a model of {} parameters, and rank {} one of {}",
                                 saying.rank, saying.elements_in, saying.other_rank,
                                 saying.elements_out);
      if (!is_empty) {
        finding.culprits.push_back(culprit_named(saying.rank, saying));
        finding.culprits.push_back(culprit_named(saying.other_rank, saying));
      }
      finding.next = is_empty ? "look for the first error in the log"
                              : "compare how these ranks build the model";
      add_evidence(log, saying, finding);
      return finding;
    }
  }
  return {};
}

// --- calls that differ at one position of a group ------------------------------------------------

// "_ALLGATHER_BASE", "ALLGATHER_COALESCED": one call of NCCL.
std::string family_of(std::string op) {
  if (op.starts_with("_")) op.erase(0, 1);
  for (const std::string_view tail : {"_BASE", "_COALESCED", "_OOP"}) {
    if (op.ends_with(tail)) op.erase(op.size() - tail.size());
  }
  return op;
}

bool has_one_size(const std::string& family) {
  return family == "ALLREDUCE" || family == "REDUCE" || family == "ALLREDUCE_SPARSE";
}

bool may_differ_on_one_side(const std::string& family) {
  return family == "ALLGATHER" || family == "REDUCE_SCATTER";
}

bool sizes_differ(const std::string& family, const Saying& a, const Saying& b) {
  const auto differ = [](int64_t one, int64_t other) {
    return one != kUntold && other != kUntold && one != other;
  };
  const bool in = differ(a.elements_in, b.elements_in);
  const bool out = differ(a.elements_out, b.elements_out);
  if (has_one_size(family)) return in || out;
  return may_differ_on_one_side(family) && in && out;
}

// Ranks of a group that made the same call at one position.
struct Camp {
  const Saying* call = nullptr;
  std::vector<int32_t> ranks;
};

std::vector<Camp> camps_at(const WaitGroup& group, int64_t seq, bool& is_about_op) {
  std::vector<Camp> camps;
  is_about_op = false;
  for (const auto& [rank, wait] : group.waits) {
    const Saying& saying = *wait.saying;
    const std::string family = family_of(saying.op);
    if (saying.seq != seq || is_transfer(saying.op)) continue;
    const auto same = std::find_if(camps.begin(), camps.end(), [&](const Camp& camp) {
      const std::string other = family_of(camp.call->op);
      return other == family && !sizes_differ(family, *camp.call, saying);
    });
    if (same != camps.end()) {
      same->ranks.push_back(rank);
      continue;
    }
    for (const Camp& camp : camps) {
      is_about_op = is_about_op || family_of(camp.call->op) != family;
    }
    camps.push_back({&saying, {rank}});
  }
  return camps;
}

// Time-outs of groups that are not told apart: one position only, or several groups are mixed here.
bool is_one_position(const WaitGroup& group) {
  return std::all_of(group.waits.begin(), group.waits.end(), [&](const auto& wait) {
    return wait.second.saying->seq == group.waits.begin()->second.saying->seq;
  });
}

std::optional<Finding> judge_calls(const WaitGroup& group) {
  std::set<int64_t> positions;
  for (const auto& [rank, wait] : group.waits) {
    if (wait.saying->seq != kUntold) positions.insert(wait.saying->seq);
  }
  for (const int64_t seq : positions) {
    bool is_about_op = false;
    std::vector<Camp> camps = camps_at(group, seq, is_about_op);
    if (camps.size() < 2) continue;
    std::stable_sort(camps.begin(), camps.end(),
                     [](const Camp& a, const Camp& b) { return a.ranks.size() > b.ranks.size(); });
    const bool is_sure = group.is_named || (is_one_position(group) && group.waits.size() > 1);
    Finding finding = make_finding(is_about_op ? Verdict::op_mismatch : Verdict::count_mismatch,
                                   is_sure ? Confidence::likely : Confidence::open);
    const bool is_tie = camps[0].ranks.size() == camps[1].ranks.size();
    for (size_t i = is_tie ? 0 : 1; i < camps.size(); ++i) {
      for (const int32_t rank : camps[i].ranks) {
        finding.culprits.push_back(culprit_named(rank, *camps[i].call));
      }
    }
    finding.summary =
        fmt::format("{} waited in {} where {} waited in {}, both number {} of {}",
                    ranks_text(camps[1].ranks), call_text(*camps[1].call),
                    ranks_text(camps[0].ranks), call_text(*camps[0].call), seq, group_text(group));
    if (is_tie) finding.summary += "; nothing in the log tells which side is right";
    finding.summary += since_text(group);
    finding.next = "compare the code of these ranks that leads to this call";
    for (const Camp& camp : camps) {
      add_evidence(*group.waits.at(camp.ranks.front()).log, *camp.call, finding);
    }
    finding.victims = ranks_of(group.waits);
    return finding;
  }
  return {};
}

// --- a rank that is behind -----------------------------------------------------------------------

std::optional<Finding> judge_behind(const JobWaits& waits, const WaitGroup& group) {
  std::vector<int32_t> behind = ranks_behind(group);
  if (behind.empty()) return {};
  const int64_t seq = usual_position(group);
  const size_t waiting = static_cast<size_t>(
      std::count_if(group.waits.begin(), group.waits.end(),
                    [&](const auto& wait) { return wait.second.saying->seq == seq; }));
  const bool are_many = behind.size() >= waiting;
  // Whoever waits itself waits for somebody, in an older call or in another group (waits.h).
  const auto waits_itself = [&](int32_t rank) {
    return group.waits.contains(rank) || waits_elsewhere(waits, group, rank);
  };
  const bool is_excused = std::all_of(behind.begin(), behind.end(), waits_itself);
  const auto is_held = [&](int32_t rank) {
    return is_excused ? !group.waits.contains(rank) : waits_itself(rank);
  };
  std::erase_if(behind, is_held);
  if (behind.empty()) return {};
  const bool is_open = is_excused || are_many;
  Finding finding = make_finding(
      Verdict::missing_call, is_open ? Confidence::open : Confidence::likely, Misstep::not_reached);
  std::vector<int32_t> victims;
  const Saying* example = nullptr;
  for (const auto& [rank, wait] : group.waits) {
    if (wait.saying->seq != seq) continue;
    victims.push_back(rank);
    if (example == nullptr) {
      example = wait.saying;
      add_evidence(*wait.log, *wait.saying, finding);
    }
  }
  for (const int32_t rank : behind) {
    Culprit culprit = culprit_named(rank, *example);
    finding.culprits.push_back(std::move(culprit));
  }
  const Standing& first = group.standings.at(behind.front());
  finding.evidence.push_back({.file = group.waits.begin()->second.log->file,
                              .record = fmt::format("line {}", first.saying->line),
                              .text = first.saying->quote});
  finding.summary = fmt::format(
      "{} never made call {} of {}, {}, in which {} waited: the last one that {} made is {}",
      ranks_text(behind), seq, group_text(group), example->op, ranks_text(victims),
      behind.size() == 1 ? "it" : fmt::format("rank {}", behind.front()), first.enqueued);
  if (is_excused) {
    finding.summary += "; but it waited itself, in another call, and may be held up by that";
  }
  finding.summary += since_text(group);
  finding.next = fmt::format(
      "look at what rank {} did instead: its stack, its log, its code path "
      "behind call {}",
      behind.front(), first.enqueued);
  finding.victims = std::move(victims);
  return finding;
}

// --- who waits, without a culprit ----------------------------------------------------------------

// Ranks of the group that do not speak of it, by their numbers in the job.
std::vector<int32_t> silent_in(const JobWaits& waits, const WaitGroup& group) {
  std::vector<int32_t> silent;
  const int32_t size = std::max(waits.world_size, waits.world_at_least);
  if (!group.is_whole_job && (group.is_named || waits.groups.size() > 1)) return silent;
  for (int32_t rank = 0; rank < size; ++rank) {
    // Who tells where it gave up did so, though the line of the time-out itself is not in the log.
    const auto standing = group.standings.find(rank);
    const bool tells =
        standing != group.standings.end() && standing->second.saying->kind == SayingKind::position;
    const bool speaks = group.waits.contains(rank) || tells || waits_elsewhere(waits, group, rank);
    if (!speaks) silent.push_back(rank);
  }
  return silent;
}

// "; rank 4 waited in _ALLGATHER_BASE, call 55 of tp, and so did not come": they belong to this
// group, which is the whole job, and wait in others.
std::string elsewhere_text(const JobWaits& waits, const WaitGroup& group) {
  std::string text;
  if (!group.is_whole_job) return text;
  for (const WaitGroup& other : waits.groups) {
    std::vector<int32_t> held;
    for (const auto& [rank, wait] : other.waits) {
      if (!group.waits.contains(rank)) held.push_back(rank);
    }
    if (held.empty()) continue;
    const std::string& op = other.waits.at(held.front()).saying->op;
    const bool is_one = !op.empty() && std::all_of(held.begin(), held.end(), [&](int32_t rank) {
      return other.waits.at(rank).saying->op == op;
    });
    text += fmt::format("; {} waited in {} of {} at that time", ranks_text(held),
                        is_one ? op : "calls", group_text(other));
  }
  return text;
}

bool is_first_call(const WaitGroup& group) {
  return !group.standings.empty() &&
         std::all_of(group.standings.begin(), group.standings.end(),
                     [](const auto& entry) { return entry.second.completed == -1; });
}

// Takes out of `silent` those whose watchdog is stuck: it would print the time-out.
std::vector<int32_t> take_stuck(const JobWaits& waits, std::vector<int32_t>& silent) {
  std::vector<int32_t> stuck;
  std::erase_if(silent, [&](int32_t rank) {
    const bool is_stuck = waits.stuck.contains(rank);
    if (is_stuck) stuck.push_back(rank);
    return is_stuck;
  });
  return stuck;
}

// What several of them met one of them may have begun, or none.
void tell_of_stuck(const JobWaits& waits, const std::vector<int32_t>& stuck, Finding& finding) {
  if (stuck.empty()) return;
  const bool is_one = stuck.size() == 1;
  finding.summary += fmt::format(
      "; {} {} no time-out because PyTorch's watchdog {} there, as where a call of CUDA or NCCL "
      "does not return, or the GIL is held",
      ranks_text(stuck), is_one ? "prints" : "print",
      is_one ? "thread does not move" : "threads do not move");
  const GaveUp& first = waits.stuck.at(stuck.front());
  const bool is_lead = finding.verdict == Verdict::stuck_in_call;
  if (is_lead && is_one) finding.culprits.push_back(culprit_named(stuck.front(), *first.saying));
  if (is_lead || finding.next.empty()) {
    finding.next =
        fmt::format("look at the stack of rank {} (`py-spy dump --native`)", stuck.front());
  }
  make_room(1, finding);
  add_evidence(*first.log, *first.saying, finding);
}

Finding judge_silence(const JobWaits& waits, const WaitGroup& group) {
  std::vector<int32_t> silent = silent_in(waits, group);
  const std::vector<int32_t> stuck = take_stuck(waits, silent);
  const std::vector<int32_t> waiting = ranks_of(group.waits);
  const bool knows_size = waits.world_size > 0 && group.is_whole_job;
  const std::string elsewhere = elsewhere_text(waits, group);
  const bool speak_all = knows_size && silent.empty() && stuck.empty() && elsewhere.empty();
  // Of one that speaks, and a size that nobody tells, nothing follows for the others.
  const bool is_alone = waiting.size() == 1 && waits.world_size <= 0;
  const bool speak_most = waiting.size() >= silent.size() + stuck.size() && !is_alone;
  const bool is_one = is_one_position(group);
  Verdict verdict = Verdict::insufficient;
  if (is_first_call(group) && is_one) {
    verdict = Verdict::init_incomplete;
  } else if (speak_all && is_one) {
    verdict = Verdict::stuck_on_gpu;
  } else if (!silent.empty() && speak_most && !waits.leaves_out_alike && waits.left_out_from == 0) {
    verdict = Verdict::missing_call;
  } else if (silent.empty() && !stuck.empty() && speak_most) {
    verdict = Verdict::stuck_in_call;
  }
  Finding finding = make_finding(verdict, Confidence::open);
  const Saying& first = *group.waits.begin()->second.saying;
  finding.summary = waiting_text(group) + ", and gave up";
  if (!is_one && !is_transfer(first.op)) {
    finding.summary += "; not all in the same call, so some had run ahead";
  }
  if (verdict == Verdict::init_incomplete) {
    finding.summary +=
        "; no call of this group ever ended, so its connections may not have come up";
    finding.next =
        "run once with NCCL_DEBUG=INFO, and look at NCCL WARN lines, interfaces and firewall";
  } else if (speak_all) {
    finding.summary +=
        waits.groups.size() == 1
            ? "; all ranks made this call, so it is stuck on the GPUs or in the network"
            : "; all ranks made this call, so it is stuck on the GPUs, in the network, or behind "
              "a call of another group";
    finding.next = "look at `dmesg` for Xid, at the links, and at the stacks of all ranks";
  } else if (waits.leaves_out_alike) {
    finding.summary += "; Ray prints one line for several that are alike, so others may have, too";
    finding.next = "run with RAY_DEDUP_LOGS=0, or look at the log of each worker";
  } else if (!silent.empty() && waits.left_out_from != 0) {
    finding.summary += "; others may have, too, in lines that were left out";
    finding.next = fmt::format("cut the log in parts, and read that from line {} on by itself",
                               waits.left_out_from);
  } else if (!silent.empty()) {
    finding.summary += fmt::format(
        "; {} {} no time-out: never called it, died, or the output is "
        "missing",
        ranks_text(silent), silent.size() == 1 ? "prints" : "print");
    finding.next = fmt::format("look at the log and the stack of rank {}", silent.front());
  } else if (!elsewhere.empty()) {
    finding.next = "look first at the smaller group: whoever waits there comes to no other call";
  } else if (stuck.empty()) {
    finding.summary += "; which other ranks belong to it the log does not tell";
    finding.next = "collect the logs of all ranks, or run under `rollcall run`";
  }
  finding.summary += elsewhere;
  if (verdict == Verdict::missing_call) {
    finding.misstep = Misstep::not_reached;
    for (const int32_t rank : silent) finding.culprits.push_back(culprit_named(rank, first));
  }
  finding.summary += since_text(group);
  for (const auto& [rank, wait] : group.waits) add_evidence(*wait.log, *wait.saying, finding);
  tell_of_stuck(waits, stuck, finding);
  finding.victims = waiting;
  return finding;
}

// --- and what is only worth quoting --------------------------------------------------------------

std::optional<Finding> judge_host(const trace::Run& run) {
  Finding finding = make_finding(Verdict::stuck_in_call, Confidence::open);
  std::set<int32_t> ranks;
  std::string speaker;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind != SayingKind::host_stuck) continue;
      if (speaker.empty()) speaker = speaker_text(saying);
      const bool is_known = saying.rank >= 0 && !ranks.insert(saying.rank).second;
      if (is_known) continue;
      if (saying.rank >= 0) finding.culprits.push_back(culprit_named(saying.rank, saying));
      add_evidence(log, saying, finding);
    }
  }
  if (speaker.empty()) return {};
  const std::vector<int32_t> known(ranks.begin(), ranks.end());
  // What all of them met, one of them may have begun, or none.
  finding.summary = fmt::format(
      "{}: PyTorch's watchdog {} did not move, as where a call of "
      "CUDA or NCCL does not return, or the GIL is held",
      known.size() > 1 ? ranks_text(known) : speaker, known.size() > 1 ? "threads" : "thread");
  finding.next = known.size() > 1
                     ? "look at the stacks of these processes (`py-spy dump --native`): the one "
                       "that stands elsewhere"
                     : "look at the stack of that process (`py-spy dump --native`)";
  if (known.size() > 1) {
    finding.culprits.clear();
    finding.victims = known;
  }
  return finding;
}

std::optional<Finding> judge_stall(const trace::Run& run) {
  Finding finding = make_finding(Verdict::missing_call, Confidence::open, Misstep::not_reached);
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind != SayingKind::missing_ranks || saying.rank < 0) continue;
      finding.culprits.push_back(culprit_named(saying.rank, saying));
      add_evidence(log, saying, finding);
    }
  }
  if (finding.culprits.empty()) return {};
  finding.summary = fmt::format(
      "Horovod waits for rank {}, which {} not submitted what the others "
      "have",
      finding.culprits.front().rank, finding.culprits.size() == 1 ? "has" : "like others has");
  finding.next = "look at what these ranks do instead";
  return finding;
}

Finding judge_rest(const trace::Run& run) {
  Finding finding = make_finding(Verdict::insufficient, Confidence::open);
  const Message* known = nullptr;
  const Saying* first = nullptr;
  bool is_context = true;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind == SayingKind::raised) continue;  // tell_of_unnamed()
      if (first == nullptr) first = &saying;
      // What healthy jobs print explains least.
      const Message* message = message_of(saying);
      const bool is_better = known == nullptr || known->role == Role::context;
      const bool tells_context = message != nullptr && message->role == Role::context;
      if (message != nullptr && (known == nullptr || (is_better && !tells_context))) {
        known = message;
      }
      is_context = is_context && tells_context;
      add_evidence(log, saying, finding);
    }
  }
  finding.summary = is_context ? "the log says of no rank that it went wrong"
                               : "the log says that something went wrong, and not who began it";
  if (known != nullptr) finding.summary += fmt::format(": {}", known->meaning);
  if (first != nullptr) finding.summary += fmt::format("; its words: {}", first->quote);
  finding.next = known != nullptr
                     ? std::string(known->next)
                     : "look at the lines around it; `rollcall run` records every call";
  return finding;
}

std::vector<Finding> judge_one(const trace::Run& run) {
  std::vector<Finding> findings;
  if (run.logs.empty()) return findings;
  const bool says_more = std::any_of(run.logs.begin(), run.logs.end(), [](const JobLog& log) {
    return std::any_of(log.sayings.begin(), log.sayings.end(),
                       [](const Saying& saying) { return saying.kind != SayingKind::raised; });
  });
  if (!says_more) return findings;
  const JobWaits waits = find_waits(run);
  const auto take = [&](std::optional<Finding> finding) {
    if (finding) findings.push_back(std::move(*finding));
  };
  take(judge_mismatch(run));
  take(judge_cause(run, waits));
  take(judge_not_joined(run));
  // Who is to blame, not only what: otherwise it helps to know who is silent.
  bool is_decided = std::any_of(findings.begin(), findings.end(),
                                [](const Finding& finding) { return !finding.culprits.empty(); });
  for (const WaitGroup& group : waits.groups) {
    std::optional<Finding> decided = judge_calls(group);
    if (!decided) decided = judge_behind(waits, group);
    is_decided = is_decided || decided.has_value();
    take(std::move(decided));
  }
  take(judge_parameters(run));
  take(judge_not_met(run));
  take(judge_late_cause(run, waits));
  if (!is_decided) {
    for (const WaitGroup* group : groups_to_tell(waits)) take(judge_silence(waits, *group));
  }
  if (findings.empty()) take(judge_host(run));
  if (findings.empty()) take(judge_stall(run));
  if (findings.empty()) findings.push_back(judge_rest(run));
  // What is surest leads; of equals what was asked first.
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.confidence < b.confidence; });
  tell_of_groups(waits, findings.front());
  tell_of_unnamed(run, waits, findings.front());
  return findings;
}

}  // namespace

std::vector<Finding> judge_testimony(const trace::Run& run) {
  const bool has_stacks = std::any_of(run.logs.begin(), run.logs.end(), trace::is_of_stacks);
  if (!has_stacks) return judge_attempts(run, judge_one);
  trace::Run words;
  for (const JobLog& log : run.logs) {
    if (!trace::is_of_stacks(log)) words.logs.push_back(log);
  }
  std::vector<Finding> findings;
  if (!words.logs.empty()) findings = judge_attempts(words, judge_one);
  // Where calls are on file, stacks are told beside them.
  if (std::optional<Finding> stacks = judge_stacks(run); stacks && run.processes.empty()) {
    findings.push_back(std::move(*stacks));
  }
  return findings;
}

}  // namespace rollcall::analysis
