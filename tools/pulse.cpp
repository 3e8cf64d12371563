#include "tools/pulse.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <tuple>

#include "core/base/clock.h"
#include "tools/class_status.h"
#include "tools/incident.h"
#include "tools/own_command.h"

namespace rollcall::tools {
namespace {

constexpr auto kAnswerStep = std::chrono::milliseconds(5);

int64_t realtime_ns() {
  using std::chrono::duration_cast;
  return duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Of a process of another machine only its files can tell: the recorder's thread shows there that
// it runs.
bool is_gone(const RankState& rank, int64_t patience_ns) {
  return rank.liveness == "exited" || rank.liveness == "dead" ||
         (rank.liveness == "unknown" && rank.beat_age_ns >= patience_ns);
}

// What one look shows of a communicator.
struct Seen {
  int64_t still_ns = INT64_MAX;
  uint64_t first = UINT64_MAX;  // the position of the rank that is behind all others
  uint64_t last = 0;            // of those that have called, and of which more is not known
  bool is_inside = false;
};

void add(const CommPlace& place, bool is_gone, Seen& seen) {
  seen.still_ns = std::min(seen.still_ns, place.still_ns);
  seen.first = std::min(seen.first, place.position);
  if (is_gone) return;
  if (!place.is_ready || is_in_flight(place.state)) seen.is_inside = true;
  if (place.state == CallState::returned) seen.last = std::max(seen.last, place.position);
}

// By the directory of each run or attempt that somebody is left of: all its ranks.
std::map<std::string, std::vector<RankState>> runs_of(std::vector<RankState> ranks,
                                                      int64_t patience_ns) {
  std::map<std::string, std::vector<RankState>> runs;
  for (RankState& rank : ranks) {
    const std::string directory = std::filesystem::path(rank.file).parent_path().string();
    runs[directory].push_back(std::move(rank));
  }
  std::erase_if(runs, [&](const auto& run) {
    return std::all_of(run.second.begin(), run.second.end(),
                       [&](const RankState& rank) { return is_gone(rank, patience_ns); });
  });
  return runs;
}

// The verdict that stands about these ranks, as far as they are left. It is in their directory, or
// in one around it up to `root`, of which a launcher's attempts are parts; earlier ranks may have
// left it there, before these began.
std::optional<Incident> incident_about(const std::string& run, const std::string& root,
                                       const std::vector<RankState>& ranks, int64_t now_ns,
                                       int64_t patience_ns) {
  for (std::filesystem::path place = run;; place = place.parent_path()) {
    std::optional<Incident> incident = standing_incident(place.string());
    const auto is_meant = [&](const RankState& rank) {
      return !is_gone(rank, patience_ns) && now_ns - rank.record_age_ns < incident->written_ns;
    };
    if (incident && std::any_of(ranks.begin(), ranks.end(), is_meant)) return incident;
    if (place == std::filesystem::path(root) || !place.has_relative_path()) return std::nullopt;
  }
}

// The exit status; nothing where it took too long, or died.
std::optional<int> wait_for(pid_t pid, int64_t answer_ns) {
  const auto end_ns = static_cast<int64_t>(monotonic_now_ns()) + answer_ns;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (static_cast<int64_t>(monotonic_now_ns()) >= end_ns) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(kAnswerStep);
  }
  if (!WIFEXITED(status)) return std::nullopt;
  return WEXITSTATUS(status);
}

// Whether the analysis says that it hangs; if it does not, or takes too long, that is undecided.
void ask(const std::string& directory, int64_t patience_ns, int64_t answer_ns, PulseLook& look) {
  look.pulse = Pulse::undecided;
  // As `rollcall run` asks: a call counts as missing after half of what was waited.
  const double missing_s = std::max(static_cast<double>(patience_ns) * 0.5e-9, 0.1);
  const int answer = open_answer();
  const pid_t pid = start_own_command(
      {.words = {"diff", directory, "--sentence", "--only-waits", "--exit-by-class",
                 "--stalled-after", fmt::format("{}", missing_s)},
       .output = answer,
       .is_mute = true,
       .ends_with_us = true});
  if (pid < 0) {
    if (answer >= 0) ::close(answer);
    return;
  }
  const std::optional<int> status = wait_for(pid, answer_ns);
  std::string text = take_answer(answer);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (!status || !is_hang_status(*status)) return;
  look.pulse = Pulse::hangs;
  look.verdict = std::move(text);
  look.status = *status;
}

}  // namespace

bool stands_still(const std::vector<RankState>& ranks, int64_t patience_ns) {
  // Without a key a communicator is its process's alone.
  using Name = std::tuple<uint64_t, uint64_t, size_t>;
  std::map<Name, Seen> comms;
  size_t nameless = 0;
  for (const RankState& rank : ranks) {
    const bool gone = is_gone(rank, patience_ns);
    for (const CommPlace& place : rank.comms) {
      const size_t number = place.key.is_null() ? ++nameless : 0;
      add(place, gone, comms[{place.key.high, place.key.low, number}]);
    }
  }
  return std::any_of(comms.begin(), comms.end(), [&](const auto& comm) {
    const Seen& seen = comm.second;
    return seen.still_ns >= patience_ns && (seen.is_inside || seen.last > seen.first);
  });
}

PulseLook look_at_pulse(const std::string& given, int64_t patience_ns, int64_t answer_ns) {
  PulseLook look;
  // Without the slash at its end, the parents of what is in it come to it.
  std::string directory = given;
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  std::error_code failure;
  if (!std::filesystem::is_directory(directory, failure)) {
    look.pulse = Pulse::absent;
    return look;
  }
  const int64_t now_ns = realtime_ns();
  std::vector<RankState> all = read_ranks(directory, now_ns);
  const bool is_recorded = !all.empty();
  const auto runs = runs_of(std::move(all), patience_ns);
  if (runs.empty()) {
    look.pulse = is_recorded ? Pulse::over : Pulse::unrecorded;
    return look;
  }
  for (const auto& [run, ranks] : runs) {
    look.ranks +=
        static_cast<size_t>(std::count_if(ranks.begin(), ranks.end(), [&](const RankState& rank) {
          return !is_gone(rank, patience_ns);
        }));
    const auto incident = incident_about(run, directory, ranks, now_ns, patience_ns);
    if (incident && look.pulse != Pulse::hangs) {
      look.pulse = Pulse::hangs;
      look.verdict = fmt::format("{}: {}", incident->code, incident->summary);
      look.status = exit_status_of(incident->origin);
    }
  }
  for (const auto& [run, ranks] : runs) {
    if (look.pulse == Pulse::hangs) break;
    if (stands_still(ranks, patience_ns)) ask(run, patience_ns, answer_ns, look);
  }
  return look;
}

}  // namespace rollcall::tools
