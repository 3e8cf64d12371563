#include "tools/new_run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/base/clock.h"
#include "core/base/setting_files.h"
#include "report/terms.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kNamesTried = 10'000;

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

// The program's name as part of a file name.
std::string name_part(const std::string& program) {
  std::string name(report::file_name(program));
  for (char& c : name) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  if (name.empty()) name = "job";
  return name.substr(0, 40);
}

enum class Made { yes, exists, no };

std::string not_made(const fs::path& path, const std::string& why) {
  return fmt::format("the run directory {} could not be made: {}; choose another place with -d.",
                     path.string(), why);
}

Made make_private(const fs::path& path, std::string& error) {
  if (::mkdir(path.c_str(), 0700) == 0) return Made::yes;
  if (errno == EEXIST) return Made::exists;
  error = not_made(path, std::strerror(errno));
  return Made::no;
}

bool make_parents(const fs::path& path, std::string& error) {
  std::error_code failure;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failure);
  if (!failure) return true;
  error = not_made(path, failure.message());
  return false;
}

// An empty path: `error` says why.
fs::path absolute_path(const fs::path& wanted, std::string& error) {
  std::error_code failure;
  fs::path path = fs::absolute(wanted, failure).lexically_normal();
  if (failure) {
    error = "the current directory is gone; change to one that exists.";
    return {};
  }
  if (path.has_parent_path() && path.filename().empty()) path = path.parent_path();
  return path;
}

// Takes an empty directory for this process, until it ends: two runs that start at once must not
// both find it empty. nullopt: another has it, or something is in it already.
std::optional<NewRunDirectory> claim_empty(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor);
    return std::nullopt;
  }
  // Kept open: the lock goes with the process. Without one, as on NFS, the look alone has to do.
  std::error_code failure;
  if (fs::is_empty(path, failure) && !failure) {
    return NewRunDirectory{.path = path.string(), .claim = descriptor};
  }
  if (descriptor >= 0) ::close(descriptor);
  return std::nullopt;
}

bool is_writable_directory(const fs::path& path, std::string& error) {
  std::error_code failure;
  if (!fs::is_directory(path, failure)) {
    error = fmt::format("{} is not a directory; choose another one with -d.", path.string());
    return false;
  }
  if (::access(path.c_str(), W_OK | X_OK) == 0) return true;
  error = fmt::format("{} cannot be written to: {}; choose another directory with -d.",
                      path.string(), std::strerror(errno));
  return false;
}

// The first of `name(1)`, `name(2)`, ... that nobody has.
template <typename Name>
std::optional<NewRunDirectory> make_first_free(const Name& name, std::string& error) {
  for (int number = 1; number <= kNamesTried; ++number) {
    const fs::path path = name(number);
    const Made made = make_private(path, error);
    if (made == Made::no) return std::nullopt;
    if (made != Made::yes) continue;
    if (auto claimed = claim_empty(path)) {
      claimed->is_new = true;
      return claimed;
    }
  }
  error = not_made(name(kNamesTried), "all names up to it are taken");
  return std::nullopt;
}

}  // namespace

std::string runs_directory() {
  const SettingOrigin origin = origin_of_setting("ROLLCALL_DIR");
  const bool is_from_file =
      origin == SettingOrigin::user_file || origin == SettingOrigin::system_file;
  return is_from_file ? setting("ROLLCALL_DIR") : kRunsDirectory;
}

std::optional<NewRunDirectory> make_run_directory(const std::string& wanted,
                                                  const std::string& program, std::string& error) {
  const std::string own = time_stamp() + "-" + name_part(program);
  const fs::path path =
      absolute_path(wanted.empty() ? fs::path(runs_directory()) / own : fs::path(wanted), error);
  if (path.empty() || !make_parents(path, error)) return std::nullopt;
  if (wanted.empty()) {
    return make_first_free(
        [&](int number) {
          return number == 1 ? path : fs::path(path.string() + fmt::format("-{}", number));
        },
        error);
  }
  const Made made = make_private(path, error);
  if (made == Made::no || !is_writable_directory(path, error)) return std::nullopt;
  if (auto claimed = claim_empty(path)) {
    claimed->is_new = made == Made::yes;
    return claimed;
  }
  return make_first_free([&](int number) { return path / fmt::format("attempt-{}", number); },
                         error);
}

std::optional<NewRunDirectory> make_shared_run_directory(const std::string& wanted,
                                                         const std::string& run_id,
                                                         unsigned restarts, std::string& error) {
  fs::path path = absolute_path(
      wanted.empty() ? fs::path(runs_directory()) / name_part(run_id) : fs::path(wanted), error);
  if (path.empty() || !make_parents(path, error)) return std::nullopt;
  // Another rank may make it between a look and the call.
  if (make_private(path, error) == Made::no) return std::nullopt;
  if (restarts > 0) {
    path /= fmt::format("attempt-{}", restarts);
    if (make_private(path, error) == Made::no) return std::nullopt;
  }
  if (!is_writable_directory(path, error)) return std::nullopt;
  return NewRunDirectory{.path = path.string()};
}

namespace {

// What goes through the pipe is whether it was made, and the path or the reason; with it the claim.
constexpr size_t kAnswerBytesMax = 64 << 10;
constexpr char kMade = 'y', kNotMade = 'n';

bool send_answer(int channel, const std::string& text, int claim) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (claim >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &claim, sizeof claim);
  }
  return ::sendmsg(channel, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

// An empty text: the process ended without one.
std::string take_answer(int channel, int& claim) {
  std::string text(kAnswerBytesMax, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t bytes = ::recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&claim, CMSG_DATA(header), sizeof claim);
  }
  return text;
}

// Whoever waits for the end of our output, or for a lock that we were given, must not wait for this
// process; and no signal to our group ends it before it has removed what came too late.
[[noreturn]] void become_maker(const Make& make, int channel) {
  ::setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, standard);
  constexpr int kChannel = STDERR_FILENO + 1;
  if (channel != kChannel) ::dup3(channel, kChannel, O_CLOEXEC);
  channel = kChannel;
  ::closefrom(kChannel + 1);
  std::string error;
  const auto made = make(error);
  const std::string text = made ? kMade + made->path : kNotMade + error.substr(0, 4096);
  const bool is_heard = send_answer(channel, text, made ? made->claim : -1);
  // One that was there is the user's.
  if (made && made->is_new && !is_heard) ::rmdir(made->path.c_str());
  ::_exit(0);
}

// Whether there is something to read before `limit_ns` are over.
bool is_answered(int channel, int64_t limit_ns) {
  const auto end_ns = static_cast<int64_t>(monotonic_now_ns()) + limit_ns;
  pollfd event{channel, POLLIN, 0};
  while (true) {
    const int64_t left_ns = end_ns - static_cast<int64_t>(monotonic_now_ns());
    const int status =
        ::poll(&event, 1, static_cast<int>(std::max<int64_t>(left_ns, 0) / 1'000'000));
    if (status >= 0 || errno != EINTR) return status > 0;
  }
}

}  // namespace

std::optional<NewRunDirectory> make_in_time(const Make& make, const std::string& place,
                                            int64_t limit_ns, std::string& error) {
  int channel[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) return make(error);
  // A child's child: it is nobody's among the processes of the job.
  const pid_t starter = ::fork();
  if (starter == 0) {
    if (::fork() == 0) become_maker(make, channel[1]);
    ::_exit(0);
  }
  ::close(channel[1]);
  if (starter < 0) {
    ::close(channel[0]);
    return make(error);
  }
  ::waitpid(starter, nullptr, 0);
  const bool is_in_time = is_answered(channel[0], limit_ns);
  // Nothing can be sent any more, and what came in the last moment is taken.
  ::shutdown(channel[0], SHUT_RD);
  NewRunDirectory made;
  const std::string answer = take_answer(channel[0], made.claim);
  ::close(channel[0]);
  if (!is_in_time && answer.empty()) {
    error = not_made(
        place, fmt::format("its file system has not answered for {}", report::duration(limit_ns)));
    return std::nullopt;
  }
  if (answer.empty()) {
    error = not_made(place, "the process that was to make it has ended");
    return std::nullopt;
  }
  if (answer[0] != kMade) {
    error = answer.substr(1);
    return std::nullopt;
  }
  made.path = answer.substr(1);
  return made;
}

}  // namespace rollcall::tools
