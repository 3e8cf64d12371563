#include "analysis/testimony/testimony.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analysis/record/index.h"
#include "analysis/terms/numbers.h"
#include "analysis/testimony/attempts.h"
#include "analysis/testimony/causes.h"
#include "analysis/testimony/parts.h"
#include "analysis/testimony/rest.h"
#include "analysis/testimony/stacks.h"
#include "analysis/testimony/unnamed.h"
#include "analysis/testimony/waits.h"
#include "core/base/limits.h"
#include "trace/import/job_endings.h"
#include "trace/import/traceback.h"
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
  if (saying.elements_in != kUntold) {
    text += fmt::format(" of {} {}", saying.elements_in,
                        saying.elements_in == 1 ? "element" : "elements");
  }
  return text;
}

// "; the limit of this wait is 1 ms, which ranks that are well overrun, too": of one that no job
// keeps.
std::string limit_text(const WaitGroup& group) {
  constexpr int64_t kShortMs = 10'000;
  int64_t limit_ms = kUntold;
  for (const auto& [rank, wait] : group.waits) limit_ms = std::max(limit_ms, wait.saying->limit_ms);
  if (limit_ms < 0 || limit_ms >= kShortMs) return {};
  return fmt::format("; the limit of this wait is {}, which ranks that are well overrun, too",
                     span_text(limit_ms * 1'000'000));
}

// "; they waited for 10.0 min", or when the call began by the log's clock.
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
  if (first->day_ms == kUntold) {
    return fmt::format("; {} waited for {}", group.waits.size() == 1 ? "it" : "they", waited);
  }
  const int64_t began = ((first->day_ms - first->ran_ms) % kDayMs + kDayMs) % kDayMs / 1000;
  return fmt::format(
      "; the call began at {:02}:{:02}:{:02} by the log's clock, and was given up "
      "after {}",
      began / 3600, began / 60 % 60, began % 60, waited);
}

// --- calls that PyTorch compared itself ----------------------------------------------------------

Verdict verdict_of_mismatch(const Saying& saying, Confidence& confidence) {
  const bool is_shifted =
      saying.seq != kUntold && saying.enqueued != kUntold && saying.seq != saying.enqueued;
  // Calls of other numbers differ because one of these ranks is behind, or made one too many.
  confidence = is_shifted ? Confidence::likely : Confidence::certain;
  if (!saying.other_op.empty() && saying.op != saying.other_op) return Verdict::op_mismatch;
  if (saying.elements_in == 0) return Verdict::count_mismatch;
  if (saying.elements_out == 0) return Verdict::dtype_mismatch;
  confidence = Confidence::likely;
  return is_shifted ? Verdict::missing_call : Verdict::op_mismatch;
}

// With TORCH_DISTRIBUTED_DEBUG=DETAIL a program of one barrier() was refused like this, in PyTorch
// 2.6 (github.com/pytorch/pytorch/issues/148976).
void doubt_barriers(Finding& finding) {
  finding.confidence = Confidence::open;
  finding.culprits.clear();
  finding.summary += "; some versions of PyTorch count barriers of ranks unlike when they compare";
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
          fmt::format("PyTorch compared the calls of a group: rank {} of it called {}{}",
                      saying.group_rank, saying.op, saying.text);
      if (saying.other_rank >= 0) {
        Culprit other = culprit_named(saying.other_rank, saying);
        other.op = saying.other_op;
        other.seq.reset();
        if (saying.enqueued >= 0) other.seq = static_cast<uint64_t>(saying.enqueued);
        finding.culprits.push_back(std::move(other));
        finding.summary += fmt::format(" where rank {} called {}", saying.other_rank,
                                       saying.other_op == saying.op
                                           ? "it with other arguments, or at another position"
                                           : saying.other_op);
      } else {
        finding.summary += ", and another rank something else";
      }
      if (saying.seq >= 0 && saying.enqueued >= 0 && saying.seq != saying.enqueued) {
        finding.summary += fmt::format(
            "; these are calls {} and {} of the group, so one of them "
            "is behind, or made a call too many",
            saying.seq, saying.enqueued);
        if (saying.op == "BARRIER" && saying.other_op == saying.op) doubt_barriers(finding);
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
    // What a line does not name agrees with anything.
    if (saying.seq != seq || saying.op.empty() || is_transfer(saying.op)) continue;
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

// Ranks that waited in calls of several kinds, in a group that no line names, and without numbers
// of calls (PyTorch before 2.2): they may be in different groups, or some may have run ahead. That
// others say nothing decides nothing then.
std::optional<Finding> judge_unnumbered(const WaitGroup& group) {
  std::map<std::string, Camp> camps;
  for (const auto& [rank, wait] : group.waits) {
    const Saying& saying = *wait.saying;
    if (saying.seq != kUntold || group.is_named || saying.op.empty()) return {};
    Camp& camp = camps[family_of(saying.op)];
    if (camp.call == nullptr) camp.call = &saying;
    camp.ranks.push_back(rank);
  }
  if (camps.size() < 2) return {};
  Finding finding = make_finding(Verdict::insufficient, Confidence::open);
  for (const auto& [family, camp] : camps) {
    finding.summary += fmt::format("{}{} waited in {}", finding.summary.empty() ? "" : ", and ",
                                   ranks_text(camp.ranks), camp.call->op);
    add_evidence(*group.waits.at(camp.ranks.front()).log, *camp.call, finding);
  }
  finding.summary +=
      "; the log names neither the groups nor the numbers of these calls, so they may differ at "
      "one position, or be calls of several groups";
  finding.summary += since_text(group);
  finding.next =
      "compare the code of these ranks that leads to these calls; `rollcall run` records "
      "them with their groups";
  finding.victims = ranks_of(group.waits);
  return finding;
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
    if (example == nullptr) add_evidence(*wait.log, *wait.saying, finding);
    if (example == nullptr || example->op.empty()) example = wait.saying;
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
      "{} never made call {} of {},{} in which {} waited: the last one that {} made is {}",
      ranks_text(behind), seq, group_text(group),
      example->op.empty() ? std::string() : fmt::format(" {},", example->op), ranks_text(victims),
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

// How many ranks the group has by the sizes of its call, in which each adds an equal part to what
// all get, or takes it; -1 where they do not tell.
int32_t size_of(const WaitGroup& group) {
  int64_t size = -1;
  for (const auto& [rank, wait] : group.waits) {
    const Saying& saying = *wait.saying;
    if (!may_differ_on_one_side(family_of(saying.op))) continue;
    const auto [part, all] = std::minmax(saying.elements_in, saying.elements_out);
    if (part <= 0 || all % part != 0) return -1;
    if (size >= 0 && size != all / part) return -1;
    size = all / part;
  }
  return size > 1 && size <= static_cast<int64_t>(kRanksMax) ? static_cast<int32_t>(size) : -1;
}

// Ranks of the group that do not speak of it, by their numbers in the job.
std::vector<int32_t> silent_in(const JobWaits& waits, const WaitGroup& group) {
  std::vector<int32_t> silent;
  int32_t size = std::max(waits.world_size, waits.world_at_least);
  if (!group.is_whole_job && (group.is_named || waits.groups.size() > 1)) return silent;
  if (!group.is_whole_job && size_of(group) > 0) {
    // Of a smaller group nobody tells which ranks of the job these are.
    if (size_of(group) < size) return silent;
    size = size_of(group);
  }
  for (int32_t rank = 0; rank < size; ++rank) {
    // Who tells where it gave up did so, though the line of the time-out itself is not in the log.
    const bool speaks = group.waits.contains(rank) || waits.told.contains(rank) ||
                        waits_elsewhere(waits, group, rank);
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

// Who of a group speaks, and who does not.
struct Silence {
  std::vector<int32_t> silent;
  std::vector<int32_t> stuck;
  std::string elsewhere;
  bool is_one = false;      // position that all who speak waited at
  bool is_alone = false;    // one speaks, and a size nobody tells: nothing follows for the others
  bool speak_all = false;   // as far as the log tells the size of the job
  bool speak_most = false;  // with lines of the time-outs themselves, else more lines are missing
};

Silence find_silence(const JobWaits& waits, const WaitGroup& group) {
  Silence found;
  found.silent = silent_in(waits, group);
  found.stuck = take_stuck(waits, found.silent);
  found.elsewhere = elsewhere_text(waits, group);
  found.is_one = is_one_position(group);
  found.is_alone = group.waits.size() == 1 && waits.world_size <= 0;
  found.speak_all = waits.world_size > 0 && group.is_whole_job && found.silent.empty() &&
                    found.stuck.empty() && found.elsewhere.empty();
  const bool has_lines = std::any_of(group.waits.begin(), group.waits.end(), [](const auto& wait) {
    return wait.second.saying->kind != SayingKind::position;
  });
  found.speak_most = group.waits.size() >= found.silent.size() + found.stuck.size() &&
                     !found.is_alone && has_lines;
  return found;
}

Verdict verdict_of_silence(const JobWaits& waits, const WaitGroup& group, const Silence& found) {
  if (is_first_call(group) && found.is_one) return Verdict::init_incomplete;
  if (found.speak_all && found.is_one) return Verdict::stuck_on_gpu;
  const bool is_kept_whole =
      !waits.leaves_out_alike && waits.left_out_from == 0 && !waits.ends_within;
  if (!found.silent.empty() && found.speak_most && is_kept_whole) return Verdict::missing_call;
  const bool are_only_stuck = found.silent.empty() && !found.stuck.empty();
  return are_only_stuck && found.speak_most ? Verdict::stuck_in_call : Verdict::insufficient;
}

// Why the others say nothing, and what to do about it.
void tell_of_silent(const JobWaits& waits, const Silence& found, Finding& finding) {
  const std::vector<int32_t>& silent = found.silent;
  if (waits.leaves_out_alike) {
    finding.summary += "; Ray prints one line for several that are alike, so others may have, too";
    finding.next = "run with RAY_DEDUP_LOGS=0, or look at the log of each worker";
  } else if (!silent.empty() && waits.left_out_from != 0) {
    finding.summary += "; others may have, too, in lines that were left out";
    finding.next = fmt::format("cut the log in parts, and read that from line {} on by itself",
                               waits.left_out_from);
  } else if (!silent.empty() && found.speak_most && waits.ends_within) {
    finding.summary +=
        fmt::format("; {} {} none, but the log ends with these lines, so {} may have been about to",
                    ranks_text(silent), silent.size() == 1 ? "prints" : "print",
                    silent.size() == 1 ? "it" : "they");
    finding.next = fmt::format(
        "look at what the job printed behind the end of this log; if rank {} stays silent, at its "
        "stack",
        silent.front());
  } else if (!silent.empty()) {
    finding.summary +=
        found.is_alone
            ? "; no other rank prints one: they never called it, died, or their output is missing"
            : fmt::format("; {} {} no time-out: never called it, died, or the output is missing",
                          ranks_text(silent), silent.size() == 1 ? "prints" : "print");
    finding.next = found.speak_most
                       ? fmt::format("look at the log and the stack of rank {}", silent.front())
                       : "collect the logs of all ranks, or run under `rollcall run`";
  } else if (!found.elsewhere.empty()) {
    finding.next = "look first at the smaller group: whoever waits there comes to no other call";
  } else if (found.stuck.empty()) {
    finding.summary += "; which other ranks belong to it the log does not tell";
    finding.next = "collect the logs of all ranks, or run under `rollcall run`";
  }
}

Finding judge_silence(const JobWaits& waits, const WaitGroup& group) {
  const Silence found = find_silence(waits, group);
  const Verdict verdict = verdict_of_silence(waits, group, found);
  Finding finding = make_finding(verdict, Confidence::open);
  const Saying& first = *group.waits.begin()->second.saying;
  finding.summary = waiting_text(group) + ", and gave up";
  if (!found.is_one && !is_transfer(first.op)) {
    // Numbers of groups that nobody names may be of several.
    finding.summary += group.is_named || group.is_whole_job
                           ? "; not all in the same call, so some had run ahead"
                           : "; not all in the same call: some had run ahead, or these are calls "
                             "of several groups";
  }
  if (verdict == Verdict::init_incomplete) {
    finding.summary +=
        "; no call of this group ever ended, so its connections may not have come up";
    finding.next =
        "run once with NCCL_DEBUG=INFO, and look at NCCL WARN lines, interfaces and firewall";
  } else if (found.speak_all) {
    finding.summary +=
        waits.groups.size() == 1
            ? "; all ranks made this call, so it is stuck on the GPUs or in the network"
            : "; all ranks made this call, so it is stuck on the GPUs, in the network, or behind "
              "a call of another group";
    finding.next = "look at `dmesg` for Xid, at the links, and at the stacks of all ranks";
  } else {
    tell_of_silent(waits, found, finding);
  }
  finding.summary += found.elsewhere;
  if (verdict == Verdict::missing_call) {
    finding.misstep = Misstep::not_reached;
    for (const int32_t rank : found.silent) finding.culprits.push_back(culprit_named(rank, first));
  }
  finding.summary += since_text(group) + limit_text(group);
  for (const auto& [rank, wait] : group.waits) add_evidence(*wait.log, *wait.saying, finding);
  tell_of_stuck(waits, found.stuck, finding);
  finding.victims = ranks_of(group.waits);
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
      add_evidence(log, saying, finding);
    }
  }
  if (speaker.empty()) return {};
  const std::vector<int32_t> known(ranks.begin(), ranks.end());
  // What all of them met, one of them may have begun, or none; and who is alone waits for others as
  // likely as not: a call that launches blocks where these have not come.
  finding.summary = fmt::format(
      "{}: PyTorch's watchdog {} did not move, as where a call of "
      "CUDA or NCCL does not return, or the GIL is held",
      known.size() > 1 ? ranks_text(known) : speaker, known.size() > 1 ? "threads" : "thread");
  finding.next = known.size() > 1
                     ? "look at the stacks of these processes (`py-spy dump --native`): the one "
                       "that stands elsewhere"
                     : "look at the stack of that process (`py-spy dump --native`), and at the "
                       "ranks that print no such line";
  finding.victims = known;
  return finding;
}

std::optional<Finding> judge_stall(const trace::Run& run) {
  Finding finding = make_finding(Verdict::missing_call, Confidence::open, Misstep::not_reached);
  std::vector<int32_t> missing;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind != SayingKind::missing_ranks || saying.rank < 0) continue;
      if (std::find(missing.begin(), missing.end(), saying.rank) != missing.end()) continue;
      missing.push_back(saying.rank);
      finding.culprits.push_back(culprit_named(saying.rank, saying));
      add_evidence(log, saying, finding);
    }
  }
  if (missing.empty()) return {};
  std::sort(missing.begin(), missing.end());
  finding.summary = fmt::format("Horovod waits for {}, which {} not submitted what the others have",
                                ranks_text(missing), missing.size() == 1 ? "has" : "have");
  finding.next = "look at what these ranks do instead";
  return finding;
}

// The logs that are not `of` some kind, beside the communicators that tell how large the job is.
template <typename OfKind>
trace::Run part_without(const trace::Run& run, OfKind of) {
  trace::Run part;
  for (const JobLog& log : run.logs) {
    if (!of(log)) part.logs.push_back(log);
  }
  for (const trace::Process& process : run.processes) {
    trace::Process& kept = part.processes.emplace_back();
    kept.file = process.file;
    kept.job_rank = process.job_rank;
    kept.comms = process.comms;
  }
  return part;
}

// Where nothing is told but that Slurm ended the step, an error that stands in the log says more.
std::optional<Finding> judge_error_of_step(const trace::Run& run) {
  bool has_end = false;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind == SayingKind::raised) continue;
      if (!trace::is_end_of_step(saying)) return {};
      has_end = true;
    }
  }
  if (!has_end) return {};
  std::optional<Finding> finding = judge_unnamed(run);
  if (finding) finding->summary += "; Slurm ended the step, from outside or because a task failed";
  return finding;
}

std::vector<Finding> judge_words(const trace::Run& run, const JobWaits& waits) {
  std::vector<Finding> findings;
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
    if (!decided) decided = judge_unnumbered(group);
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
  if (findings.empty()) take(judge_error_of_step(run));
  if (findings.empty()) findings.push_back(judge_rest(run));
  // What is surest leads; of equals what was asked first.
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.confidence < b.confidence; });
  tell_of_groups(waits, findings.front());
  return findings;
}

// An error in a file of its own is told, and takes nothing from the order of what another tells.
std::vector<Finding> judge_one(const trace::Run& run) {
  const auto has_errors = std::count_if(run.logs.begin(), run.logs.end(), trace::is_of_errors);
  if (static_cast<size_t>(has_errors) == run.logs.size()) return {};
  const trace::Run told = has_errors == 0 ? trace::Run() : part_without(run, trace::is_of_errors);
  const trace::Run& words = has_errors == 0 ? run : told;
  const JobWaits waits = find_waits(words);
  std::vector<Finding> findings = judge_words(words, waits);
  tell_of_unnamed(run, waits, findings.front());
  return findings;
}

// Of a process that Rollcall recorded it is known how it ended: what it got over is no news.
bool may_have_ended_by_it(const trace::Run& run) {
  return run.processes.empty() ||
         std::any_of(run.processes.begin(), run.processes.end(),
                     [](const trace::Process& process) { return process.is_foreign(); });
}

}  // namespace

std::vector<Finding> judge_testimony(const trace::Run& run) {
  const bool has_stacks = std::any_of(run.logs.begin(), run.logs.end(), trace::is_of_stacks);
  const trace::Run others = has_stacks ? part_without(run, trace::is_of_stacks) : trace::Run();
  const trace::Run& words = has_stacks ? others : run;
  std::vector<Finding> findings;
  if (!words.logs.empty()) findings = judge_attempts(words, judge_one);
  if (findings.empty() && may_have_ended_by_it(run)) {
    if (std::optional<Finding> unnamed = judge_unnamed(words)) {
      tell_of_unnamed(words, find_waits(words), *unnamed);
      findings.push_back(std::move(*unnamed));
    }
  }
  if (!has_stacks) return findings;
  // Where calls are on file, stacks are told beside them.
  std::optional<Finding> stacks = judge_stacks(run, findings.empty() ? 1 : 2);
  if (stacks && run.processes.empty()) {
    findings.push_back(std::move(*stacks));
  } else if (!findings.empty()) {
    tell_of_stack(run, findings.front());
  }
  return findings;
}

}  // namespace rollcall::analysis
