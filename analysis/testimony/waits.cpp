#include "analysis/testimony/waits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "analysis/testimony/parts.h"

namespace rollcall::analysis {
namespace {

using trace::JobLog;
using trace::kUntold;
using trace::Saying;
using trace::SayingKind;

bool is_wait(const Saying& saying) {
  return saying.kind == SayingKind::gave_up || saying.kind == SayingKind::blocking_wait;
}

bool is_default(const Saying& saying) {
  return saying.group == "GUID 0" || saying.group == "PG 0" || saying.group.starts_with("PG 0 ") ||
         saying.group_text == "default_pg";
}

WaitGroup& group_of(JobWaits& waits, std::map<std::string, size_t>& by_name, const Saying& saying) {
  const std::string& key = saying.group;
  const auto [slot, is_new] = by_name.try_emplace(key, waits.groups.size());
  if (is_new) {
    WaitGroup& group = waits.groups.emplace_back();
    group.name = saying.group_text;
    group.is_named = !saying.group.empty() && !saying.is_group_local;
    group.is_whole_job = is_default(saying);
  }
  return waits.groups[slot->second];
}

void take_standing(const Saying& saying, WaitGroup& group) {
  if (saying.enqueued == kUntold) return;
  group.standings.try_emplace(saying.rank, Standing{&saying, saying.enqueued, saying.completed});
}

constexpr int64_t kMsPerDay = 86'400'000;

// When the first of its waits began, by the time of day, in the day before where it is negative;
// kUntold where some line does not tell.
int64_t began_ms(const WaitGroup& group) {
  int64_t first = INT64_MAX;
  for (const auto& [rank, wait] : group.waits) {
    const Saying& saying = *wait.saying;
    const bool is_told =
        saying.day_ms != kUntold && saying.ran_ms >= 0 && saying.ran_ms < kMsPerDay;
    if (!is_told) return kUntold;
    first = std::min(first, saying.day_ms - saying.ran_ms);
  }
  return first;
}

// As far as clocks tell, which are printed to the second; else in the order of the log.
void sort_by_age(std::vector<WaitGroup>& groups) {
  std::vector<std::pair<int64_t, WaitGroup>> aged;
  int64_t last = INT64_MIN;
  for (const WaitGroup& group : groups) {
    const int64_t began = began_ms(group);
    if (began == kUntold) return;
    last = std::max(last, began);
    aged.emplace_back(began, group);
  }
  // Nobody waits for half a day: midnight was between them.
  for (auto& [began, group] : aged) began += (last - began > kMsPerDay / 2 ? 2 : 1) * kMsPerDay;
  std::stable_sort(aged.begin(), aged.end(),
                   [](const auto& a, const auto& b) { return a.first / 1000 < b.first / 1000; });
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = std::move(aged[i].second);
}

// Of ranks that gave up the line with which the watchdog says so may be missing, and the next one
// be there, which names the number of the call. Of an error it is printed, too: not of a rank that
// tells of one.
void take_positions(const trace::Run& run, std::map<std::string, size_t>& by_name,
                    JobWaits& waits) {
  std::set<int32_t> others;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      const bool has_error =
          saying.kind == SayingKind::exception || saying.kind == SayingKind::async_error;
      if (has_error || is_wait(saying)) others.insert(saying.rank);
    }
  }
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind != SayingKind::position || saying.rank < 0) continue;
      waits.told.insert(saying.rank);
      if (saying.seq == kUntold || others.contains(saying.rank)) continue;
      group_of(waits, by_name, saying).waits.try_emplace(saying.rank, GaveUp{&log, &saying});
      if (run.logs.size() == 1) waits.first_line = std::min(waits.first_line, saying.line);
    }
  }
}

// NCCL's own lines and reports of RAS in the same files know how large the job is at least.
int32_t largest_communicator(const trace::Run& run) {
  int32_t largest = -1;
  for (const trace::Process& process : run.processes) {
    for (const trace::Comm& comm : process.comms) largest = std::max(largest, comm.nranks);
  }
  return largest;
}

// Whether a log ends among its time-outs: who says nothing may have been about to. A start behind
// them tells that nobody was.
bool ends_within(const JobLog& log) {
  if (log.last_line == 0 || log.last_wait_line == 0) return false;
  const bool is_started_again =
      !log.attempts.empty() && log.attempts.back().line > log.last_wait_line;
  return !is_started_again && log.last_line <= log.last_wait_line;
}

}  // namespace

JobWaits find_waits(const trace::Run& run) {
  JobWaits waits;
  waits.world_size = largest_communicator(run);
  std::map<std::string, size_t> by_name;
  for (const JobLog& log : run.logs) {
    waits.world_size = std::max(waits.world_size, log.world_size);
    waits.leaves_out_alike = waits.leaves_out_alike || log.leaves_out_alike;
    if (log.left_out_from != 0) waits.left_out_from = log.left_out_from;
    for (const Saying& saying : log.sayings) {
      waits.world_at_least = std::max(waits.world_at_least, saying.rank + 1);
      const bool is_told_of =
          saying.kind == SayingKind::died || saying.kind == SayingKind::missing_ranks ||
          saying.kind == SayingKind::not_joined || saying.kind == SayingKind::parameters_differ ||
          saying.kind == SayingKind::machine;
      if (saying.rank >= 0 && !is_told_of) waits.speakers.try_emplace(saying.rank, &saying);
      if (saying.kind == SayingKind::host_stuck && saying.rank >= 0) {
        waits.stuck.try_emplace(saying.rank, GaveUp{&log, &saying});
      }
      // Of a line that lost its head only the number in the group is left.
      if (is_wait(saying) && saying.rank < 0) waits.told.insert(saying.group_rank);
      if (!is_wait(saying) || saying.rank < 0) continue;
      if (run.logs.size() == 1) waits.first_line = std::min(waits.first_line, saying.line);
      group_of(waits, by_name, saying).waits.try_emplace(saying.rank, GaveUp{&log, &saying});
    }
  }
  take_positions(run, by_name, waits);
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      const bool is_position =
          saying.kind == SayingKind::position || saying.kind == SayingKind::other_position;
      const auto group = by_name.find(saying.group);
      if (!is_position || saying.rank < 0 || group == by_name.end()) continue;
      take_standing(saying, waits.groups[group->second]);
    }
  }
  sort_by_age(waits.groups);
  // Of logs that each have a rank, each ends where its rank does.
  waits.ends_within = run.logs.size() == 1 && ends_within(run.logs.front());
  return waits;
}

std::string group_text(const WaitGroup& group) {
  return group.name.empty() ? std::string("a group that the log does not name") : group.name;
}

bool is_transfer(const std::string& op) {
  constexpr std::string_view kTransfers[] = {"SEND", "RECV", "COALESCED", "RECVANYSOURCE",
                                             "UNKNOWN"};
  return std::find(std::begin(kTransfers), std::end(kTransfers), op) != std::end(kTransfers);
}

bool has_transfers(const WaitGroup& group) {
  return std::any_of(group.waits.begin(), group.waits.end(),
                     [](const auto& wait) { return is_transfer(wait.second.saying->op); });
}

int64_t usual_position(const WaitGroup& group) {
  std::map<int64_t, size_t> votes;
  for (const auto& [rank, wait] : group.waits) ++votes[wait.saying->seq];
  return std::max_element(votes.begin(), votes.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::vector<int32_t> ranks_behind(const WaitGroup& group) {
  std::vector<int32_t> behind;
  const int64_t position = usual_position(group);
  if (!group.is_named || position == kUntold || has_transfers(group)) return behind;
  for (const auto& [rank, standing] : group.standings) {
    if (standing.enqueued < position) behind.push_back(rank);
  }
  return behind;
}

bool waits_elsewhere(const JobWaits& waits, const WaitGroup& group, int32_t rank) {
  return std::any_of(waits.groups.begin(), waits.groups.end(), [&](const WaitGroup& other) {
    return &other != &group && other.waits.contains(rank);
  });
}

namespace {

// "call 12 of ", "calls 9 and 12 of " where no line names the group that is one of several then.
std::string place_text(const WaitGroup& group) {
  std::set<int64_t> positions;
  for (const auto& [rank, wait] : group.waits) positions.insert(wait.saying->seq);
  if (positions.contains(kUntold) || has_transfers(group)) return "a call of ";
  constexpr size_t kToldMax = 3;
  const bool are_told = !group.is_named && positions.size() > 1 && positions.size() <= kToldMax;
  if (are_told) return fmt::format("calls {} of ", fmt::join(positions, " and "));
  return fmt::format("call {} of ", usual_position(group));
}

}  // namespace

std::string waiting_text(const WaitGroup& group) {
  std::vector<int32_t> ranks;
  std::set<std::string> ops;
  for (const auto& [rank, wait] : group.waits) {
    ranks.push_back(rank);
    if (!wait.saying->op.empty()) ops.insert(wait.saying->op);
  }
  const std::string call = ops.empty() ? "" : fmt::format("{}, ", fmt::join(ops, " and "));
  return fmt::format("{} waited in {}{}{}", ranks_text(ranks), call, place_text(group),
                     group_text(group));
}

// --- several groups at once ----------------------------------------------------------------------

namespace {

// Ranks of `by`, for which all wait in `held`.
struct Hold {
  const WaitGroup* held = nullptr;
  const WaitGroup* by = nullptr;
  std::vector<int32_t> ranks;
};

// Where a rank is behind that waits in no other group nothing is held up by one of these.
std::vector<Hold> holds_of(const JobWaits& waits) {
  std::vector<Hold> holds;
  for (const WaitGroup& held : waits.groups) {
    const std::vector<int32_t> behind = ranks_behind(held);
    const bool is_held = std::all_of(behind.begin(), behind.end(), [&](int32_t rank) {
      return !held.waits.contains(rank) && waits_elsewhere(waits, held, rank);
    });
    for (const WaitGroup& by : waits.groups) {
      if (!is_held || &by == &held) continue;
      Hold hold{&held, &by, {}};
      std::copy_if(behind.begin(), behind.end(), std::back_inserter(hold.ranks),
                   [&](int32_t rank) { return by.waits.contains(rank); });
      if (!hold.ranks.empty()) holds.push_back(std::move(hold));
    }
  }
  return holds;
}

// The group that holds up all others, some of them by way of others; null where nothing decides.
const WaitGroup* explaining_group(const JobWaits& waits, const std::vector<Hold>& holds) {
  std::set<const WaitGroup*> explained;
  for (const WaitGroup& group : waits.groups) {
    const bool is_held = std::any_of(holds.begin(), holds.end(),
                                     [&](const Hold& hold) { return hold.held == &group; });
    if (!is_held) explained.insert(&group);
  }
  if (explained.size() != 1) return nullptr;
  const WaitGroup* first = *explained.begin();
  // A circle is not reached from there.
  for (size_t before = 0; before != explained.size();) {
    before = explained.size();
    for (const WaitGroup& group : waits.groups) {
      const bool is_explained = std::all_of(holds.begin(), holds.end(), [&](const Hold& hold) {
        return hold.held != &group || explained.contains(hold.by);
      });
      if (is_explained) explained.insert(&group);
    }
  }
  return explained.size() == waits.groups.size() ? first : nullptr;
}

constexpr size_t kGroupsToldMax = 4;

// "; rank 2 never made call 90 of default_pg and waited in tp instead: call 89 was the last".
std::string hold_text(const Hold& hold) {
  const int32_t first = hold.ranks.front();
  return fmt::format(
      "; {} never made call {} of {} and waited in {} instead: call {} was the last{}",
      ranks_text(hold.ranks), usual_position(*hold.held), group_text(*hold.held),
      group_text(*hold.by), hold.held->standings.at(first).enqueued,
      hold.ranks.size() == 1 ? "" : fmt::format(" of rank {}", first));
}

// " since 01:29:59" by the log's clock.
std::string since_clock(const WaitGroup& group) {
  const int64_t began = began_ms(group);
  if (began == kUntold) return {};
  const int64_t second = (began + kMsPerDay) % kMsPerDay / 1000;
  return fmt::format(" since {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
}

}  // namespace

std::vector<const WaitGroup*> groups_to_tell(const JobWaits& waits) {
  std::vector<const WaitGroup*> told;
  const WaitGroup* first = explaining_group(waits, holds_of(waits));
  if (first != nullptr) told.push_back(first);
  for (const WaitGroup& group : waits.groups) {
    if (&group != first && told.size() < kGroupsToldMax) told.push_back(&group);
  }
  return told;
}

void tell_of_groups(const JobWaits& waits, Finding& finding) {
  if (waits.groups.size() < 2) return;
  make_room(std::min(waits.groups.size(), kGroupsToldMax), finding);
  const bool have_ages =
      std::all_of(waits.groups.begin(), waits.groups.end(),
                  [](const WaitGroup& group) { return began_ms(group) != kUntold; });
  // A group without a name may be one of the others.
  const bool are_known = std::none_of(waits.groups.begin(), waits.groups.end(),
                                      [](const WaitGroup& group) { return group.name.empty(); });
  const std::string order =
      fmt::format("{}, {}: ", are_known ? "of several groups" : "of one group or several",
                  have_ages ? "oldest first" : "in the order of the log");
  for (size_t i = 0; i < std::min(waits.groups.size(), kGroupsToldMax); ++i) {
    const WaitGroup& group = waits.groups[i];
    finding.summary += fmt::format("; {}{}{}", i == 0 ? order : std::string("then "),
                                   waiting_text(group), since_clock(group));
    const GaveUp& wait = group.waits.begin()->second;
    if (!is_evidence(*wait.log, *wait.saying, finding)) {
      add_evidence(*wait.log, *wait.saying, finding);
    }
  }
  if (waits.groups.size() > kGroupsToldMax) {
    finding.summary += fmt::format("; then {} more", waits.groups.size() - kGroupsToldMax);
  }
  const std::vector<Hold> holds = holds_of(waits);
  for (size_t i = 0; i < std::min(holds.size(), kGroupsToldMax); ++i) {
    finding.summary += hold_text(holds[i]);
  }
  if (const WaitGroup* first = explaining_group(waits, holds)) {
    finding.summary += fmt::format("; so the wait in {} explains the {}", group_text(*first),
                                   waits.groups.size() == 2 ? "other" : "others");
  } else if (finding.confidence == Confidence::open) {
    finding.summary += "; nothing in the log decides which of these waits explains the others";
  }
}

// --- who did not come, as others tell it ---------------------------------------------------------

std::optional<Finding> judge_not_joined(const trace::Run& run) {
  Finding finding = make_finding(Verdict::missing_call, Confidence::likely, Misstep::not_reached);
  std::vector<int32_t> ranks;
  const Saying* first = nullptr;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind != SayingKind::not_joined) continue;
      if (std::find(ranks.begin(), ranks.end(), saying.rank) != ranks.end()) continue;
      if (first == nullptr) first = &saying;
      ranks.push_back(saying.rank);
      finding.culprits.push_back(culprit_named(saying.rank, saying));
      add_evidence(log, saying, finding);
    }
  }
  if (first == nullptr) return {};
  std::sort(ranks.begin(), ranks.end());
  // JAX does not tell whether these were late or another came too early.
  const bool is_of_jax = first->quote.find("/job:") != std::string::npos;
  if (is_of_jax) finding.confidence = Confidence::open;
  finding.summary =
      fmt::format("{}'s own report names {}: {} waited, and {} did not come",
                  is_of_jax ? "JAX" : "PyTorch", ranks_text(ranks),
                  is_of_jax ? "another process" : "the others", ranks.size() == 1 ? "it" : "they");
  if (first->seq != kUntold) {
    finding.summary += fmt::format(" to call {}; the last one of rank {} was {}", first->seq,
                                   first->rank, first->completed);
  }
  finding.next = fmt::format("look at the log and the stack of rank {}", ranks.front());
  return finding;
}

namespace {

// "retrieving ncclUniqueId from [0]": the ranks that waited, and for whom.
void tell_of_unique_id(const trace::Run& run, const Saying& first, Finding& finding) {
  // The numbers in brackets are ranks of the group. Where the waiting one has another there than in
  // the job, so may the other.
  const auto is_of_part = [](const Saying& saying) {
    return saying.rank >= 0 && saying.group_rank >= 0 && saying.rank != saying.group_rank;
  };
  std::vector<int32_t> ranks;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      const bool is_alike = saying.kind == SayingKind::not_met && saying.rank >= 0 &&
                            saying.other_rank == first.other_rank &&
                            is_of_part(saying) == is_of_part(first);
      if (is_alike && std::find(ranks.begin(), ranks.end(), saying.rank) == ranks.end()) {
        ranks.push_back(saying.rank);
      }
    }
  }
  std::sort(ranks.begin(), ranks.end());
  finding.victims = ranks;
  const std::string other =
      fmt::format("rank {}{}", first.other_rank, is_of_part(first) ? " of its group" : "");
  if (!is_of_part(first)) finding.culprits.push_back(culprit_named(first.other_rank, first));
  finding.summary = fmt::format(
      "{} waited for {} to make a communicator, and had no answer: it never came to that call, or "
      "had ended (\"{}\")",
      ranks.empty() ? std::string("a rank") : ranks_text(ranks), other, first.text);
  finding.next = fmt::format("look at the log and the stack of {}", other);
}

// "Task launch for StepId=8.0 failed on node n3", for each host.
void tell_of_launch(const trace::Run& run, const Saying& first, Finding& finding) {
  constexpr std::string_view kOfHost = "Task launch for ";
  constexpr size_t kNamed = 8;
  std::set<std::string> hosts;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      const bool is_alike = saying.kind == SayingKind::not_met && holds(saying, kOfHost);
      if (is_alike && hosts.size() < kNamed) hosts.insert(saying.text);
    }
  }
  finding.summary =
      hosts.empty() ? fmt::format("Slurm could not start a task: {}", first.text)
                    : fmt::format("Slurm could not start the tasks of {}", fmt::join(hosts, ", "));
  finding.next = "look at the log of slurmd on that host, and at the prolog and the container";
}

// "7/8 clients joined", "worker_count=7".
void tell_of_count(const Saying& saying, Finding& finding) {
  if (saying.elements_out >= saying.elements_in) {
    finding.summary = fmt::format(
        "{} processes had come where {} were expected, and some rank waited still: an earlier "
        "start left its count behind, or two jobs share a store",
        saying.elements_out, saying.elements_in);
    finding.next = "end what is left of earlier starts, and give the job a store of its own";
    return;
  }
  finding.confidence = Confidence::likely;
  const std::string when = saying.rank < 0 ? "to rank 0 when it gave up"
                                           : fmt::format("when rank {} gave up", saying.rank);
  finding.summary =
      fmt::format("{} of {} processes had come {}: the others never started, or could not reach {}",
                  saying.elements_out, saying.elements_in, when, saying.rank < 0 ? "it" : "rank 0");
  finding.next = "look for processes that did not start, and at MASTER_ADDR and the firewall";
}

// "Waiting in store based barrier", by every rank that has come, and the log ends there.
void tell_of_waiting(const trace::Run& run, const Saying& saying, Finding& finding) {
  std::set<int32_t> come;
  int64_t count = 0;
  for (const JobLog& log : run.logs) {
    for (const Saying& other : log.sayings) {
      if (!is_waiting(other) || other.seq != saying.seq || other.rank < 0) continue;
      come.insert(other.rank);
      count = std::max(count, other.elements_out);
    }
  }
  finding.victims.assign(come.begin(), come.end());
  finding.summary = fmt::format(
      "{} {} while process group number {} of the job is made: {} of its {} processes "
      "had come when the log ends",
      ranks_text(finding.victims), come.size() == 1 ? "waits" : "wait", saying.seq, count,
      saying.elements_in);
  finding.next = "look at the logs and the stacks of the ranks that print no such line";
  const auto expected = static_cast<size_t>(saying.elements_in);
  // Each that has come is known, and so are the others; of the first group all ranks are.
  const bool are_known = saying.seq == 1 && come.size() == static_cast<size_t>(count) &&
                         come.size() < expected && 2 * come.size() >= expected &&
                         *come.rbegin() < saying.elements_in;
  if (!are_known) return;
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < saying.elements_in; ++rank) {
    if (!come.contains(rank)) missing.push_back(rank);
  }
  for (const int32_t rank : missing) finding.culprits.push_back(culprit_named(rank, Saying{}));
  finding.summary += fmt::format("; {} {} no such line: {} not come, or the output is missing",
                                 ranks_text(missing), missing.size() == 1 ? "prints" : "print",
                                 missing.size() == 1 ? "it has" : "they have");
}

// "store_based_barrier_key:32": 31 groups were made before, so everybody had started.
void tell_of_later_group(const trace::Run& run, const Saying& saying, Finding& finding) {
  std::set<int32_t> ranks;
  for (const JobLog& log : run.logs) {
    for (const Saying& other : log.sayings) {
      const bool is_of_it = other.kind == SayingKind::not_met && other.seq == saying.seq;
      if (is_of_it && other.rank >= 0) ranks.insert(other.rank);
    }
  }
  finding.victims.assign(ranks.begin(), ranks.end());
  finding.summary = fmt::format(
      "{} waited while process group number {} of the job was made, and gave up: {} of its {} "
      "processes had come, and the others were late, had ended, or make other groups",
      ranks.empty() ? "a rank" : ranks_text(finding.victims), saying.seq, saying.elements_out,
      saying.elements_in);
  finding.next = "look at the logs and the stacks of the ranks that print no such line";
}

}  // namespace

bool is_start_failure(const Saying& saying) {
  return saying.kind == SayingKind::not_met &&
         (holds(saying, "srun: error: ") || holds(saying, "pyxis: "));
}

std::optional<Finding> judge_not_met(const trace::Run& run) {
  // The one that counts who had come.
  const JobLog* of = nullptr;
  const Saying* told = nullptr;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      const bool is_better =
          told == nullptr || (told->elements_out == kUntold && saying.elements_out != kUntold);
      // Behind a wait that passed the log goes on.
      const bool has_passed = is_waiting(saying) && log.last_line > log.last_wait_line;
      if (saying.kind != SayingKind::not_met || !is_better || has_passed) continue;
      of = &log;
      told = &saying;
    }
  }
  if (told == nullptr) return {};
  const Saying& saying = *told;
  Finding finding = make_finding(Verdict::init_incomplete, Confidence::open);
  if (saying.other_rank >= 0) {
    tell_of_unique_id(run, saying, finding);
  } else if (saying.elements_in != kUntold && !saying.text.empty()) {
    if (saying.text.find("clique") == std::string::npos) {
      finding.verdict = Verdict::missing_call;
    }
    finding.summary = saying.elements_out == kUntold
                          ? fmt::format("not all {} devices of a process came to `{}` of XLA",
                                        saying.elements_in, saying.text)
                          : fmt::format("{} of {} devices of a process came to `{}` of XLA",
                                        saying.elements_out, saying.elements_in, saying.text);
    finding.next = "look at the stacks of that process, and at the logs of the others";
  } else if (saying.elements_in != kUntold) {
    const bool is_short = saying.elements_out < saying.elements_in;
    if (is_waiting(saying) && is_short) {
      tell_of_waiting(run, saying, finding);
    } else if (saying.seq > 1 && is_short) {
      tell_of_later_group(run, saying, finding);
    } else {
      tell_of_count(saying, finding);
    }
  } else if (holds(saying, "srun: error: ")) {
    tell_of_launch(run, saying, finding);
  } else if (holds(saying, "cluster registration failed") || holds(saying, "tasks_to_register")) {
    finding.summary =
        "not all processes of JAX had come to its coordination service when its time was over: "
        "some never started, ended before, or could not reach it";
    finding.next = "look for processes that did not start, and at the coordinator's address";
  } else if (holds(saying, "pyxis: ")) {
    finding.summary = "the container of a task could not be started";
    finding.next = "look at the lines of pyxis and enroot around it, and at the image on that host";
  } else if (saying.text.empty()) {
    const bool is_timeout = holds(saying, "RendezvousTimeoutError");
    finding.summary = is_timeout ? "not all hosts had come to torchrun's rendezvous when its time "
                                   "was over: some never started, or could not reach it"
                                 : "a host could not reach torchrun's rendezvous: the host of "
                                   "--rdzv-endpoint had not started, or the network refuses";
    finding.next =
        "check --nnodes, --rdzv-endpoint and the firewall, and that torchrun runs on every host";
  } else {
    finding.summary = fmt::format(
        "a process could not reach rank 0 at {}: it had not started, or the network refuses",
        saying.text);
    finding.next = "check MASTER_ADDR, MASTER_PORT, the firewall, and that rank 0 started";
  }
  add_evidence(*of, saying, finding);
  return finding;
}

}  // namespace rollcall::analysis
