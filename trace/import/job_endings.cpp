#include "trace/import/job_endings.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "core/base/limits.h"

namespace rollcall::trace {

void EndedRank::read(const LogValues& values, uint64_t line, int64_t day_ms) {
  const bool is_time = values.has("text");
  if (!is_time && !values.has("rank")) {
    heading_line_ = line;
    day_ms_ = kUntold;
    return;
  }
  const bool is_of_torchrun = is_time || values.has("local");
  is_listed_ = is_of_torchrun && (heading_line_ == 0 || line > heading_line_ + kReach);
  if (is_time) {
    day_ms_ = day_ms;
    return;
  }
  const int64_t rank = values.number("rank", -1);
  const int64_t local = values.number("local", -1);
  const auto as_rank = [](int64_t number) {
    return number >= 0 && number < int64_t{kRanksMax} ? static_cast<int32_t>(number) : -1;
  };
  rank_ = as_rank(rank);
  local_rank_ = as_rank(local);
  rank_line_ = line;
}

bool EndedRank::give_to(Saying& saying) {
  if (rank_ < 0 || saying.line > rank_line_ + kReach) return false;
  saying.rank = std::exchange(rank_, -1);
  saying.local_rank = local_rank_;
  saying.is_first_death = true;
  const int64_t day_ms = std::exchange(day_ms_, kUntold);
  if (day_ms != kUntold) saying.day_ms = day_ms;
  if (is_listed_ && day_ms != kUntold && listed_.size() < kListedMax) listed_.push_back(saying);
  return !is_listed_;
}

void EndedRank::add_alike(std::vector<Saying>& sayings) {
  const Saying first = sayings.back();
  for (Saying& other : std::exchange(listed_, {})) {
    const bool is_alike =
        other.code == first.code && other.day_ms == first.day_ms && other.rank != first.rank;
    if (is_alike) sayings.push_back(std::move(other));
  }
}

int64_t status_from_words(std::string_view words) {
  constexpr std::pair<std::string_view, int64_t> kWords[] = {
      {"Out Of Memory", -9}, {"Killed", -9},  {"Segmentation fault", -11},
      {"Bus error", -7},     {"Aborted", -6}, {"Terminated", -15}};
  for (const auto& [known, status] : kWords) {
    if (words.starts_with(known)) return status;
  }
  constexpr std::string_view kCode = "Exited with exit code ";
  if (!words.starts_with(kCode)) return kUntold;
  int64_t code = 0;
  const char* end = words.data() + words.size();
  const auto [last, error] = std::from_chars(words.data() + kCode.size(), end, code);
  return error == std::errc() ? code : kUntold;
}

int64_t signal_named(std::string_view name) {
  constexpr std::pair<std::string_view, int64_t> kSignals[] = {
      {"SIGHUP", 1}, {"SIGINT", 2},  {"SIGILL", 4},   {"SIGABRT", 6}, {"SIGBUS", 7},
      {"SIGFPE", 8}, {"SIGKILL", 9}, {"SIGSEGV", 11}, {"SIGTERM", 15}};
  for (const auto& [known, number] : kSignals) {
    if (name == known) return number;
  }
  return kUntold;
}

bool names_job_command(std::string_view words) {
  constexpr std::string_view kCommands[] = {"python",    "torchrun", "accelerate",
                                            "deepspeed", "srun",     "mpirun"};
  return std::any_of(std::begin(kCommands), std::end(kCommands), [&](std::string_view command) {
    return words.find(command) != std::string_view::npos;
  });
}

bool is_violent_status(int64_t code) {
  constexpr int64_t kStatuses[] = {134, 135, 137, 139, 143};
  return std::find(std::begin(kStatuses), std::end(kStatuses), code) != std::end(kStatuses);
}

bool is_told_by_shell(std::string_view line) {
  LogValues values;
  return match_log_pattern(": line <in>: <pid> <text>", line, values);
}

bool tells_of_another_end(const Saying& saying) {
  constexpr std::string_view kWords[] = {"DistBackendError",          "DistStoreError",
                                         "DistNetworkError",          "NCCL error",
                                         "Connection closed by peer", "communicator was aborted"};
  if (saying.kind == SayingKind::async_error) return true;
  return saying.kind == SayingKind::exception &&
         std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view words) {
           return saying.text.find(words) != std::string::npos ||
                  saying.quote.find(words) != std::string::npos;
         });
}

bool is_in_front_of_traceback(std::string_view line) {
  return line.find("terminated with the following error") != std::string_view::npos;
}

namespace {

bool is_end_of_mpiexec(const Saying& saying) {
  return saying.kind == SayingKind::died &&
         (saying.quote.find("KILLED BY SIGNAL: ") != std::string::npos ||
          saying.quote.find("EXIT CODE: ") != std::string::npos);
}

// MPICH tells a signal as an exit code.
bool may_be_cleaned_up(const Saying& saying) {
  const int64_t code = saying.code;
  const bool is_clean_up = code == 9 || code == -9 || code == 15 || code == -15;
  return is_clean_up && is_end_of_mpiexec(saying);
}

}  // namespace

void settle_ends_of_mpiexec(std::vector<Saying>& sayings) {
  struct Ends {
    size_t all = 0;
    size_t cleaned_up = 0;
    bool has_kept = false;
  };
  std::map<uint32_t, Ends> attempts;
  for (const Saying& saying : sayings) {
    if (!is_end_of_mpiexec(saying)) continue;
    Ends& ends = attempts[saying.attempt];
    ++ends.all;
    ends.cleaned_up += may_be_cleaned_up(saying) ? 1 : 0;
  }
  std::erase_if(sayings, [&](Saying& saying) {
    if (!may_be_cleaned_up(saying)) return false;
    Ends& ends = attempts[saying.attempt];
    if (ends.all < 2) return false;
    if (ends.cleaned_up < ends.all || ends.has_kept) return true;
    ends.has_kept = true;
    saying.rank = -1;
    saying.local_rank = -1;
    saying.writer = kOneOfSeveral;
    return false;
  });
}

bool is_end_of_step(const Saying& saying) {
  return saying.kind == SayingKind::machine &&
         saying.quote.find("*** STEP ") != std::string::npos &&
         saying.quote.find("CANCELLED AT") != std::string::npos &&
         saying.quote.find(" DUE ") == std::string::npos;
}

bool may_have_ended_step(const Saying& task, const std::vector<Saying>& former) {
  constexpr int64_t kExitedMax = 127;  // above it are signals, as a shell tells them
  constexpr size_t kReach = 4'096;     // sayings
  if (task.code <= 0 || task.code > kExitedMax) return false;
  const size_t begin = former.size() - std::min(former.size(), kReach);
  const auto from = former.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto step = std::find_if(from, former.end(), is_end_of_step);
  return step != former.end() && std::none_of(from, step, [](const Saying& saying) {
           return saying.kind == SayingKind::died;
         });
}

bool is_exception_name(std::string_view name) {
  for (const std::string_view tail : {"Error", "Exception"}) {
    if (name.size() > tail.size() && name.ends_with(tail)) return true;
  }
  return false;
}

}  // namespace rollcall::trace
