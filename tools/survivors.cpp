#include "tools/survivors.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

// A process that forks while it is looked for needs another round; one that cannot be killed
// (waiting in the kernel) must not hold us for ever.
constexpr int kRounds = 100;
constexpr long kRoundNs = 20'000'000;

void nap() {
  const timespec span{0, kRoundNs};
  nanosleep(&span, nullptr);
}

bool has_variable(const std::string& environment, const std::string& variable) {
  // Variables are separated by NUL, the first has none in front.
  const std::string whole = '\0' + environment + '\0';
  return whole.find('\0' + variable + '\0') != std::string::npos;
}

bool is_number(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void guard(int pipe, const std::string& run_id) {
  // Of its own session, without anybody's descriptors: a caller that reads our output to its end
  // must not wait for this process.
  setsid();
  const int nothing = ::open("/dev/null", O_RDWR);
  // The pipe is none of them: main() saw to that.
  for (int descriptor = 0; descriptor < 3; ++descriptor) ::dup2(nothing, descriptor);
  char byte;
  ssize_t got;
  while ((got = ::read(pipe, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (got > 0) _exit(0);
  kill_processes_of_run(run_id);
  _exit(0);
}

}  // namespace

std::vector<pid_t> processes_of_run(const std::string& run_id) {
  std::vector<pid_t> found;
  if (run_id.empty()) return found;
  const std::string variable = "ROLLCALL_RUN_ID=" + run_id;
  std::error_code failure;
  for (fs::directory_iterator at("/proc", failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (!is_number(name)) continue;
    const pid_t pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    // A zombie's environment reads as empty.
    if (pid != getpid() && has_variable(read_all(at->path() / "environ"), variable)) {
      found.push_back(pid);
    }
  }
  return found;
}

unsigned kill_processes_of_run(const std::string& run_id) {
  unsigned killed = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<pid_t> pids = processes_of_run(run_id);
    if (pids.empty()) break;
    if (round == 0) killed = static_cast<unsigned>(pids.size());
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    nap();
  }
  return killed;
}

Guardian::Guardian(const std::string& run_id) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[1]);
    guard(ends[0], run_id);
  }
  ::close(ends[0]);
  pipe_ = ends[1];
}

Guardian::~Guardian() {
  if (pipe_ < 0) return;
  const char over = 'o';
  [[maybe_unused]] const ssize_t written = ::write(pipe_, &over, 1);
  ::close(pipe_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

}  // namespace rollcall::tools
