#include "tools/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/base/setting_files.h"
#include "report/terms.h"
#include "tools/bring_home.h"
#include "tools/progress.h"
#include "tools/terminal.h"
#include "trace/loader.h"
#include "trace/parcel.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunsDirectory = "rollcall-runs";

// Below it a run has a folder of its own. That of the environment is another run's: of a `rollcall
// run` around this one.
fs::path runs_directory() {
  const SettingOrigin origin = origin_of_setting("ROLLCALL_DIR");
  const bool is_from_file =
      origin == SettingOrigin::user_file || origin == SettingOrigin::system_file;
  return is_from_file ? setting("ROLLCALL_DIR") : kRunsDirectory;
}

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
// both find it empty. False: another has it, or something is in it already.
bool claim_empty(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor);
    return false;
  }
  // Kept open: the lock goes with the process. Without one, as on NFS, the look alone has to do.
  std::error_code failure;
  const bool is_empty = fs::is_empty(path, failure) && !failure;
  if (!is_empty && descriptor >= 0) ::close(descriptor);
  return is_empty;
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
std::optional<std::string> make_first_free(const Name& name, std::string& error) {
  for (int number = 1; number <= kNamesTried; ++number) {
    const fs::path path = name(number);
    const Made made = make_private(path, error);
    if (made == Made::no) return std::nullopt;
    if (made == Made::yes && claim_empty(path)) return path.string();
  }
  error = not_made(name(kNamesTried), "all names up to it are taken");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> make_run_directory(const std::string& wanted, const std::string& program,
                                              std::string& error) {
  const std::string own = time_stamp() + "-" + name_part(program);
  const fs::path path =
      absolute_path(wanted.empty() ? runs_directory() / own : fs::path(wanted), error);
  if (path.empty() || !make_parents(path, error)) return std::nullopt;
  if (wanted.empty()) {
    return make_first_free(
        [&](int number) {
          return number == 1 ? path : fs::path(path.string() + fmt::format("-{}", number));
        },
        error);
  }
  if (make_private(path, error) == Made::no || !is_writable_directory(path, error)) {
    return std::nullopt;
  }
  if (claim_empty(path)) return path.string();
  return make_first_free([&](int number) { return path / fmt::format("attempt-{}", number); },
                         error);
}

std::optional<std::string> make_shared_run_directory(const std::string& wanted,
                                                     const std::string& run_id, unsigned restarts,
                                                     std::string& error) {
  fs::path path = absolute_path(
      wanted.empty() ? runs_directory() / name_part(run_id) : fs::path(wanted), error);
  if (path.empty() || !make_parents(path, error)) return std::nullopt;
  // Another rank may make it between a look and the call.
  if (make_private(path, error) == Made::no) return std::nullopt;
  if (restarts > 0) {
    path /= fmt::format("attempt-{}", restarts);
    if (make_private(path, error) == Made::no) return std::nullopt;
  }
  if (!is_writable_directory(path, error)) return std::nullopt;
  return path.string();
}

namespace {

// Why nothing can be read there; empty if it may.
std::string objection(const std::string& path) {
  if (path.empty()) {
    return "the name of the run directory is empty; give the one that `rollcall run` printed.";
  }
  if (path == trace::kStandardInput) {
    if (::isatty(STDIN_FILENO) == 0) return "";
    return "standard input is a terminal; send a log into it, as in: kubectl logs POD | rollcall "
           "diff -";
  }
  std::error_code failure;
  if (fs::exists(path, failure)) return "";
  if (failure) return fmt::format("{} cannot be opened: {}.", path, failure.message());
  return fmt::format(
      "{} does not exist; `rollcall run` prints the directory it writes to, by default one below "
      "{}.",
      path, kRunsDirectory);
}

std::string objection(const std::vector<std::string>& paths) {
  const auto is_input = [](const std::string& path) { return path == trace::kStandardInput; };
  if (std::count_if(paths.begin(), paths.end(), is_input) > 1) {
    return "standard input can be read once; give \"-\" once.";
  }
  for (const std::string& path : paths) {
    std::string text = objection(path);
    if (!text.empty()) return text;
  }
  return "";
}

// What the paths are together, at the begin of a sentence.
std::string name_of(const std::vector<std::string>& paths) {
  if (paths.size() != 1) return fmt::format("{} files", paths.size());
  return paths.front() == trace::kStandardInput ? "standard input" : paths.front();
}

std::string why_empty(const std::vector<std::string>& paths, const trace::Run& run) {
  const std::string name = name_of(paths);
  const char* hold = paths.size() == 1 ? "holds" : "hold";
  if (run.issues.empty()) {
    return fmt::format(
        "{} {} no recording; was the job started with `rollcall run`, and did it call NCCL?", name,
        hold);
  }
  std::string text = fmt::format("{} {} no recording that can be read.", name, hold);
  constexpr size_t kIssuesShown = 8;
  for (size_t at = 0; at < run.issues.size() && at < kIssuesShown; ++at) {
    const trace::Issue& issue = run.issues[at];
    text += fmt::format("\n  {}{}{}", report::printable(issue.file), issue.file.empty() ? "" : ": ",
                        report::printable(issue.text));
  }
  if (run.issues.size() > kIssuesShown) {
    text += fmt::format("\n  and {} more files", run.issues.size() - kIssuesShown);
  }
  if (!run.logs.empty()) text += "\n  what a job's log says in words, `rollcall diff` judges";
  return text;
}

}  // namespace

std::optional<trace::Run> read_run(const std::string& path, uint64_t window, std::string& error,
                                   uint64_t records_max, trace::Team* team) {
  return read_run(std::vector<std::string>{path}, window, error, records_max, team);
}

std::optional<trace::Run> read_run(const std::vector<std::string>& paths, uint64_t window,
                                   std::string& error, uint64_t records_max, trace::Team* team,
                                   RunNeeds needs) {
  if (trace::is_root(team)) error = objection(paths);
  trace::hand_out(team, error);
  if (!error.empty()) return std::nullopt;
  if (trace::is_root(team)) {
    for (const std::string& path : paths) bring_rings_home(path);
  }
  trace::LoadOptions options;
  options.window = window;
  options.records_max = records_max;
  options.team = team;
  trace::Run run;
  {
    Progress progress(fmt::format("reading {}", name_of(paths)));
    if (trace::is_root(team)) {
      options.on_progress = [&progress](uint64_t done, uint64_t all) { progress.tell(done, all); };
    }
    run = trace::load_run(paths, options);
  }
  const bool has_words = needs == RunNeeds::calls_or_words && !run.logs.empty();
  if (trace::is_root(team) && run.processes.empty() && !has_words) error = why_empty(paths, run);
  trace::hand_out(team, error);
  if (!error.empty()) return std::nullopt;
  return run;
}

bool are_two_directories(const std::vector<std::string>& paths) {
  return paths.size() == 2 && std::all_of(paths.begin(), paths.end(), [](const std::string& path) {
           std::error_code failure;
           return std::filesystem::is_directory(path, failure);
         });
}

void say_issues(const trace::Run& run) {
  for (const trace::Issue& issue : run.issues) {
    say(fmt::format("{}{}{}", report::printable(issue.file), issue.file.empty() ? "" : ": ",
                    report::printable(issue.text)));
  }
  uint64_t lost = 0;
  for (const trace::Process& process : run.processes) {
    if (!process.superseded && process.lost > trace::kUnspentMax) lost += process.lost;
  }
  if (lost != 0) {
    say(
        fmt::format("about {} calls are on no file any more, and not in this; `rollcall info` says "
                    "of which processes",
                    report::grouped(lost)));
  }
}

std::optional<trace::Jobs> jobs_without_number(const trace::Run& run) {
  const bool is_unnamed =
      std::any_of(run.processes.begin(), run.processes.end(), [](const trace::Process& process) {
        return !process.superseded && !process.is_foreign() && process.run_id == 0;
      });
  if (!is_unnamed) return std::nullopt;
  trace::Jobs jobs = trace::jobs_of(run);
  if (jobs.count < 2) return std::nullopt;
  return jobs;
}

void say_job_taken(const trace::Run& run, const std::string& command) {
  const std::optional<trace::Jobs> jobs = jobs_without_number(run);
  if (!jobs) return;
  std::vector<std::string> files(jobs->count);
  for (size_t p = 0; p < run.processes.size(); ++p) {
    if (jobs->of[p] == trace::kNoJob) continue;
    files[jobs->of[p]] += " " + shell_word(report::printable(run.processes[p].file));
  }
  say(fmt::format(
      "THE DIRECTORY HOLDS {} JOBS, for their processes had no ROLLCALL_RUN_ID. This is "
      "about the newest, of these files:{}",
      jobs->count, files[0]));
  for (uint32_t job = 1; job < jobs->count; ++job) {
    say(fmt::format("for an older one: rollcall {}{}", command, files[job]));
  }
}

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("_-./:,=+@%", c) != nullptr;
  };
  bool is_plain = !text.empty();
  for (const char c : text) is_plain = is_plain && c != 0 && plain(static_cast<unsigned char>(c));
  if (is_plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace rollcall::tools
