#include "tools/run_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "report/lines.h"
#include "report/terms.h"
#include "tools/bring_home.h"
#include "tools/new_run_directory.h"
#include "tools/progress.h"
#include "tools/terminal.h"
#include "trace/loader.h"
#include "trace/parcel.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

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
  const std::vector<report::SharedIssue> issues = report::issues_to_name(run);
  for (size_t at = 0; at < issues.size() && at < kIssuesShown; ++at) {
    text += "\n  " + report::issue_line(issues[at], true);
  }
  if (issues.size() > kIssuesShown) {
    text += fmt::format("\n  and {} more", issues.size() - kIssuesShown);
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
  for (const report::SharedIssue& shared : report::issues_to_name(run)) {
    say(report::issue_line(shared, true));
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
