#include "tools/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "tools/inherited.h"

namespace rollcall::tools {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
// Somebody who asks this often wants the job gone, whatever it does with the signal.
constexpr unsigned kPatience = 3;
// Ctrl-C now and then is how some programs are used.
constexpr int64_t kPatienceNs = 10'000'000'000;

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

bool contains(const int* first, const int* last, int number) {
  return std::find(first, last, number) != last;
}

}  // namespace

std::string in_words(const Ended& ended) {
  if (!ended.by_signal) return fmt::format("ended with status {}", ended.number);
  return fmt::format("was ended by signal {} ({})", ended.number, strsignal(ended.number));
}

Job::Job(std::vector<std::string> command, JobProcesses& processes)
    : command_(std::move(command)), processes_(processes), shares_group_(has_terminal()) {
  ROLLCALL_CHECK(!command_.empty());
  // Orphans of the job become our children instead of init's, so that they can be waited for.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::signal(SIGCHLD, SIG_DFL);
  sigemptyset(&waited_);
  for (const int number : kForwarded) {
    // What the parent means to be ignored (nohup, a script's background job) the job ignores, too.
    struct sigaction inherited {};
    ::sigaction(number, nullptr, &inherited);
    if (inherited.sa_handler != SIG_IGN) sigaddset(&waited_, number);
  }
  sigaddset(&waited_, SIGCHLD);
  if (!shares_group_) {
    sigaddset(&waited_, SIGTSTP);
    sigaddset(&waited_, SIGCONT);
  }
  sigprocmask(SIG_BLOCK, &waited_, nullptr);
}

bool Job::start(int32_t rank, const Settings& settings, std::string& error, int& exit_status) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) {
    error = fmt::format("no pipe: {}.", std::strerror(errno));
    exit_status = 126;
    return false;
  }
  if (shares_group_) group_ = getpgrp();
  const pid_t pid = ::fork();
  if (pid == 0) become_rank(settings, report[1]);
  ::close(report[1]);
  int failure = pid < 0 ? errno : 0;
  if (pid > 0) {
    if (group_ == 0) group_ = pid;
    // Both sides do this: whoever comes first.
    if (!shares_group_) ::setpgid(pid, group_);
    ssize_t got;
    while ((got = ::read(report[0], &failure, sizeof failure)) < 0 && errno == EINTR) {
    }
    if (got != static_cast<ssize_t>(sizeof failure)) failure = 0;
  }
  ::close(report[0]);
  if (failure != 0) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    exit_status = failure == ENOENT ? 127 : 126;
    error = fmt::format("{} could not be started: {}{}", command_[0], std::strerror(failure),
                        failure == ENOENT ? "; is its name right, and is it in PATH?" : ".");
    return false;
  }
  processes_.add_root(pid);
  ranks_.push_back({pid, rank});
  ++running_;
  return true;
}

void Job::become_rank(const Settings& settings, int report) {
  if (!shares_group_) ::setpgid(0, group_);
  restore_inherited_signals();
  for (const auto& [name, value] : settings) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : command_) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  const int failure = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &failure, sizeof failure);
  _exit(127);
}

// Ctrl-Z in a shell is not ours to see: with a terminal the kernel stops us and the job alike. This
// is somebody's SIGTSTP to a command without one.
void Job::stop_with_job() {
  signal_all(SIGSTOP);
  ::raise(SIGSTOP);
  signal_all(SIGCONT);
}

void Job::forward(int number, bool by_terminal) {
  if (contains(std::begin(kEnding), std::end(kEnding), number)) {
    const auto now = static_cast<int64_t>(monotonic_now_ns());
    if (now - told_ns_ > kPatienceNs) told_ = 0;
    told_ns_ = now;
    told_to_end_ = true;
    ++told_;
  }
  if (told_ >= kPatience) return signal_all(SIGKILL);
  // The terminal has told the whole group itself.
  if (!(by_terminal && shares_group_)) signal_all(number);
}

void Job::begin_relay() {
  sigset_t forwarded;
  sigemptyset(&forwarded);
  for (const int number : kForwarded) {
    if (sigismember(&waited_, number) == 1) sigaddset(&forwarded, number);
  }
  relay_ = std::make_unique<SignalRelay>(forwarded, [this](const siginfo_t& signal) {
    forward(signal.si_signo, signal.si_code == SI_KERNEL);
  });
}

int Job::wait_signal(int64_t timeout_ns) {
  siginfo_t info;
  int number;
  if (timeout_ns < 0) {
    number = sigwaitinfo(&waited_, &info);
  } else {
    const timespec span{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    number = sigtimedwait(&waited_, &info, &span);
  }
  if (number <= 0) return 0;
  if (contains(std::begin(kForwarded), std::end(kForwarded), number)) {
    forward(number, info.si_code == SI_KERNEL);
  } else if (number == SIGTSTP) {
    stop_with_job();
  } else if (number == SIGCONT) {
    signal_all(SIGCONT);
  }
  return number;
}

std::vector<Ended> Job::reap() {
  std::vector<Ended> ended;
  int status = 0;
  pid_t pid;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                   [&](const Rank& candidate) { return candidate.pid == pid; });
    if (pid == helper_) {
      helper_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      helper_ = 0;
    }
    if (rank == ranks_.end()) continue;
    Ended one{rank->rank, pid, WIFSIGNALED(status), 0};
    one.number = one.by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    ended.push_back(one);
    ranks_.erase(rank);
    ROLLCALL_CHECK(running_ > 0);
    --running_;
  }
  return ended;
}

void Job::signal_all(int number) {
  if (group_ == 0) return;
  if (shares_group_) {
    if (number != SIGKILL) processes_.signal_group(group_, number);
  } else if (running_ > 0) {
    // With the last rank the group may be gone, and its number somebody else's.
    ::kill(-group_, number);
  }
  if (number == SIGKILL) processes_.kill_all();
}

std::optional<int> Job::take_helper() {
  const std::optional<int> status = helper_status_;
  helper_status_.reset();
  return status;
}

}  // namespace rollcall::tools
