#include "tools/run_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "report/terms.h"
#include "tools/progress.h"
#include "trace/loader.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunsDirectory = "rollcall-runs";
constexpr int kNamesTried = 100;

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

bool make_private(const fs::path& path, std::string& error) {
  if (::mkdir(path.c_str(), 0700) == 0) return true;
  error = fmt::format("the run directory {} could not be made: {}; choose another with -d.",
                      path.string(), std::strerror(errno));
  return false;
}

bool make_parents(const fs::path& path, std::string& error) {
  std::error_code failure;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failure);
  if (!failure) return true;
  error = fmt::format("{} could not be made: {}; choose another place with -d.",
                      path.parent_path().string(), failure.message());
  return false;
}

}  // namespace

std::optional<std::string> make_run_directory(const std::string& wanted, const std::string& program,
                                              std::string& error) {
  std::error_code failure;
  fs::path path = wanted.empty()
                      ? fs::path(kRunsDirectory) / (time_stamp() + "-" + name_part(program))
                      : fs::path(wanted);
  path = fs::absolute(path, failure).lexically_normal();
  if (path.has_parent_path() && path.filename().empty()) path = path.parent_path();
  if (failure) {
    error = "the current directory is gone; change to one that exists.";
    return std::nullopt;
  }
  const fs::path first = path;
  for (int attempt = 2; wanted.empty() && fs::exists(path, failure) && attempt < kNamesTried;
       ++attempt) {
    path = first.string() + fmt::format("-{}", attempt);
  }
  if (!fs::exists(path, failure)) {
    if (!make_parents(path, error) || !make_private(path, error)) return std::nullopt;
    return path.string();
  }
  if (!fs::is_directory(path, failure)) {
    error = fmt::format("{} is not a directory; choose another with -d.", path.string());
    return std::nullopt;
  }
  if (!fs::is_empty(path, failure) || failure) {
    error = fmt::format(
        "{} is not empty, and the files of two runs must not mix; choose another with -d, or "
        "remove "
        "it.",
        path.string());
    return std::nullopt;
  }
  return path.string();
}

std::optional<std::string> make_shared_run_directory(const std::string& wanted,
                                                     const std::string& run_id,
                                                     std::string& error) {
  std::error_code failure;
  fs::path path = wanted.empty() ? fs::path(kRunsDirectory) / name_part(run_id) : fs::path(wanted);
  path = fs::absolute(path, failure).lexically_normal();
  if (path.has_parent_path() && path.filename().empty()) path = path.parent_path();
  if (!make_parents(path, error)) return std::nullopt;
  // Another rank may make it between a look and the call.
  if (::mkdir(path.c_str(), 0700) == 0 || fs::is_directory(path, failure)) return path.string();
  error =
      fmt::format("the run directory {} could not be made; choose another with -d.", path.string());
  return std::nullopt;
}

std::optional<trace::Run> read_run(const std::string& path, uint64_t window, std::string& error,
                                   uint64_t records_max) {
  std::error_code failure;
  if (path.empty()) {
    error = "the name of the run directory is empty; give the one that `rollcall run` printed.";
    return std::nullopt;
  }
  if (!fs::exists(path, failure)) {
    error = failure ? fmt::format("{} cannot be opened: {}.", path, failure.message())
                    : fmt::format(
                          "{} does not exist; `rollcall run` prints the directory it writes "
                          "to, by default one below {}.",
                          path, kRunsDirectory);
    return std::nullopt;
  }
  trace::LoadOptions options;
  options.window = window;
  options.records_max = records_max;
  trace::Run run;
  {
    Progress progress(fmt::format("reading {}", path));
    options.on_progress = [&progress](uint64_t done, uint64_t all) { progress.tell(done, all); };
    run = trace::load_run(path, options);
  }
  if (!run.processes.empty()) return run;
  if (run.issues.empty()) {
    error = fmt::format(
        "{} holds no recording; was the job started with `rollcall run`, and did it call NCCL?",
        path);
    return std::nullopt;
  }
  error = fmt::format("{} holds no recording that can be read.", path);
  constexpr size_t kIssuesShown = 8;
  for (size_t at = 0; at < run.issues.size() && at < kIssuesShown; ++at) {
    const trace::Issue& issue = run.issues[at];
    error += fmt::format("\n  {}{}{}", report::printable(issue.file),
                         issue.file.empty() ? "" : ": ", report::printable(issue.text));
  }
  if (run.issues.size() > kIssuesShown) {
    error += fmt::format("\n  and {} more files", run.issues.size() - kIssuesShown);
  }
  return std::nullopt;
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
