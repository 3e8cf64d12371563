#include "tools/step_summary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/format/file_name.h"
#include "core/format/ring_layout.h"
#include "tools/command.h"
#include "tools/own_command.h"
#include "tools/ring_files.h"
#include "tools/run_directory.h"
#include "tools/step_costs.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kLimitVariable = "ROLLCALL_SUMMARY_SECONDS";
constexpr uint64_t kLimitDefaultS = 2;
constexpr uint64_t kLimitMaxS = 3600;
constexpr int64_t kNsPerS = 1'000'000'000;
constexpr int kLookMs = 20;
constexpr size_t kSentenceBytesMax = 4096;
// Whoever waited for a job so many times longer may be told that its steps were not looked at.
constexpr int64_t kLongJob = 10;

uint64_t limit_s() {
  const char* given = std::getenv(kLimitVariable);
  if (given == nullptr || *given == 0) return kLimitDefaultS;
  uint64_t seconds = 0;
  if (parse_decimal(given, seconds) && seconds <= kLimitMaxS) return seconds;
  say(fmt::format("{}={} is not a number of seconds from 0 to {}; {} is taken.", kLimitVariable,
                  given, kLimitMaxS, kLimitDefaultS));
  return kLimitDefaultS;
}

bool is_of_this_host(const std::string& path) {
  std::array<char, kHostNameBytes> own{};
  if (::gethostname(own.data(), own.size() - 1) != 0) return true;
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  std::string_view text;
  FileStem stem;
  return parse_ring_name(name, text) && parse_stem(text, stem) && stem.host == own.data();
}

// Somebody has asked for an end, and the blocked signal waits for us to look.
bool is_told_to_end() {
  sigset_t waiting;
  sigemptyset(&waiting);
  ::sigpending(&waiting);
  constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  return std::any_of(std::begin(kEnding), std::end(kEnding),
                     [&](int number) { return sigismember(&waiting, number) == 1; });
}

struct Reading {
  std::string text;
  bool is_late = false;
};

// All that comes until the other end is closed, or the time is over.
Reading read_until(int input, int64_t limit_ns) {
  Reading reading;
  std::array<char, kSentenceBytesMax> part{};
  while (reading.text.size() < kSentenceBytesMax && !is_told_to_end()) {
    pollfd wanted{.fd = input, .events = POLLIN, .revents = 0};
    if (::poll(&wanted, 1, kLookMs) > 0) {
      const ssize_t got = ::read(input, part.data(), part.size());
      if (got <= 0) return reading;
      reading.text.append(part.data(), static_cast<size_t>(got));
    } else if (static_cast<int64_t>(monotonic_now_ns()) >= limit_ns) {
      reading.is_late = true;
      break;
    }
  }
  reading.text.clear();
  return reading;
}

// One that the kernel keeps, in input or output that does not come, is left to it.
bool wait_for(pid_t pid, int& status) {
  constexpr int kLooks = 10;
  for (int look = 0; look < kLooks; ++look) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return true;
    if (ended < 0 && errno != EINTR) return false;
    ::poll(nullptr, 0, kLookMs);
  }
  return false;
}

// What a process with these words as arguments says. It is gone afterwards.
Reading ask(const std::vector<std::string>& words, int64_t limit_ns) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t pid =
      start_own_command({.words = words, .output = ends[1], .is_mute = true, .ends_with_us = true});
  ::close(ends[1]);
  Reading reading;
  if (pid > 0) reading = read_until(ends[0], limit_ns);
  ::close(ends[0]);
  if (pid < 0) return {};
  // It is through, or has to be.
  if (reading.text.empty()) ::kill(pid, SIGKILL);
  int status = 0;
  const bool is_through = wait_for(pid, status);
  const bool is_good = is_through && WIFEXITED(status) &&
                       (WEXITSTATUS(status) == kExitGood || WEXITSTATUS(status) == kExitRisk);
  if (!is_good) reading.text.clear();
  return reading;
}

}  // namespace

std::string summarize_steps(const std::string& directory, int64_t job_ns) {
  const uint64_t seconds = limit_s();
  if (seconds == 0) return "";
  const int64_t span_ns = static_cast<int64_t>(seconds) * kNsPerS;
  const int64_t limit_ns = static_cast<int64_t>(monotonic_now_ns()) + span_ns;
  std::vector<std::string> rings = list_rings(directory);
  const size_t all = rings.size();
  std::erase_if(rings, [](const std::string& path) { return !is_of_this_host(path); });
  if (rings.empty()) return "";
  std::vector<std::string> words{"slow", "--sentence", "--window",
                                 fmt::format("{}", window_of_steps(rings.size()))};
  words.insert(words.end(), rings.begin(), rings.end());
  Reading reading = ask(words, limit_ns);
  const std::string command = "rollcall slow " + shell_word(directory);
  if (reading.is_late && job_ns >= kLongJob * span_ns) {
    return fmt::format("what the steps took could not be found out within {} s; {} has no limit",
                       seconds, command);
  }
  while (!reading.text.empty() && reading.text.back() == '\n') reading.text.pop_back();
  if (reading.text.empty()) return "";
  if (rings.size() < all) {
    reading.text += fmt::format(" (without the {} files of other hosts)", all - rings.size());
  }
  return reading.text + "; for more: " + command;
}

}  // namespace rollcall::tools
