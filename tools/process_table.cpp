#include "tools/process_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

// What there is to read: a process that ends meanwhile is an error of the read, which a stream's
// buffer would throw.
std::string read_file(pid_t pid, const char* name) {
  const int descriptor =
      ::open(fmt::format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC);
  std::string text;
  if (descriptor < 0) return text;
  char part[4096];
  ssize_t got;
  while ((got = ::read(descriptor, part, sizeof part)) > 0) {
    text.append(part, static_cast<size_t>(got));
  }
  ::close(descriptor);
  return text;
}

// A handle on the process that has the pid now; -1 where the kernel (before 5.3) has none.
int open_process(pid_t pid) {
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
  (void)pid;
  return -1;
#endif
}

bool send(pid_t pid, int handle, int number) {
#ifdef SYS_pidfd_send_signal
  if (handle >= 0) return ::syscall(SYS_pidfd_send_signal, handle, number, nullptr, 0) == 0;
#endif
  return ::kill(pid, number) == 0;
}

}  // namespace

std::optional<ProcessFacts> read_process(pid_t pid) {
  const std::string text = read_file(pid, "stat");
  // The name, in brackets, may hold anything, brackets included.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  ProcessFacts facts;
  facts.pid = pid;
  char state = 0;
  if (!(fields >> state >> facts.parent >> facts.group >> facts.session)) return std::nullopt;
  facts.is_zombie = state == 'Z' || state == 'X';
  constexpr int kBetween = 15;  // fields from the session to the start time, see proc(5)
  std::string skipped;
  for (int at = 0; at < kBetween; ++at) fields >> skipped;
  if (!(fields >> facts.start_ticks)) return std::nullopt;
  return facts;
}

std::vector<ProcessFacts> read_processes() {
  std::vector<ProcessFacts> all;
  std::error_code failure;
  for (fs::directory_iterator at("/proc", failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); })) {
      continue;
    }
    const pid_t pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    if (const auto facts = read_process(pid)) all.push_back(*facts);
  }
  std::sort(all.begin(), all.end(),
            [](const ProcessFacts& a, const ProcessFacts& b) { return a.pid < b.pid; });
  return all;
}

std::optional<uid_t> user_of(pid_t pid) {
  constexpr std::string_view kLine = "\nUid:";
  const std::string text = read_file(pid, "status");
  const size_t at = text.find(kLine);
  if (at == std::string::npos) return std::nullopt;
  return static_cast<uid_t>(std::strtoul(text.c_str() + at + kLine.size(), nullptr, 10));
}

std::string variable_of(pid_t pid, const std::string& name) {
  // Variables are separated by NUL; the first has none in front.
  const std::string environment = '\0' + read_file(pid, "environ");
  const std::string wanted = '\0' + name + '=';
  const size_t at = environment.find(wanted);
  return at == std::string::npos ? std::string() : environment.c_str() + at + wanted.size();
}

bool signal_process(const ProcessFacts& process, int number) {
  const int handle = open_process(process.pid);
  // What has the pid behind this line is what the handle means.
  const std::optional<ProcessFacts> now = read_process(process.pid);
  const bool is_same = now && now->start_ticks == process.start_ticks;
  const bool sent = is_same && send(process.pid, handle, number);
  if (handle >= 0) ::close(handle);
  return sent;
}

}  // namespace rollcall::tools
