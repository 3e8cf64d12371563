#include "tools/step_costs.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/clock.h"
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

}  // namespace

uint64_t window_of_steps(size_t ranks) {
  return std::max(kCallsMax / std::max<size_t>(ranks, 1), kCallsOfRankMin);
}

StepCosts costs_in(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  StepCosts costs;
  if (!parsed.is_object()) return costs;
  const auto sentence = parsed.find("sentence");
  if (sentence == parsed.end() || !sentence->is_string()) return costs;
  costs.sentence = sentence->get<std::string>();
  const auto ranks = parsed.find("ranks");
  if (ranks == parsed.end() || !ranks->is_array()) return costs;
  for (const auto& row : *ranks) {
    if (!row.is_object()) continue;
    const auto rank = row.find("rank");
    const auto share = row.find("charged_share");
    if (rank == row.end() || share == row.end()) continue;
    if (!rank->is_number_integer() || !share->is_number()) continue;
    // A process that drives several GPUs is several ranks there, and one on the screen.
    costs.charged[rank->get<int32_t>()] += share->get<double>();
  }
  return costs;
}

StepCostsReader::~StepCostsReader() {
  if (pid_ > 0) give_up();
}

void StepCostsReader::advance(int64_t now_ns) {
  if (pid_ > 0) {
    if (take(now_ns) || now_ns - asked_ns_ < kPatienceNs) return;
    give_up();
    next_ns_ = now_ns + kPatienceNs;
  } else if (now_ns >= next_ns_) {
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
  if (ranks == 0) return;
  answer_ = open_answer();
  pid_ = start_own_command(
      {.words = {"slow", directory_, "--json", "--window", std::to_string(window_of_steps(ranks))},
       .output = answer_,
       .is_mute = true,
       .ends_with_us = true});
  if (pid_ > 0) return;
  if (answer_ >= 0) ::close(answer_);
  answer_ = -1;
}

bool StepCostsReader::take(int64_t now_ns) {
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  pid_ = -1;
  newest_ = costs_in(take_answer(std::exchange(answer_, -1)));
  next_ns_ = now_ns + std::max(kPauseMinNs, kPausePart * (now_ns - asked_ns_));
  return true;
}

void StepCostsReader::give_up() {
  ::kill(pid_, SIGKILL);
  // One that the kernel keeps is left to it.
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) {
    ::poll(nullptr, 0, kLookMs);
    ::waitpid(pid_, &status, WNOHANG);
  }
  pid_ = -1;
  ::close(std::exchange(answer_, -1));
}

}  // namespace rollcall::tools
