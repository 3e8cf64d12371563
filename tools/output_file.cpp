#include "tools/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

// Hidden, so that no pattern of a shell takes it for a recording, and independent of the target's
// name, which may be as long as a name can be.
constexpr std::string_view kBeginning = ".rollcall-";
constexpr std::string_view kEnding = ".part";
constexpr size_t kDigits = 16;
constexpr size_t kNameBytes = kBeginning.size() + kDigits + kEnding.size();
// A name that is taken, or a file that was swept away between its making and its locking.
constexpr int kAttemptsMax = 16;

bool is_temporary(std::string_view name) {
  return name.size() == kNameBytes && name.starts_with(kBeginning) && name.ends_with(kEnding) &&
         name.substr(kBeginning.size(), kDigits).find_first_not_of("0123456789abcdef") ==
             std::string_view::npos;
}

bool draw_name(std::string& name) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) return false;
  name = fmt::format("{}{:016x}{}", kBeginning, number, kEnding);
  return true;
}

// --- what a signal removes ---------------------------------------------------------------------

struct Doomed {
  std::atomic<int> directory{-1};  // -1: free, or not complete yet
  char name[kNameBytes + 1] = {};
};
// As many files as a command writes at once, with room; those beyond are left to the next sweep.
std::array<Doomed, 8> doomed_files;
std::array<std::atomic<bool>, doomed_files.size()> doomed_taken{};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler reads it");

void remove_and_die(int signal) {
  for (const Doomed& doomed : doomed_files) {
    const int directory = doomed.directory.load(std::memory_order_acquire);
    if (directory >= 0) ::unlinkat(directory, doomed.name, 0);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

void catch_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const int signal : kEndingSignals) {
      struct sigaction before {};
      // Whoever ignores it, nohup for one, means it; whoever handles it ends in order.
      if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
      struct sigaction action {};
      action.sa_handler = remove_and_die;
      sigfillset(&action.sa_mask);
      ::sigaction(signal, &action, nullptr);
    }
  });
}

// No signal ends this thread while an object lives: between a file's making and its entry among the
// doomed one would leave it behind. (Of another thread it may; then the next sweep takes it.)
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : kEndingSignals) sigaddset(&ending, signal);
    ::pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

int doom(int directory, const std::string& name) {
  for (size_t i = 0; i < doomed_files.size(); ++i) {
    if (doomed_taken[i].exchange(true)) continue;
    std::memcpy(doomed_files[i].name, name.c_str(), kNameBytes + 1);
    doomed_files[i].directory.store(directory, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void spare(int place) {
  if (place < 0) return;
  doomed_files[static_cast<size_t>(place)].directory.store(-1, std::memory_order_release);
  doomed_taken[static_cast<size_t>(place)].store(false);
}

// True unless the file was removed between its making and its locking, as `remove_leftovers` may.
bool hold(int file) {
  // Where there are no locks nothing is swept away either.
  while (::flock(file, LOCK_EX) != 0 && errno == EINTR) continue;
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

OpenDirectory::OpenDirectory(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) error_ = errno;
}

OpenDirectory::OpenDirectory(const OpenDirectory& above, const std::string& name)
    : path_(above.path() + "/" + name),
      descriptor_(::openat(above.descriptor(), name.c_str(),
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
  if (descriptor_ < 0) error_ = errno;
}

OpenDirectory::~OpenDirectory() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::vector<std::string> OpenDirectory::file_names() const {
  std::vector<std::string> names;
  const int copy = ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::fdopendir(copy), ::closedir);
  if (!handle) {
    ::close(copy);
    return names;
  }
  while (const dirent* entry = ::readdir(handle.get())) {
    if (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view objection_to_kind(uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "";
    case S_IFDIR:
      return "it is a directory";
    case S_IFLNK:
      return "it is a symbolic link, which is not followed";
    case S_IFIFO:
      return "it is a pipe";
    case S_IFSOCK:
      return "it is a socket";
    default:
      return "it is a device";
  }
}

OutputFile::OutputFile(const OpenDirectory& directory, std::string name, Privacy privacy)
    : directory_(directory), name_(std::move(name)) {
  if (directory_.error() != 0) {
    fail(directory_.error());
  } else {
    make(privacy);
  }
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::fail(int error) {
  if (why_.empty()) why_ = std::strerror(error);
}

void OutputFile::make(Privacy privacy) {
  struct stat replaced {};
  const bool replaces =
      ::fstatat(directory_.descriptor(), name_.c_str(), &replaced, AT_SYMLINK_NOFOLLOW) == 0;
  if (!replaces && errno != ENOENT) return fail(errno);
  if (replaces) why_ = objection_to_kind(replaced.st_mode);
  if (failed()) return;
  // Nobody else's until it has its owner.
  const uint32_t mode = !replaces && privacy == Privacy::shared ? 0666 : 0600;
  int error = 0;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (make_once(mode, error)) {
      if (replaces) keep_owner(replaced);
      return;
    }
    if (error != EEXIST) break;
  }
  fail(error);
}

bool OutputFile::make_once(uint32_t mode, int& error) {
  std::string name;
  if (!draw_name(name)) {
    error = errno;
    return false;
  }
  catch_signals();
  int file = -1;
  int place = -1;
  {
    const SignalsHeld held;
    file = ::openat(directory_.descriptor(), name.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file >= 0) place = doom(directory_.descriptor(), name);
  }
  if (file < 0) {
    error = errno;
    return false;
  }
  if (!hold(file)) {
    spare(place);
    ::close(file);
    error = EEXIST;
    return false;
  }
  descriptor_ = file;
  place_ = place;
  temporary_ = std::move(name);
  return true;
}

void OutputFile::keep_owner(const struct stat& replaced) {
  struct stat own {};
  if (::fstat(descriptor_, &own) != 0) return fail(errno);
  const bool is_same = own.st_uid == replaced.st_uid && own.st_gid == replaced.st_gid;
  if (!is_same && ::fchown(descriptor_, replaced.st_uid, replaced.st_gid) != 0) {
    why_ = fmt::format(
        "it belongs to user {} and group {}, and the new file cannot be given to "
        "them ({}); do this as its owner",
        replaced.st_uid, replaced.st_gid, std::strerror(errno));
    return;
  }
  // Behind the owner, who would lose it again. A bit that makes programs act as their owner is no
  // business of data.
  const mode_t mode = replaced.st_mode & 0777;
  if ((own.st_mode & 07777) != mode && ::fchmod(descriptor_, mode) != 0) fail(errno);
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty() && !failed()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail(written < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void OutputFile::write_at(uint64_t offset, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0 && !failed()) {
    const ssize_t written = ::pwrite(descriptor_, at, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail(written < 0 ? errno : ENOSPC);
    at += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
}

void OutputFile::set_size(uint64_t bytes) {
  if (!failed() && ::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail(errno);
}

bool OutputFile::rename_to_target() {
  const int directory = directory_.descriptor();
  if (!failed() && ::renameat(directory, temporary_.c_str(), directory, name_.c_str()) != 0) {
    fail(errno);
  }
  if (failed()) {
    discard();
    return false;
  }
  // Under its new name the file is nobody's to remove.
  temporary_.clear();
  // Network file systems tell of a full disk here, if not earlier.
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!closed) fail(errno);
  discard();
  return closed;
}

bool OutputFile::put_in_place() { return rename_to_target(); }

bool OutputFile::put_in_place_of(const struct stat& replaced) {
  const int directory = directory_.descriptor();
  if (!failed() && ::fsync(descriptor_) != 0) fail(errno);
  struct stat now {};
  const bool is_there = ::fstatat(directory, name_.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                        is_same_file(now, replaced);
  if (!failed() && !is_there) {
    overtaken_ = true;
    why_ = "it was replaced or removed meanwhile";
  }
  if (!rename_to_target()) return false;
  // The name too has to be on the disk before anything rests on it; what cannot be done about a
  // directory that does not sync is nothing.
  ::fsync(directory);
  return true;
}

void OutputFile::discard() {
  if (!temporary_.empty()) ::unlinkat(directory_.descriptor(), temporary_.c_str(), 0);
  temporary_.clear();
  spare(std::exchange(place_, -1));
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

namespace {

void remove_if_nobodys(int directory, const std::string& name) {
  const int file = trace::open_regular(directory, name, O_RDONLY, trace::Links::refused);
  if (file < 0) return;
  // Held to the end: who made the file and waits for the lock sees that it is gone.
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlinkat(directory, name.c_str(), 0);
  ::close(file);
}

}  // namespace

void remove_leftovers(const OpenDirectory& directory) {
  for (const std::string& name : directory.file_names()) {
    if (is_temporary(name)) remove_if_nobodys(directory.descriptor(), name);
  }
}

}  // namespace rollcall::tools
