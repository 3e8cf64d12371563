#include "trace/liveness.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "trace/field_text.h"
#include "trace/ring_reader.h"

namespace rollcall::trace {
namespace {

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_this_boot(const FileHeader& header) {
  std::string mine = contents_of("/proc/sys/kernel/random/boot_id");
  while (!mine.empty() && mine.back() == '\n') mine.pop_back();
  return !mine.empty() && mine == field_text(header.boot_id, sizeof header.boot_id);
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

// Nothing where the file system does not say.
std::optional<bool> is_locked(int descriptor) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_GETLK, &lock) != 0) return std::nullopt;
  return lock.l_type != F_UNLCK;
}

// By inode, or where that is not the one that the mapping has (overlayfs) by name. True where that
// is not known.
bool is_mapped(uint32_t pid, int descriptor) {
  struct stat file {};
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  if (::fstat(descriptor, &file) != 0 || error || !maps) return true;
  const std::string inode = std::to_string(file.st_ino);
  const std::string name = "/" + path.filename().string();
  bool is_empty = true;
  std::string line;
  while (std::getline(maps, line)) {
    is_empty = false;
    std::istringstream words(line);
    std::string word;
    for (int field = 0; field < 5; ++field) words >> word;
    if (word == inode || line.find(name) != std::string::npos) return true;
  }
  return is_empty;  // of another user's process nothing is shown
}

// exec() keeps the process and ends its program: what it held is gone. The lock alone goes with the
// descriptors, which some jobs close.
bool has_replaced_program(const FileHeader& header, int descriptor) {
  return header.is_unlocked == 0 && is_locked(descriptor) == false &&
         !is_mapped(header.pid, descriptor);
}

LivenessAnswer ask_process_table(const FileHeader& header, int descriptor) {
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
      if (has_replaced_program(header, descriptor)) {
        return {Liveness::dead,
                fmt::format("pid {} runs another program by now (exec)", header.pid)};
      }
      return {Liveness::running, fmt::format("pid {} runs (state {})", header.pid, stat.state)};
  }
}

// The flusher stores one every 10 ms.
bool has_beaten_lately(const FileHeader& header) {
  constexpr int64_t kLatelyNs = 2'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const int64_t now_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  const auto beat_ns =
      static_cast<int64_t>(conversion_of(header).realtime_ns(header.heartbeat_ticks));
  return header.heartbeat_ticks != 0 && std::abs(now_ns - beat_ns) < kLatelyNs;
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
  return probe_behind_exit(header, descriptor);
}

LivenessAnswer probe_behind_exit(const FileHeader& header, int descriptor) {
  if (!is_this_boot(header)) return {};
  if (is_this_pid_namespace(header)) return ask_process_table(header, descriptor);
  if (header.is_unlocked != 0) return {};
  const std::optional<bool> locked = is_locked(descriptor);
  if (!locked) return {};
  if (!*locked && has_beaten_lately(header)) return {};
  if (!*locked) return {Liveness::dead, "nobody holds the lock of its file"};
  return {Liveness::running, "its file is locked by a process of another container"};
}

}  // namespace rollcall::trace
