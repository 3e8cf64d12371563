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
#include "tools/inherited.h"

namespace rollcall::tools {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
// Somebody who asks this often wants the job gone, whatever it does with the signal.
constexpr unsigned kPatience = 3;

bool contains(const int* first, const int* last, int number) {
  return std::find(first, last, number) != last;
}

}  // namespace

std::string in_words(const Ended& ended) {
  if (!ended.by_signal) return fmt::format("ended with status {}", ended.number);
  return fmt::format("was ended by signal {} ({})", ended.number, strsignal(ended.number));
}

Job::Job(std::vector<std::string> command) : command_(std::move(command)) {
  ROLLCALL_CHECK(!command_.empty());
  // Orphans of the job become our children instead of init's, so that they can be waited for.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::signal(SIGCHLD, SIG_DFL);
  sigemptyset(&waited_);
  for (const int number : kForwarded) sigaddset(&waited_, number);
  sigaddset(&waited_, SIGCHLD);
  sigaddset(&waited_, SIGTSTP);
  sigaddset(&waited_, SIGCONT);
  // Handing the terminal over from the background must not stop us.
  sigset_t blocked = waited_;
  sigaddset(&blocked, SIGTTOU);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  owns_terminal_ = isatty(STDIN_FILENO) != 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

Job::~Job() { take_terminal(); }

bool Job::start(int32_t rank, const Settings& settings, std::string& error, int& exit_status) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) {
    error = fmt::format("no pipe: {}.", std::strerror(errno));
    exit_status = 126;
    return false;
  }
  const pid_t parent = getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become_rank(settings, report[1], parent);
  ::close(report[1]);
  int failure = pid < 0 ? errno : 0;
  if (pid > 0) {
    if (group_ == 0) group_ = pid;
    // Both sides do this: whoever comes first.
    ::setpgid(pid, group_);
    give_terminal();
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
  ranks_.push_back({pid, rank});
  ++running_;
  return true;
}

void Job::become_rank(const Settings& settings, int report, pid_t parent) {
  ::setpgid(0, group_);
  if (owns_terminal_) ::tcsetpgrp(STDIN_FILENO, getpgrp());
  // Dies with us even if nobody could tell it to; a parent that is gone already cannot.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
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

void Job::give_terminal() {
  if (owns_terminal_) ::tcsetpgrp(STDIN_FILENO, group_);
}

void Job::take_terminal() {
  if (owns_terminal_) ::tcsetpgrp(STDIN_FILENO, getpgrp());
}

// Ctrl-Z: the job has stopped; this process follows it, so that the shell gets its prompt, and
// wakes it when it is woken itself.
void Job::stopped_from_terminal() {
  take_terminal();
  ::raise(SIGSTOP);
  owns_terminal_ = isatty(STDIN_FILENO) != 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
  give_terminal();
  signal_all(SIGCONT);
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
    if (contains(std::begin(kEnding), std::end(kEnding), number)) {
      told_to_end_ = true;
      ++told_;
    }
    signal_all(told_ >= kPatience ? SIGKILL : number);
  } else if (number == SIGTSTP) {
    signal_all(SIGSTOP);
    stopped_from_terminal();
  } else if (number == SIGCONT) {
    signal_all(SIGCONT);
  }
  return number;
}

std::vector<Ended> Job::reap() {
  std::vector<Ended> ended;
  int status = 0;
  pid_t pid;
  while ((pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(),
                                   [&](const Rank& candidate) { return candidate.pid == pid; });
    if (WIFSTOPPED(status)) {
      // A rank that a fault or a debugger stopped stays stopped; only the terminal's stop is ours.
      if (owns_terminal_ && rank != ranks_.end() && WSTOPSIG(status) == SIGTSTP) {
        stopped_from_terminal();
      }
      continue;
    }
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
  if (group_ > 0) ::kill(-group_, number);
}

std::optional<int> Job::take_helper() {
  const std::optional<int> status = helper_status_;
  helper_status_.reset();
  return status;
}

}  // namespace rollcall::tools
