#include "tools/step_costs.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/clock.h"
#include "tools/command.h"
#include "tools/own_command.h"
#include "tools/ring_files.h"

namespace rollcall::tools {
namespace {

constexpr uint64_t kCallsMax = uint64_t{1} << 18;
constexpr uint64_t kCallsOfRankMin = 1024;
// Steps are hardly told sooner than they change.
constexpr int64_t kPauseMinNs = 5'000'000'000;
constexpr int64_t kPausePart = 20;
// Beside a file server that is gone nothing comes.
constexpr int64_t kPatienceNs = 600'000'000'000;
constexpr int kLookMs = 20;

int64_t processor_time_ns(const rusage& used) {
  const auto of = [](const timeval& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1'000;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

// Somebody is charged, or nobody is, or nothing could be compared.
bool is_answer(int status) {
  if (!WIFEXITED(status)) return false;
  const int code = WEXITSTATUS(status);
  return code == kExitGood || code == kExitRisk || code == kExitUndecided;
}

}  // namespace

uint64_t window_of_steps(size_t ranks) {
  return std::max(kCallsMax / std::max<size_t>(ranks, 1), kCallsOfRankMin);
}

std::optional<StepCosts> costs_in(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  StepCosts costs;
  const auto sentence = parsed.find("sentence");
  if (sentence == parsed.end() || !sentence->is_string()) return costs;
  costs.sentence = sentence->get<std::string>();
  const auto ranks = parsed.find("ranks");
  if (ranks == parsed.end() || !ranks->is_array()) return costs;
  for (const auto& row : *ranks) {
    if (!row.is_object()) continue;
    const auto host = row.find("host");
    const auto pid = row.find("pid");
    const auto share = row.find("charged_share");
    if (host == row.end() || pid == row.end() || share == row.end()) continue;
    if (!host->is_string() || !pid->is_number_unsigned() || !share->is_number()) continue;
    // A process that drives several GPUs is several ranks there, and one on the screen.
    costs.charged[{host->get<std::string>(), pid->get<uint32_t>()}] += share->get<double>();
  }
  return costs;
}

StepCostsReader::~StepCostsReader() {
  if (pid_ > 0) give_up();
  reap();
}

void StepCostsReader::advance(int64_t now_ns) {
  reap();
  if (pid_ > 0) {
    if (take(now_ns) || now_ns - asked_ns_ < kPatienceNs) return;
    give_up();
    next_ns_ = now_ns + kPatienceNs;
  } else if (now_ns >= next_ns_ && given_up_ < 0) {
    ask(now_ns);
  }
}

void StepCostsReader::wait(int64_t limit_ns) {
  auto now_ns = static_cast<int64_t>(monotonic_now_ns());
  const int64_t end_ns = now_ns + limit_ns;
  ask(now_ns);
  while (pid_ > 0 && !take(now_ns)) {
    if (now_ns >= end_ns) return give_up();
    ::poll(nullptr, 0, kLookMs);
    now_ns = static_cast<int64_t>(monotonic_now_ns());
  }
}

void StepCostsReader::ask(int64_t now_ns) {
  asked_ns_ = now_ns;
  next_ns_ = now_ns + kPauseMinNs;
  const size_t ranks = list_rings(directory_).size();
  if (ranks == 0 || ranks > kRanksOfCosts) return;
  answer_ = open_answer();
  pid_ = start_own_command(
      {.words = {"slow", "--json", "--window",
                 std::to_string(window_of_steps(ranks)),  // Not an option, whatever it begins with.
                 directory_.starts_with('-') ? "./" + directory_ : directory_},
       .output = answer_,
       .is_mute = true,
       .ends_with_us = true});
  if (pid_ > 0) return;
  if (answer_ >= 0) ::close(answer_);
  answer_ = -1;
}

bool StepCostsReader::take(int64_t now_ns) {
  int status = 0;
  rusage used = {};
  const pid_t ended = ::wait4(pid_, &status, WNOHANG, &used);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  // Where nobody can be waited for, its end is known, and not how it ended.
  const bool is_told = ended < 0 || is_answer(status);
  pid_ = -1;
  const std::optional<StepCosts> costs = costs_in(take_answer(std::exchange(answer_, -1)));
  if (costs && is_told) newest_ = *costs;
  next_ns_ = now_ns + std::max(kPauseMinNs, kPausePart * processor_time_ns(used));
  return true;
}

void StepCostsReader::give_up() {
  ::kill(pid_, SIGKILL);
  given_up_ = std::exchange(pid_, -1);
  ::close(std::exchange(answer_, -1));
}

// One that the kernel keeps, in input that does not come, is waited for later.
void StepCostsReader::reap() {
  int status = 0;
  if (given_up_ > 0 && ::waitpid(given_up_, &status, WNOHANG) != 0) given_up_ = -1;
}

}  // namespace rollcall::tools
