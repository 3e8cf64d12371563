#include "tools/verdict_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "report/terms.h"
#include "tools/incident.h"
#include "tools/inherited.h"
#include "tools/job.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kLimit = "60";
constexpr const char* kGrace = "--kill-after=3";
// A job that hangs, goes on and hangs again must not start one after the other.
constexpr int64_t kCoolDownNs = 300'000'000'000;

// What the environment says of an incident; empty where the file is none of ours.
Settings settings_of(const std::string& folder, const std::string& run_directory) {
  const std::optional<Incident> incident = read_incident(folder);
  if (!incident) return {};
  return {{"ROLLCALL_VERDICT", incident->code},
          {"ROLLCALL_VERDICT_CLASS", incident->origin},
          {"ROLLCALL_VERDICT_CERTAIN", incident->is_certain ? "1" : "0"},
          {kIncidentVariable, folder},
          {"ROLLCALL_RUN_DIR", run_directory},
          {"ROLLCALL_CULPRIT_HOSTS", fmt::format("{}", fmt::join(incident->hosts, ","))}};
}

}  // namespace

bool VerdictCommand::is_running() const {
  if (!process_) return false;
  const std::optional<ProcessFacts> now = read_process(process_->pid);
  return now && !now->is_zombie && now->start_ticks == process_->start_ticks;
}

pid_t VerdictCommand::start(const std::string& folder, int64_t now_ns, std::string& why) {
  if (is_running()) {
    why = "it is still running from before";
    return 0;
  }
  if (started_ns_ != 0 && now_ns - started_ns_ < kCoolDownNs) {
    why = fmt::format("it ran less than {} ago", report::duration(kCoolDownNs));
    return 0;
  }
  const std::string path = folder + "/" + kIncidentFile;
  const int input = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (input < 0) {
    why = fmt::format("{} cannot be read: {}", path, std::strerror(errno));
    return 0;
  }
  const pid_t pid = ::fork();
  if (pid == 0) become(folder, input);
  if (pid < 0) why = fmt::format("no process: {}", std::strerror(errno));
  ::close(input);
  if (pid < 0) return 0;
  // Both sides do this: whoever comes first.
  ::setpgid(pid, 0);
  started_ns_ = now_ns;
  process_ = read_process(pid);
  return pid;
}

// Under timeout(1), so that the limit is kept whatever becomes of us.
void VerdictCommand::become(const std::string& folder, int input) const {
  ::setpgid(0, 0);
  restore_inherited_signals();
  ::dup2(input, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  for (const auto& [name, value] : settings_of(folder, run_directory_)) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ::execlp("timeout", "timeout", kGrace, kLimit, "sh", "-c", command_.c_str(),
           static_cast<char*>(nullptr));
  say(
      fmt::format("timeout (of coreutils), which runs the command of --on-verdict, cannot be "
                  "started: {}.",
                  std::strerror(errno)));
  _exit(127);
}

}  // namespace rollcall::tools
