#include "tools/survivors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/clock.h"
#include "tools/verdict_command.h"

namespace rollcall::tools {
namespace {

// A process that forks while it is looked for needs another round; one that cannot be killed
// (waiting in the kernel) must not hold us for ever.
constexpr int kRounds = 100;
constexpr long kRoundNs = 20'000'000;
// An OOM kill of the last two of these spans is taken for the one that hit this command.
constexpr int kOomLookMs = 5000;
// Of runs within runs, more than anybody nests; the oldest are left out beyond.
constexpr size_t kTokenValueMax = 1024;

void nap() {
  const timespec span{0, kRoundNs};
  nanosleep(&span, nullptr);
}

bool holds_token(const std::string& value, const std::string& token) {
  return (':' + value + ':').find(':' + token + ':') != std::string::npos;
}

bool is_same(const ProcessFacts& a, const ProcessFacts& b) {
  return a.pid == b.pid && a.start_ticks == b.start_ticks;
}

bool contains(const std::vector<ProcessFacts>& list, const ProcessFacts& process) {
  return std::any_of(list.begin(), list.end(),
                     [&](const ProcessFacts& one) { return is_same(one, process); });
}

// `found` and everything below it.
void add_descendants(const std::vector<ProcessFacts>& all, std::vector<ProcessFacts>& found) {
  std::unordered_multimap<pid_t, const ProcessFacts*> children;
  for (const ProcessFacts& process : all) children.emplace(process.parent, &process);
  for (size_t at = 0; at < found.size(); ++at) {
    const auto [first, last] = children.equal_range(found[at].pid);
    for (auto child = first; child != last; ++child) {
      if (!contains(found, *child->second)) found.push_back(*child->second);
    }
  }
}

void leave_only_of(const std::set<std::optional<uid_t>>& users, std::vector<ProcessFacts>& found) {
  std::erase_if(found, [&users](const ProcessFacts& process) {
    return process.is_zombie || process.pid == ::getpid() || !users.contains(user_of(process.pid));
  });
}

void kill_rounds(const std::function<std::vector<ProcessFacts>()>& list) {
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<ProcessFacts> left = list();
    if (left.empty()) return;
    for (const ProcessFacts& process : left) signal_process(process, SIGKILL);
    nap();
  }
}

// Processes that the OOM killer has ended on this machine so far, those of memory cgroups
// included.
std::optional<uint64_t> oom_kills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

struct Message {
  char kind;  // 'g': the job's group; 'e': the job is being ended; 'o': this command is over
  pid_t group;
};

// The guardian's own life.
class Watchman {
 public:
  Watchman(int pipe, std::string token, int64_t limit_ns, uint64_t start_ticks, pid_t session)
      : pipe_(pipe),
        token_(std::move(token)),
        limit_ns_(limit_ns),
        start_ticks_(start_ticks),
        session_(session) {}

  void guard() {
    become_nobody();
    if (!wait_for_end()) return;
    if (is_ending_ || !was_oom_kill()) return kill_rounds([this] { return list(); });
    if (limit_ns_ == 0) return;
    while (!list().empty()) {
      if (static_cast<int64_t>(monotonic_now_ns()) >= limit_ns_)
        return kill_rounds([this] { return list(); });
      const timespec second{1, 0};
      nanosleep(&second, nullptr);
    }
  }

 private:
  // Of its own session, without anybody's descriptors: a caller that reads our output to its end
  // must not wait for this process. What is sent to all processes of a job does not end it.
  static void become_nobody() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    ::setsid();
    const int nothing = ::open("/dev/null", O_RDWR);
    // The pipe is none of them: main() saw to that.
    for (int descriptor = 0; descriptor < 3; ++descriptor) ::dup2(nothing, descriptor);
  }

  // False: the command ends in order. True: it is dead.
  bool wait_for_end() {
    latest_kills_ = earlier_kills_ = oom_kills();
    while (true) {
      pollfd waited{pipe_, POLLIN, 0};
      const int ready = ::poll(&waited, 1, kOomLookMs);
      if (ready == 0) earlier_kills_ = std::exchange(latest_kills_, oom_kills());
      if (ready <= 0) continue;
      Message message{};
      const ssize_t got = ::read(pipe_, &message, sizeof message);
      if (got < 0 && errno == EINTR) continue;
      if (got != static_cast<ssize_t>(sizeof message)) return true;
      if (message.kind == 'o') return false;
      if (message.kind == 'e') is_ending_ = true;
      if (message.kind == 'g') group_ = message.group;
    }
  }

  bool was_oom_kill() const {
    const std::optional<uint64_t> kills = oom_kills();
    return kills && earlier_kills_ && *kills > *earlier_kills_;
  }

  // Their parent is gone, and with it the proof by descent: a token, or a place in the group.
  std::vector<ProcessFacts> list() const {
    const std::vector<ProcessFacts> all = read_processes();
    std::vector<ProcessFacts> found;
    for (const ProcessFacts& process : all) {
      if (process.start_ticks < start_ticks_) continue;
      const bool is_in_group =
          group_ != 0 && process.group == group_ && process.session == session_;
      if (is_in_group || holds_token(variable_of(process.pid, kTokenVariable), token_)) {
        found.push_back(process);
      }
    }
    add_descendants(all, found);
    leave_only_of({::getuid()}, found);
    return found;
  }

  const int pipe_;
  const std::string token_;
  const int64_t limit_ns_;
  const uint64_t start_ticks_;  // of the command: nothing of its job is older
  const pid_t session_;
  pid_t group_ = 0;
  bool is_ending_ = false;
  std::optional<uint64_t> latest_kills_;
  std::optional<uint64_t> earlier_kills_;
};

}  // namespace

std::string new_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

std::string token_value(const std::string& token) {
  const char* outer = std::getenv(kTokenVariable);
  if (outer == nullptr || *outer == 0) return token;
  std::string value = outer + (':' + token);
  while (value.size() > kTokenValueMax) {
    const size_t end = value.find(':');
    value = end == std::string::npos ? token : value.substr(end + 1);
  }
  return value;
}

JobProcesses::JobProcesses(std::string token) : token_(std::move(token)) {
  for (const ProcessFacts& process : read_processes()) {
    if (process.parent == ::getpid()) others_.push_back(process);
  }
  takes_strangers_ = !others_.empty() || ::getpid() == 1;
}

void JobProcesses::add_root(pid_t pid) {
  if (const auto process = read_process(pid)) roots_.push_back(*process);
}

void JobProcesses::leave_out(pid_t pid) {
  if (const auto process = read_process(pid)) others_.push_back(*process);
}

bool JobProcesses::is_of_job(const ProcessFacts& child) const {
  if (contains(others_, child)) return false;
  if (contains(roots_, child) || holds_token(variable_of(child.pid, kTokenVariable), token_)) {
    return true;
  }
  // Orphans come to us, also those of the command of --on-verdict.
  return !takes_strangers_ && variable_of(child.pid, kIncidentVariable).empty();
}

std::vector<ProcessFacts> JobProcesses::list() const {
  const std::vector<ProcessFacts> all = read_processes();
  std::vector<ProcessFacts> found;
  // What the job was started as, and what a rank has become by itself, as gosu and setpriv do.
  std::set<std::optional<uid_t>> users{::getuid()};
  for (const ProcessFacts& process : all) {
    if (process.parent != ::getpid() || !is_of_job(process)) continue;
    found.push_back(process);
    if (contains(roots_, process) && !process.is_zombie) users.insert(user_of(process.pid));
  }
  users.erase(std::nullopt);
  add_descendants(all, found);
  leave_only_of(users, found);
  return found;
}

void JobProcesses::signal_group(pid_t group, int number) const {
  for (const ProcessFacts& process : list()) {
    if (process.group == group) signal_process(process, number);
  }
}

void JobProcesses::kill_all() const {
  kill_rounds([this] { return list(); });
}

Guardian::Guardian(const std::string& token, int64_t limit_ns) {
  const std::optional<ProcessFacts> self = read_process(::getpid());
  int ends[2];
  if (!self || ::pipe2(ends, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[1]);
    Watchman(ends[0], token, limit_ns, self->start_ticks, self->session).guard();
    _exit(0);
  }
  ::close(ends[0]);
  pipe_ = ends[1];
}

void Guardian::tell(char kind, pid_t group) {
  if (pipe_ < 0) return;
  const Message message{kind, group};
  [[maybe_unused]] const ssize_t written = ::write(pipe_, &message, sizeof message);
}

void Guardian::tell_group(pid_t group) { tell('g', group); }

void Guardian::tell_end() { tell('e', 0); }

Guardian::~Guardian() {
  tell('o', 0);
  if (pipe_ >= 0) ::close(pipe_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

}  // namespace rollcall::tools
