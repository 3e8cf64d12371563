#include "trace/liveness.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace rollcall::trace {
namespace {

std::string text_of(const char* field, size_t bytes) { return {field, ::strnlen(field, bytes)}; }

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_this_boot(const FileHeader& header) {
  std::string mine = contents_of("/proc/sys/kernel/random/boot_id");
  while (!mine.empty() && mine.back() == '\n') mine.pop_back();
  return !mine.empty() && mine == text_of(header.boot_id, sizeof header.boot_id);
}

bool is_this_pid_namespace(const FileHeader& header) {
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) != 0) return false;
  return header.pid_namespace == status.st_ino;
}

// Field 9 of /proc/<pid>/stat: PF_EXITING and PF_SIGNALED of the kernel's include/linux/sched.h.
constexpr uint64_t kExitingFlags = 0x4 | 0x400;
// Field 31, a bitmap of pending signals of the thread: a fatal signal is handed to every thread.
constexpr uint64_t kSigkillPending = 1ull << (SIGKILL - 1);

LivenessAnswer ask_process_table(const FileHeader& header) {
  ProcessStat stat;
  const std::string line = contents_of(fmt::format("/proc/{}/stat", header.pid));
  if (!parse_process_stat(line, stat) || stat.start_time_ticks != header.start_time_ticks) {
    return {Liveness::dead, fmt::format("pid {} is gone", header.pid)};
  }
  // The kernel takes its time over the memory of a killed process, whose state reads R or D until
  // then, and T where it had been stopped.
  if (stat.is_ending) return {Liveness::dead, fmt::format("pid {} is being ended", header.pid)};
  switch (stat.state) {
    case 'T':
    case 't':
      return {Liveness::stopped, fmt::format("pid {} is stopped (state {}{})", header.pid,
                                             stat.state, stat.state == 't' ? ", by a tracer" : "")};
    case 'Z':
    case 'X':
      return {Liveness::dead, fmt::format("pid {} is dead (state {})", header.pid, stat.state)};
    default:
      return {Liveness::running, fmt::format("pid {} runs (state {})", header.pid, stat.state)};
  }
}

}  // namespace

bool parse_process_stat(const std::string& line, ProcessStat& stat) {
  // The name may hold spaces and parentheses: the last one ends it.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream rest(line.substr(name_end + 1));
  std::string word;
  if (!(rest >> word) || word.size() != 1) return false;
  stat.state = word[0];
  // Field 3 was the state; the start time is field 22, the pending signals field 31.
  uint64_t flags = 0;
  uint64_t pending = 0;
  for (int field = 4; field <= 31; ++field) {
    if (!(rest >> word)) return false;
    if (field == 9) flags = std::strtoull(word.c_str(), nullptr, 10);
    if (field == 22) stat.start_time_ticks = std::strtoull(word.c_str(), nullptr, 10);
    if (field == 31) pending = std::strtoull(word.c_str(), nullptr, 10);
  }
  stat.is_ending = (flags & kExitingFlags) != 0 || (pending & kSigkillPending) != 0;
  return true;
}

LivenessAnswer probe_liveness(const FileHeader& header, int descriptor) {
  if (header.exit_state == static_cast<uint32_t>(ExitState::exited)) {
    return {Liveness::exited, "it left an exit record"};
  }
  if (!is_this_boot(header)) return {};
  if (is_this_pid_namespace(header)) return ask_process_table(header);
  if (header.is_unlocked != 0) return {};
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_GETLK, &lock) != 0) return {};
  if (lock.l_type == F_UNLCK) return {Liveness::dead, "nobody holds the lock of its file"};
  return {Liveness::running, "its file is locked by a process of another container"};
}

}  // namespace rollcall::trace
