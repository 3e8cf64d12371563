#include "tools/sweep_rings.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "core/format/file_name.h"
#include "core/format/ring_copy.h"
#include "tools/ring_files.h"
#include "trace/bytes.h"
#include "trace/live_ring.h"
#include "trace/liveness.h"
#include "trace/regular_file.h"
#include "trace/ring_reader.h"

namespace rollcall::tools {
namespace {

// A directory that is not to be seen may be one that is not mounted at the moment.
constexpr int64_t kAbsentNs = 3'600'000'000'000;

// "rollcall.<uid>.<run id>.<stem>.ring", as the recorder names them: of the caller, and of the
// process that the header speaks of.
bool is_named_after(const std::string& name, const FileHeader& header) {
  const std::string prefix =
      fmt::format("{}{}.{:016x}.", kLiveRingPrefix, ::geteuid(), header.run_id);
  if (!name.starts_with(prefix)) return false;
  std::string_view text;
  FileStem stem;
  return parse_ring_name(std::string_view(name).substr(prefix.size()), text) &&
         parse_stem(text, stem) && stem.pid == header.pid &&
         stem.start_time_ticks == header.start_time_ticks;
}

bool is_the_ring_itself(const trace::FileSource& ring, const std::string& path) {
  RingCopyNote note{};
  if (ring.read(kRingCopyNoteOffset, &note, sizeof note) != sizeof note) return false;
  return note.is_copy == 0 &&
         path == std::string_view(note.live_path, ::strnlen(note.live_path, sizeof note.live_path));
}

bool has_been_over_for_long(const FileHeader& header) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t sign_ns = trace::conversion_of(header).realtime_ns(
      std::max(header.heartbeat_ticks, header.exited_ticks));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() - sign_ns > kAbsentNs;
}

// All that the ring holds is in the copy. The header's page differs by what says that it is one.
bool is_complete(const trace::FileSource& copy, const trace::FileSource& ring) {
  if (copy.error() != 0 || copy.size() != ring.size()) return false;
  FileHeader a{};
  FileHeader b{};
  if (copy.read(0, &a, sizeof a) != sizeof a || ring.read(0, &b, sizeof b) != sizeof b)
    return false;
  if (a.next_ticket != b.next_ticket || a.next_event_ticket != b.next_event_ticket ||
      a.exit_state != b.exit_state || a.comm_count != b.comm_count) {
    return false;
  }
  std::vector<char> from_copy(1 << 20);
  std::vector<char> from_ring(from_copy.size());
  for (uint64_t at = kHeaderBytes; at < ring.size(); at += from_ring.size()) {
    const size_t wanted = std::min<uint64_t>(from_ring.size(), ring.size() - at);
    if (copy.read(at, from_copy.data(), wanted) != wanted ||
        ring.read(at, from_ring.data(), wanted) != wanted ||
        std::memcmp(from_copy.data(), from_ring.data(), wanted) != 0) {
      return false;
    }
  }
  return true;
}

bool is_to_go(const std::string& path, const trace::FileSource& ring, const FileHeader& header) {
  const std::string directory = read_meta(path, header, "run_dir");
  if (!directory.starts_with('/')) return false;
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) {
    return errno == ENOENT && has_been_over_for_long(header);
  }
  const std::vector<std::string> copies = list_rings(directory);
  return std::any_of(copies.begin(), copies.end(), [&](const std::string& copy) {
    return trace::find_live_ring(copy).path == path && is_complete(trace::FileSource(copy), ring);
  });
}

// By the descriptor of the folder, so that no link takes us elsewhere.
void sweep(int folder, const std::string& folder_path, const std::string& name) {
  const int descriptor = trace::open_regular(folder, name, O_RDONLY, trace::Links::refused);
  if (descriptor < 0) return;
  struct stat opened {};
  const bool is_ours = ::fstat(descriptor, &opened) == 0 && opened.st_uid == ::geteuid();
  const std::string path = folder_path + "/" + name;
  const trace::FileSource ring(trace::OpenedFile{descriptor});
  FileHeader header{};
  std::vector<trace::Issue> ignored;
  if (!is_ours || !trace::read_ring_header(ring, path, header, ignored) ||
      !is_named_after(name, header) || !is_the_ring_itself(ring, path) ||
      trace::probe_behind_exit(header, ring.descriptor()).liveness != trace::Liveness::dead ||
      !is_to_go(path, ring, header)) {
    return;
  }
  struct stat named {};
  if (::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
      named.st_dev == opened.st_dev && named.st_ino == opened.st_ino) {
    ::unlinkat(folder, name.c_str(), 0);
  }
}

}  // namespace

void sweep_rings(const std::string& local_directory) {
  const std::string prefix = fmt::format("{}{}.", kLiveRingPrefix, ::geteuid());
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(local_directory.c_str()), ::closedir);
  if (!folder || !local_directory.starts_with('/')) return;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name(entry->d_name);
    if (name.starts_with(prefix) && name.ends_with(kRingEnding)) names.emplace_back(name);
  }
  for (const std::string& name : names) sweep(::dirfd(folder.get()), local_directory, name);
}

// Signals are for the threads that wait for them.
void sweep_rings_beside(const std::string& local_directory) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([local_directory] { sweep_rings(local_directory); }).detach();
  } catch (const std::system_error&) {
    // No thread is to be had: the next run sweeps.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace rollcall::tools
