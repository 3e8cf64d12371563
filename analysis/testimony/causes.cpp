#include "analysis/testimony/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analysis/terms/numbers.h"
#include "analysis/testimony/catalogue.h"
#include "analysis/testimony/parts.h"
#include "core/base/limits.h"
#include "trace/import/job_endings.h"

namespace rollcall::analysis {
namespace {

using trace::JobLog;
using trace::kUntold;
using trace::Saying;
using trace::SayingKind;

bool is_about_memory(const Saying& saying) {
  constexpr std::string_view kWords[] = {"illed process",   "oom-kill",
                                         "oom_kill",        "OOMKilled",
                                         "memory pressure", "running low on memory"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view words) { return holds(saying, words); });
}

Verdict verdict_of_cause(const Saying& saying) {
  if (saying.kind == SayingKind::died) return Verdict::rank_dead;
  if (saying.kind == SayingKind::machine) {
    const bool is_end = is_about_memory(saying) || holds(saying, "NODE FAILURE") ||
                        holds(saying, "Node failure") || holds(saying, "node has died");
    return is_end ? Verdict::rank_dead : Verdict::cuda_error;
  }
  if (saying.kind == SayingKind::exception) {
    const bool is_of_cuda = holds(saying, "CUDA error") || holds(saying, "cudaGetDeviceCount") ||
                            holds(saying, "cudaEventQuery") || holds(saying, "], thread: [") ||
                            holds(saying, "an illegal memory access");
    return is_of_cuda ? Verdict::cuda_error : Verdict::rank_dead;
  }
  if (holds(saying, "ollective mismatch") || holds(saying, "Mismatched collective")) {
    return Verdict::count_mismatch;
  }
  const bool is_cuda = holds(saying, "Cuda failure") || holds(saying, "unhandled cuda error");
  return is_cuda ? Verdict::cuda_error : Verdict::async_error;
}

// Ray prints one line for several processes of the cluster that print alike.
bool stands_for_several(const Saying& saying) {
  return holds(saying, "[repeated ") && holds(saying, "across cluster]");
}

// Empty where what it means says all.
std::string what_text(const Saying& saying) {
  switch (saying.kind) {
    case SayingKind::died: {
      const bool is_named = saying.rank >= 0 || saying.local_rank >= 0 || !saying.writer.empty();
      const std::string who = stands_for_several(saying) ? std::string(trace::kOneOfSeveral)
                              : is_named                 ? speaker_text(saying)
                                                         : "a process";
      // Slurm tells of memory that was used up, and of no status.
      const bool has_status = saying.code != kUntold && !holds(saying, "Out Of Memory");
      if (is_of_heartbeat(saying)) return fmt::format("{} sent no heartbeat", who);
      if (!has_status) return fmt::format("{} ended", who);
      return fmt::format("{} ended with status {}", who, saying.code);
    }
    case SayingKind::machine:
      if (saying.code == kUntold) return saying.writer;
      return fmt::format("the driver reports Xid {}", saying.code);
    case SayingKind::warning:
      return fmt::format("{} warns in {}: \"{}\"",
                         holds(saying, "libfabric:") ? "libfabric" : "NCCL", speaker_text(saying),
                         saying.text);
    case SayingKind::result:
      return fmt::format("NCCL failed with result {} in {}", saying.code, speaker_text(saying));
    case SayingKind::exception: {
      constexpr size_t kShown = 160;
      const std::string name = saying.op.empty() ? "an error" : saying.op;
      const bool is_named = saying.rank >= 0 || !saying.writer.empty();
      std::string raised =
          fmt::format("{} raised {}",
                      is_named ? speaker_text(saying) : "a rank that the log does not name", name);
      if (saying.text.empty()) return raised;
      return fmt::format("{}: \"{}\"", raised, saying.text.substr(0, kShown));
    }
    default: {
      const std::string who = speaker_text(saying);
      // XLA goes on with what it was doing.
      const std::string words = saying.text.substr(0, saying.text.find(';'));
      return fmt::format("NCCL reported an error{} {}: \"{}\"",
                         who == kNobodyNamed ? ", in" : " to", who, words);
    }
  }
}

bool is_of_causes(SayingKind kind) {
  return kind == SayingKind::died || kind == SayingKind::machine || kind == SayingKind::warning ||
         kind == SayingKind::async_error || kind == SayingKind::exception;
}

// Ended by a signal that no watchdog and no launcher sends to what still runs.
bool is_violent(const Saying& saying) {
  constexpr int64_t kAbort = -6;
  constexpr int64_t kTerminate = -15;
  return saying.kind == SayingKind::died && saying.code < 0 && saying.code != kUntold &&
         saying.code != kAbort && saying.code != kTerminate;
}

// Whether the rank had come to a call that others gave up as well: whatever it met before, it went
// on.
bool waited_with_others(const JobWaits& waits, int32_t rank) {
  return std::any_of(waits.groups.begin(), waits.groups.end(), [&](const WaitGroup& group) {
    const auto own = group.waits.find(rank);
    if (own == group.waits.end() || own->second.saying->seq == kUntold) return false;
    return std::any_of(group.waits.begin(), group.waits.end(), [&](const auto& wait) {
      return wait.first != rank && wait.second.saying->seq == own->second.saying->seq;
    });
  });
}

// Whether every rank of the job gave up one and the same call: whoever met an error, it went on.
bool have_all_waited(const JobWaits& waits) {
  return std::any_of(waits.groups.begin(), waits.groups.end(), [&](const WaitGroup& group) {
    const int64_t position = group.waits.begin()->second.saying->seq;
    const auto size = static_cast<int64_t>(group.waits.size());
    return position != kUntold && size == waits.world_size &&
           std::all_of(group.waits.begin(), group.waits.end(),
                       [&](const auto& wait) { return wait.second.saying->seq == position; });
  });
}

bool has_given_up(const JobWaits& waits, int32_t rank) {
  return std::any_of(waits.groups.begin(), waits.groups.end(),
                     [&](const WaitGroup& group) { return group.waits.contains(rank); });
}

// Whether it came, as far as the logs tell, when somebody had already given up.
bool is_late(const trace::Run& run, const JobWaits& waits, const Saying& saying) {
  if (!waits.has_waits()) return false;
  // Whoever tells of its own time-out was alive then: Ray shows the end of a worker before its last
  // lines.
  const bool has_told = saying.rank >= 0 && has_given_up(waits, saying.rank);
  if (saying.kind == SayingKind::died && has_told) return true;
  const bool is_one_log = run.logs.size() == 1;
  if (is_one_log && saying.line < waits.first_line) {
    // Behind an error of CUDA no call of that rank ends, and others wait in the same.
    return saying.kind == SayingKind::exception &&
           verdict_of_cause(saying) != Verdict::cuda_error &&
           (saying.rank < 0 ? have_all_waited(waits) : waited_with_others(waits, saying.rank));
  }
  const bool is_others = saying.rank >= 0 && !has_given_up(waits, saying.rank);
  if (is_others && saying.is_first_death && is_violent(saying)) return false;
  // Of several logs nobody knows the order. A rank that raised and gave up nothing did not wait.
  return is_one_log || saying.kind != SayingKind::exception || !is_others;
}

// NCCL warns of much that it gets over. Where nothing follows from it, nothing is known to be
// wrong.
bool has_followed(const trace::Run& run, const JobWaits& waits) {
  return waits.has_waits() || std::any_of(run.logs.begin(), run.logs.end(), [](const JobLog& log) {
           return std::any_of(log.sayings.begin(), log.sayings.end(), [](const Saying& saying) {
             return saying.kind != SayingKind::warning && saying.kind != SayingKind::alive &&
                    saying.kind != SayingKind::raised && !has_role(saying, Role::context);
           });
         });
}

struct Said {
  const JobLog* log = nullptr;
  const Saying* saying = nullptr;
  const Message* message = nullptr;
};

template <typename Wanted>
std::vector<Said> causes_that(const trace::Run& run, Wanted wanted) {
  std::vector<Said> found;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (!is_of_causes(saying.kind)) continue;
      const Message* message = message_of(saying);
      const bool is_cause = message != nullptr && message->role == Role::cause;
      if (is_cause && wanted(saying)) found.push_back({&log, &saying, message});
    }
  }
  return found;
}

// Whether somebody tells of the end of a process that the others needed. What was ended for memory
// is that process itself.
bool tells_of_an_end(const JobLog& log) {
  return std::any_of(log.sayings.begin(), log.sayings.end(), [](const Saying& saying) {
    return saying.kind != SayingKind::died && saying.kind != SayingKind::machine &&
           !is_about_memory(saying) && has_role(saying, Role::consequence);
  });
}

bool is_told_by_ray(const Saying& death) {
  return holds(death, "A worker died or was killed") || holds(death, "Worker exit type: ");
}

// Who ends by itself behind such an error did not begin it.
class Aftermath {
 public:
  explicit Aftermath(const trace::Run& run) : is_ordered_(run.logs.size() == 1) {
    for (const JobLog& log : run.logs) {
      for (const Saying& saying : log.sayings) {
        const bool is_error =
            saying.kind == SayingKind::async_error || saying.kind == SayingKind::exception;
        if (!is_error || !has_role(saying, Role::consequence)) continue;
        auto& lines = trace::tells_of_another_end(saying) ? first_lines_ : vague_lines_;
        lines.try_emplace({saying.attempt, saying.rank}, saying.line);
        if (saying.rank < 0) nameless_.insert({saying.attempt, saying.line});
      }
    }
  }
  // The rank of the death had told so.
  bool holds(const Saying& death) const {
    const bool has_told = death.rank >= 0 && stands_behind(first_lines_, death, death.rank);
    return has_ended(death) && (has_told || has_in_traceback(death));
  }
  // Some rank had, and nobody says which; or that rank, in words that may mean something else.
  bool may_hold(const Saying& death) const {
    if (!has_ended(death)) return false;
    // Ray shows in no order what several hosts print, and the end of a process behind an error of
    // NCCL like any other.
    if (is_told_by_ray(death) && !first_lines_.empty()) return true;
    const bool is_of_nobody = is_ordered_ || has_traceback(death);
    return (is_of_nobody &&
            (stands_behind(first_lines_, death, -1) || stands_behind(vague_lines_, death, -1))) ||
           (death.rank >= 0 && stands_behind(vague_lines_, death, death.rank));
  }

 private:
  using Lines = std::map<std::pair<uint32_t, int32_t>, uint64_t>;  // by attempt and rank

  static bool has_ended(const Saying& death) {
    return death.kind == SayingKind::died && !is_violent(death);
  }
  bool stands_behind(const Lines& lines, const Saying& death, int32_t rank) const {
    const auto told = lines.find({death.attempt, rank});
    return told != lines.end() && (!is_ordered_ || told->second < death.line);
  }

  // torch.multiprocessing tells of the end first, and below it what the process raised.
  static bool has_traceback(const Saying& death) {
    return trace::is_in_front_of_traceback(death.quote);
  }
  bool has_in_traceback(const Saying& death) const {
    constexpr uint64_t kReach = 200;  // lines
    if (!is_ordered_ || !has_traceback(death)) return false;
    const auto next = nameless_.lower_bound({death.attempt, death.line});
    return next != nameless_.end() && next->first == death.attempt &&
           next->second <= death.line + kReach;
  }

  bool is_ordered_;
  Lines first_lines_;
  Lines vague_lines_;
  std::set<std::pair<uint32_t, uint64_t>> nameless_;  // by attempt, lines
};

// Tasks that Slurm could not start end, too, and ran no program. Behind words of a rank that ran
// another step may have begun.
std::set<const Saying*> ends_of_unstarted(const trace::Run& run) {
  std::set<const Saying*> ends;
  for (const JobLog& log : run.logs) {
    bool is_failed = false;
    uint32_t attempt = 0;
    for (const Saying& saying : log.sayings) {
      const bool is_told_of = saying.kind == SayingKind::not_met ||
                              saying.kind == SayingKind::died ||
                              has_role(saying, Role::consequence);
      const bool has_run = saying.rank >= 0 && !is_told_of;
      if (saying.attempt != attempt || has_run) is_failed = false;
      attempt = saying.attempt;
      is_failed = is_failed || is_start_failure(saying);
      const bool is_end = saying.kind == SayingKind::died && !is_violent(saying);
      if (is_failed && is_end) ends.insert(&saying);
    }
  }
  return ends;
}

// Ray ends for memory what it can start again, in jobs that go on.
bool is_of_ray(const Saying& saying) {
  return holds(saying, "memory pressure") || holds(saying, "running low on memory");
}

// The kernel of a host, or Ray: of whose process it tells is not known.
bool is_of_any_process(const Saying& saying) {
  return saying.kind == SayingKind::machine &&
         (holds(saying, "illed process") || holds(saying, "oom-kill") || is_of_ray(saying));
}

// Kubeflow's controller tells of all pods, and names those of ranks so.
bool is_pod_beside(const Saying& saying) {
  constexpr std::string_view kOfRanks[] = {"-worker-", "-master-", "-chief-", "-launcher"};
  return saying.writer.starts_with("pod ") &&
         std::none_of(std::begin(kOfRanks), std::end(kOfRanks), [&](std::string_view words) {
           return saying.writer.find(words) != std::string::npos;
         });
}

// Ended processes that may have been ended as the others were, or belong to no rank: mpiexec ends
// the rest, and a shell runs much beside the job.
bool is_of_no_rank(const Saying& saying) {
  return saying.kind == SayingKind::died && saying.rank < 0 &&
         (saying.writer == trace::kOneOfSeveral || stands_for_several(saying) ||
          trace::is_told_by_shell(saying.quote) || is_pod_beside(saying));
}

// A rank ends the job so for an error of another, too.
bool is_abort_of_all(const Saying& saying) {
  return saying.kind == SayingKind::died && holds(saying, "MPI_ABORT was invoked");
}

// Slurm had ended the step by then, and a task that is told so may exit with any status. The order
// of the sayings counts, and not that of their lines: see JobLogReader::take_late_tasks().
bool is_behind_end_of_step(const JobLog& log, const Saying& saying) {
  if (saying.kind != SayingKind::died || !holds(saying, "srun: error: ")) return false;
  const auto steps = std::find_if(log.sayings.begin(), log.sayings.end(), trace::is_end_of_step);
  return std::any_of(steps, log.sayings.end(),
                     [&](const Saying& behind) { return &behind == &saying; });
}

// Others say nothing certain about a rank that ended: warnings, errors that anybody may print.
bool is_certain_end(const Saying& saying) {
  return (saying.kind == SayingKind::died && !is_of_no_rank(saying) && !is_abort_of_all(saying)) ||
         (saying.kind == SayingKind::machine && !is_of_any_process(saying)) ||
         (saying.kind == SayingKind::exception && saying.rank >= 0);
}

bool is_first_end(const Said& said) {
  return said.saying->kind == SayingKind::died && said.saying->is_first_death &&
         said.saying->rank >= 0;
}

// Reports give the local time without its zone, and zones differ by quarters of an hour.
bool may_be_of_another_zone(int64_t span_ms) {
  constexpr int64_t kQuarterMs = 900'000;
  constexpr int64_t kMarginMs = 120'000;
  const int64_t over_ms = span_ms % kQuarterMs;
  return span_ms > kQuarterMs / 2 && std::min(over_ms, kQuarterMs - over_ms) <= kMarginMs;
}

// Each launcher tells of the process of its own that ended first. Of several reports the one whose
// time is clearly the earliest: launchers of before PyTorch 2.4 look at their processes every five
// seconds, and the clocks of hosts differ. Null: none, or one report alone.
const Said* first_of_launchers(const std::vector<Said>& causes) {
  constexpr int64_t kMarginMs = 5'000;
  constexpr int64_t kDayMs = 86'400'000;
  const auto span_ms = [](const Said& from, const Said& to) {
    const int64_t span = to.saying->day_ms - from.saying->day_ms;
    return span > kDayMs / 2 ? span - kDayMs : span < -kDayMs / 2 ? span + kDayMs : span;
  };
  const Said* first = nullptr;
  for (const Said& said : causes) {
    if (!is_first_end(said)) continue;
    if (said.saying->day_ms == kUntold) return nullptr;
    if (first == nullptr || span_ms(*first, said) < 0) first = &said;
  }
  if (first == nullptr) return nullptr;
  bool is_of_several = false;
  for (const Said& said : causes) {
    if (!is_first_end(said) || said.saying->rank == first->saying->rank) continue;
    is_of_several = true;
    const int64_t lead_ms = span_ms(*first, said);
    if (lead_ms <= kMarginMs || may_be_of_another_zone(lead_ms)) return nullptr;
  }
  return is_of_several ? first : nullptr;
}

// Of several the first, unless another tells more of the same: NCCL's last warning of the error
// that PyTorch raised, the task that was ended of memory that was used up, the status of a fault.
const Said& most_telling(const std::vector<Said>& causes) {
  const Saying& first = *causes.front().saying;
  const Said* first_end = is_first_end(causes.front()) ? first_of_launchers(causes) : nullptr;
  if (first_end != nullptr) return *first_end;
  constexpr uint64_t kReach = 8;  // lines
  const auto tells_more = [&](const Said& other) {
    const Saying& saying = *other.saying;
    const bool is_near = other.log == causes.front().log && saying.line > first.line &&
                         saying.line <= first.line + kReach;
    if (first.kind == SayingKind::async_error) {
      return is_near && saying.kind == SayingKind::warning;
    }
    if (first.kind == SayingKind::exception && first.rank < 0) return is_certain_end(saying);
    const bool names_process = saying.kind == SayingKind::machine && first.writer.empty() &&
                               !saying.writer.empty() && is_about_memory(saying);
    return first.kind == SayingKind::machine && is_about_memory(first) && is_near &&
           (is_violent(saying) || names_process);
  };
  const auto found = std::find_if(causes.begin() + 1, causes.end(), tells_more);
  return found == causes.end() ? causes.front() : *found;
}

// With so much of a warning that its meaning stands in the first sentence, too; the evidence has
// all.
Saying shown_with(std::string_view meaning, const Saying& saying) {
  Saying shown = saying;
  if (saying.kind != SayingKind::warning && saying.kind != SayingKind::exception) return shown;
  constexpr size_t kSentenceMax = 160;  // of a first one (words/lead.h)
  constexpr size_t kShortest = 40;
  shown.text.clear();
  const size_t around = what_text(shown).size() + 2 + meaning.size();
  shown.text = saying.text;
  size_t room = around + kShortest < kSentenceMax ? kSentenceMax - around : kShortest;
  // A first sentence ends at a semicolon, and not where a parenthesis is open.
  room = std::min(room, shown.text.find_first_of(";(", kShortest));
  if (saying.text.size() > room) shown.text = cut_before(saying.text, room - 3) + "...";
  return shown;
}

bool is_of_one_line(const Said& one, const Said& other) {
  return one.log == other.log && one.saying->line == other.saying->line;
}

// By what the log names whose end it tells of. Two words for ends may be two for one process, which
// a launcher numbers otherwise than a host does. Empty: by nothing that tells it from others.
std::string_view naming_of(const Saying& saying) {
  if (saying.rank >= 0) return "rank";
  if (saying.writer.empty()) return saying.local_rank >= 0 ? "local rank" : "";
  for (const std::string_view words : {"task", "pod ", "local rank", "pid ", "process "}) {
    if (saying.writer.starts_with(words)) return words;
  }
  return {};
}

// Two processes ended, and no launcher says of either that it was the first: lines of several hosts
// and processes stand in a log as they were read.
bool are_unordered_ends(const Saying& one, const Saying& other) {
  const auto is_end = [](const Saying& saying) {
    return saying.kind == SayingKind::died && !saying.is_first_death && !stands_for_several(saying);
  };
  return is_end(one) && is_end(other) && !naming_of(one).empty() &&
         naming_of(one) == naming_of(other) && speaker_text(one) != speaker_text(other);
}

// Another rank tells of the same: which of them was first the log need not tell.
bool is_alike(const Said& one, const Said& other) {
  const Saying& saying = *one.saying;
  const bool is_other_rank = other.saying->kind == saying.kind && other.saying->rank >= 0 &&
                             other.saying->rank != saying.rank;
  const bool is_other = is_other_rank && other.message == one.message;
  switch (saying.kind) {
    case SayingKind::exception:
      return is_other && other.saying->op == saying.op;
    case SayingKind::warning:
    case SayingKind::async_error:
      return is_other && saying.rank >= 0;
    case SayingKind::died:
      // Each launcher names the one of its own that failed first, or several at once.
      return is_other_rank &&
             ((saying.is_first_death && other.saying->is_first_death) ||
              is_of_one_line(one, other) || are_unordered_ends(saying, *other.saying));
    default:
      return false;
  }
}

// The ranks of "Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 7".
void add_sharers(const Saying& saying, std::set<int32_t>& ranks) {
  if (!holds(saying, "Duplicate GPU detected")) return;
  for (const std::string_view words : {"detected : rank ", " and rank "}) {
    const int64_t rank = number_in(saying.text, words);
    if (rank >= 0 && rank < int64_t{kRanksMax}) ranks.insert(static_cast<int32_t>(rank));
  }
}

std::string_view alike_text(SayingKind kind) {
  if (kind == SayingKind::exception || kind == SayingKind::died) return "so did";
  return kind == SayingKind::warning ? "so it does in" : "and to";
}

// Processes that are no ranks, and ended each by itself: any of them may have been the first.
void name_unordered_ends(const Said& cause, const std::vector<Said>& all, Finding& finding) {
  const Saying& saying = *cause.saying;
  if (saying.rank >= 0) return;
  constexpr size_t kNamed = 4;
  size_t alike = 0;
  std::string names;
  std::set<std::string> known;
  for (const Said& other : all) {
    const Saying& ended = *other.saying;
    if (!are_unordered_ends(saying, ended)) continue;
    const std::string name = speaker_text(ended);
    if (!known.insert(name).second) continue;
    const bool is_otherwise = ended.code != saying.code && ended.code != kUntold;
    if (++alike <= kNamed) {
      names += (names.empty() ? "" : ", ") + name;
      if (is_otherwise) names += fmt::format(" (status {})", ended.code);
    }
    add_evidence(*other.log, ended, finding);
  }
  if (alike == 0) return;
  finding.confidence = Confidence::open;
  if (alike > kNamed) names += fmt::format(" and {} more", alike - kNamed);
  finding.summary += fmt::format("; so did {}; which was first the log does not tell", names);
}

// Tasks of srun in which NCCL warns of the same: a task need not be a rank.
void name_tasks(const Said& cause, const std::vector<Said>& all, Finding& finding) {
  constexpr std::string_view kTask = "task ";
  const Saying& saying = *cause.saying;
  if (saying.kind != SayingKind::warning || !saying.writer.starts_with(kTask)) return;
  std::set<int32_t> tasks;
  for (const Said& other : all) {
    const bool is_alike = other.message == cause.message && other.saying->writer != saying.writer &&
                          other.saying->writer.starts_with(kTask);
    if (!is_alike) continue;
    tasks.insert(static_cast<int32_t>(number_in(other.saying->writer, kTask)));
    add_evidence(*other.log, *other.saying, finding);
  }
  if (tasks.empty()) return;
  finding.summary += fmt::format("; so it does in {} {}", tasks.size() == 1 ? "task" : "tasks",
                                 number_list({tasks.begin(), tasks.end()}));
}

// Those of whom the log tells the same are no less to blame.
void name_alike(const Said& cause, const std::vector<Said>& all, Finding& finding) {
  const Saying& saying = *cause.saying;
  std::map<int32_t, const Said*> alike;
  std::set<int32_t> sharers;
  for (const Said& other : all) {
    if (other.message == cause.message) add_sharers(*other.saying, sharers);
    if (is_alike(cause, other)) alike.try_emplace(other.saying->rank, &other);
  }
  std::vector<int32_t> ranks;
  const bool is_first = is_first_end(cause) && first_of_launchers(all) != nullptr && !alike.empty();
  if (is_first) {
    for (const auto& [rank, other] : alike) {
      ranks.push_back(rank);
      add_evidence(*other->log, *other->saying, finding);
    }
    finding.summary +=
        fmt::format("; by the times in the launchers' reports {} ended later", ranks_text(ranks));
    return;
  }
  for (const auto& [rank, other] : alike) {
    ranks.push_back(rank);
    finding.culprits.push_back(culprit_named(rank, *other->saying));
    if (saying.kind != SayingKind::exception) add_evidence(*other->log, *other->saying, finding);
  }
  if (!ranks.empty()) {
    finding.summary += fmt::format("; {} {}", alike_text(saying.kind), ranks_text(ranks));
  }
  if (!ranks.empty() && saying.kind == SayingKind::died) {
    finding.confidence = Confidence::open;
    finding.summary += saying.is_first_death
                           ? ": each is the first that its launcher found, or ended in the same "
                             "second, and which was first of all the log does not tell"
                           : "; which of them was first the log does not tell";
  }
  name_unordered_ends(cause, all, finding);
  name_tasks(cause, all, finding);
  if (sharers.empty()) return;
  finding.culprits.clear();
  for (const int32_t rank : sharers) finding.culprits.push_back(culprit_named(rank, saying));
  if (sharers.size() < 3) return;
  finding.summary = fmt::format("{} were given GPUs that others have, too: NCCL warns \"{}\"",
                                ranks_text({sharers.begin(), sharers.end()}), saying.text);
}

// What stands around it and tells more: the warning behind an error, whatever it means, a port
// that went down in front of a connection that failed.
void tell_of_near(const Said& cause, Finding& finding) {
  constexpr uint64_t kReach = 8;  // lines
  const Saying& saying = *cause.saying;
  for (const Saying& other : cause.log->sayings) {
    if (other.kind != SayingKind::warning || other.text.empty()) continue;
    const bool is_behind = other.line > saying.line && other.line <= saying.line + kReach;
    if (saying.kind == SayingKind::async_error && is_behind && message_of(other) == nullptr) {
      finding.summary += fmt::format("; NCCL's last warning: \"{}\"", other.text);
      add_evidence(*cause.log, other, finding);
      return;
    }
    const bool is_of_link = holds(saying, "NET/IB") && holds(other, "port error");
    if (saying.kind == SayingKind::warning && is_of_link && other.line < saying.line) {
      finding.summary += fmt::format(
          "; in front of it a port of a network adapter went down, as {} "
          "tells",
          speaker_text(other));
      add_evidence(*cause.log, other, finding);
      return;
    }
  }
}

// Of an error of NCCL that names nobody: who ended behind it, which need not be whose it was.
void tell_of_end(const Said& cause, const std::vector<Said>& all, Finding& finding) {
  const Saying& saying = *cause.saying;
  const bool is_nameless =
      saying.kind == SayingKind::async_error && speaker_text(saying) == kNobodyNamed;
  const auto end = std::find_if(all.begin(), all.end(), [&](const Said& other) {
    return other.saying->kind == SayingKind::died && other.log == cause.log &&
           other.saying->line > saying.line;
  });
  if (!is_nameless || end == all.end()) return;
  finding.summary += fmt::format("; behind it {}", what_text(*end->saying));
  add_evidence(*end->log, *end->saying, finding);
}

Finding finding_about(const Said& cause, const std::vector<Said>& all, Confidence confidence) {
  const Saying& saying = *cause.saying;
  Finding finding = make_finding(verdict_of_cause(saying), confidence);
  const std::string meaning = meaning_text(*cause.message);
  const std::string what = what_text(shown_with(meaning, saying));
  finding.summary = fmt::format("{}{}{}", what, what.empty() ? "" : ": ", meaning);
  finding.next = cause.message->next;
  add_evidence(*cause.log, saying, finding);
  if (saying.rank >= 0) finding.culprits.push_back(culprit_named(saying.rank, saying));
  name_alike(cause, all, finding);
  tell_of_near(cause, finding);
  tell_of_end(cause, all, finding);
  finding.summary += spawned_text(saying);
  // The rank stands at the end of a long line.
  const int64_t around = number_in(saying.text, "at and around rank ");
  if (around >= 0) finding.summary += fmt::format("; it names rank {}", around);
  const std::string peer = peer_of(saying);
  if (!peer.empty()) finding.summary += fmt::format("; the other side is {}", peer);
  return finding;
}

}  // namespace

std::optional<Finding> judge_cause(const trace::Run& run, const JobWaits& waits) {
  const Aftermath aftermath(run);
  const std::set<const Saying*> unstarted = ends_of_unstarted(run);
  const std::vector<Said> causes = causes_that(run, [&](const Saying& saying) {
    return !is_late(run, waits, saying) && !aftermath.holds(saying) && !unstarted.contains(&saying);
  });
  if (causes.empty()) return {};
  const Said& cause = most_telling(causes);
  const Saying& saying = *cause.saying;
  const bool is_ended_with_step = is_behind_end_of_step(*cause.log, saying);
  const bool is_certain = is_certain_end(saying) && !aftermath.may_hold(saying);
  // Ray shows what several hosts print in no order.
  const bool is_ordered = run.logs.size() == 1 && !cause.log->leaves_out_alike;
  const bool is_likely = is_certain ? is_ordered || !waits.has_waits()
                                    : waits.has_waits() && !is_of_any_process(saying) &&
                                          !is_of_no_rank(saying) && !is_abort_of_all(saying);
  const bool is_open = !is_likely || is_ended_with_step || is_of_heartbeat(saying);
  Finding finding = finding_about(cause, causes, is_open ? Confidence::open : Confidence::likely);
  if (is_of_heartbeat(saying)) weigh_heartbeat(finding);
  if (is_ended_with_step) {
    finding.summary += "; Slurm was ending the step when it told of it, from which it may follow";
  }
  const Saying& first = *causes.front().saying;
  if (first.kind == SayingKind::exception && &first != &saying) {
    // Of whom it is nobody says.
    finding.summary += fmt::format(
        "; {}: \"{}\"", is_ordered ? "an error stands in front of it" : "there is also an error",
        first.quote);
    add_evidence(*causes.front().log, first, finding);
  }
  const bool is_of_nobody =
      is_of_any_process(saying) || (saying.kind == SayingKind::exception && saying.rank < 0);
  const bool is_followed = waits.has_waits() || tells_of_an_end(*cause.log);
  const bool is_only_told = !has_followed(run, waits) || (is_of_nobody && !is_followed);
  if (is_only_told) {
    finding.verdict = Verdict::insufficient;
    finding.severity = severity_of(finding.verdict);
    finding.confidence = Confidence::open;
    finding.summary += "; what followed from it the log does not tell";
  }
  if (waits.has_waits() && is_ordered && saying.line < waits.first_line) {
    finding.summary += "; that stands in the log before anybody gave up waiting";
  }
  return finding;
}

std::optional<Finding> judge_late_cause(const trace::Run& run, const JobWaits& waits) {
  const std::vector<Said> causes = causes_that(run, [&](const Saying& saying) {
    // The kernel tells of a GPU's error when it happens.
    const bool is_told_late =
        saying.kind == SayingKind::machine && verdict_of_cause(saying) == Verdict::rank_dead;
    return is_late(run, waits, saying) && (is_violent(saying) || is_told_late);
  });
  if (causes.empty()) return {};
  Finding finding = finding_about(most_telling(causes), causes, Confidence::open);
  finding.summary +=
      "; the log tells of it behind the time-outs, where such things are often read late";
  return finding;
}

}  // namespace rollcall::analysis
