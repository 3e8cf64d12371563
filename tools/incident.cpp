#include "tools/incident.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/verdict.h"
#include "report/incident.h"
#include "report/page/kept_stacks.h"
#include "report/terms.h"
#include "report/text.h"
#include "tools/output_file.h"
#include "trace/bytes.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "incidents";
constexpr const char* kChangesFile = "changes.txt";
constexpr int kNamesTried = 100;
constexpr uint32_t kContext = 5;
constexpr size_t kIncidentsShown = 16;
constexpr size_t kChangesRead = 4096;
constexpr size_t kIncidentBytesMax = 256u << 20;
constexpr const char* kStacksFile = "stacks.txt";

int64_t now_ns() {
  using std::chrono::duration_cast;
  return duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

// The folder of an incident, opened name by name: the run directory may belong to somebody else,
// and no link in it is followed.
class Place {
 public:
  explicit Place(const fs::path& folder)
      : run_(folder.parent_path().parent_path().string()),
        above_(run_, kFolder),
        folder_(above_, folder.filename().string()) {}
  const OpenDirectory& folder() const { return folder_; }

 private:
  const OpenDirectory run_;
  const OpenDirectory above_;
  const OpenDirectory folder_;
};

std::optional<std::string> make_folder(const std::string& directory, std::string_view code,
                                       std::string& error) {
  const auto fail = [&error](const fs::path& path, int number) {
    error = fmt::format("{} could not be made: {}", path.string(), std::strerror(number));
    return std::nullopt;
  };
  const fs::path path = fs::path(directory) / kFolder;
  const OpenDirectory run(directory);
  if (run.error() != 0) return fail(directory, run.error());
  if (::mkdirat(run.descriptor(), kFolder, 0700) != 0 && errno != EEXIST) return fail(path, errno);
  const OpenDirectory above(run, kFolder);
  if (above.error() != 0) return fail(path, above.error());
  const std::string stem = fmt::format("{}-{}", time_stamp(), code);
  std::string name = stem;
  for (int number = 2; ::mkdirat(above.descriptor(), name.c_str(), 0700) != 0; ++number) {
    const int refused = errno;
    if (refused != EEXIST || number > kNamesTried) return fail(path / name, refused);
    name = fmt::format("{}-{}", stem, number);
  }
  return (path / name).string();
}

bool write_file(const OpenDirectory& folder, const std::string& name, const std::string& text,
                std::string& error) {
  OutputFile file(folder, name, Privacy::own);
  file.write(text);
  if (file.put_in_place()) return true;
  error = fmt::format("{}/{} could not be written: {}", folder.path(), name, file.why());
  return false;
}

// A file of an incident. Who may write into the run directory may put links there, and pages and
// verdicts are sent to others: what a link leads to is not for them.
trace::FileSource file_in(const fs::path& folder, const char* name) {
  std::error_code failure;
  const Place place(fs::absolute(folder, failure).lexically_normal());
  return trace::FileSource(trace::OpenedFile{
      trace::open_regular(place.folder().descriptor(), name, O_RDONLY, trace::Links::refused)});
}

// The last bytes of what became of an incident.
std::string changes_in(const fs::path& folder) {
  const trace::FileSource source = file_in(folder, kChangesFile);
  if (source.error() != 0) return {};
  const uint64_t begin = source.size() - std::min<uint64_t>(source.size(), kChangesRead);
  std::string text(kChangesRead, '\0');
  text.resize(source.read(begin, text.data(), text.size()));
  return text;
}

std::string last_change_in(const fs::path& folder) {
  std::string text = changes_in(folder);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t end = text.rfind('\n');
  return end == std::string::npos ? text : text.substr(end + 1);
}

// The folders of incidents, the oldest first.
std::vector<std::string> names_of_incidents(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator at(fs::path(directory) / kFolder, failure), end;
       !failure && at != end; at.increment(failure)) {
    std::error_code ignored;
    const bool is_folder = at->is_directory(ignored) && !at->is_symlink(ignored);
    if (is_folder) names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path without_slash(const std::string& path) {
  const fs::path plain = fs::path(path).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

// The stacks that an incident kept; empty: none.
std::string stacks_in(const fs::path& folder) {
  const trace::FileSource source = file_in(folder, kStacksFile);
  if (source.error() != 0) return {};
  std::string text(std::min<uint64_t>(source.size(), report::kStacksBytesMax), '\0');
  text.resize(source.read(0, text.data(), text.size()));
  return text;
}

// Where verdicts about the ranks that are judged are kept: in the directory of their files, or
// above one that is a host's.
std::set<fs::path> homes_of(const std::string& directory, const trace::Run& run) {
  std::set<fs::path> homes;
  std::error_code failure;
  if (!fs::is_directory(directory, failure)) return homes;
  const fs::path top = without_slash(directory);
  for (const trace::Process& process : run.processes) {
    if (process.superseded || process.is_foreign()) continue;
    fs::path folder = fs::path(process.file).lexically_normal().parent_path();
    if (folder.empty()) folder = ".";
    homes.insert(folder);
    const bool is_attempt = folder.filename().string().starts_with("attempt-");
    if (folder != top && !is_attempt) homes.insert(folder.parent_path());
  }
  std::erase_if(homes, [&](const fs::path& home) {
    std::error_code ignored;
    return fs::is_symlink(home / kFolder, ignored) ||
           (home != top && fs::is_symlink(home, ignored));
  });
  return homes;
}

std::string word_of(const nlohmann::json& json, const char* key) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return {};
  return report::printable(json[key].get<std::string>());
}

}  // namespace

std::optional<std::string> save_incident(const std::string& directory, const trace::Run& run,
                                         const analysis::Report& report, std::string& error) {
  if (report.findings.empty()) return std::nullopt;
  auto folder = make_folder(directory, analysis::code_of(report.findings.front().verdict), error);
  if (!folder) return std::nullopt;
  const Place place(*folder);
  report::TextOptions options;
  options.all = true;
  options.context = kContext;
  if (!write_file(place.folder(), "verdict.txt", report::diff_text(run, report, options), error) ||
      !write_file(place.folder(), kIncidentFile, report::incident_json(run, report, now_ns()),
                  error)) {
    return std::nullopt;
  }
  return folder;
}

bool add_stacks_to(const std::string& folder, const report::MergedStacks& stacks,
                   std::string& error) {
  const Place place(folder);
  return write_file(place.folder(), kStacksFile, stacks.text(), error) &&
         write_file(place.folder(), "stacks.json", stacks.json(), error);
}

bool add_change(const std::string& folder, const std::string& sentence) {
  const Place place(folder);
  const int file =
      ::openat(place.folder().descriptor(), kChangesFile,
               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file < 0) return false;
  const std::string line = fmt::format("{} {}\n", report::iso_time(now_ns()), sentence);
  struct stat status {};
  // A pipe, or a second name of somebody's file, is nothing of ours.
  const bool is_own =
      ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
  const bool is_written =
      is_own && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  ::close(file);
  return is_written;
}

std::optional<Incident> read_incident(const std::string& folder) {
  const trace::FileSource source = file_in(folder, kIncidentFile);
  if (source.error() != 0 || source.size() > kIncidentBytesMax) return std::nullopt;
  std::string text(source.size(), '\0');
  text.resize(source.read(0, text.data(), text.size()));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("culprits")) return std::nullopt;
  Incident incident;
  incident.folder = folder;
  struct stat status {};
  if (::fstat(source.descriptor(), &status) == 0) {
    incident.written_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  }
  incident.code = word_of(json, "code");
  incident.origin = word_of(json, "class");
  incident.is_certain = json.contains("certain") && json["certain"] == true;
  incident.summary = word_of(json, "summary");
  std::set<std::string> hosts;
  for (const auto& culprit : json["culprits"]) hosts.insert(word_of(culprit, "host"));
  hosts.erase("");
  incident.hosts.assign(hosts.begin(), hosts.end());
  return incident;
}

std::optional<Incident> standing_incident(const std::string& directory) {
  const std::vector<std::string> names = names_of_incidents(directory);
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const fs::path folder = fs::path(directory) / kFolder / *name;
    const std::string changes = changes_in(folder);
    // One that is too young, or about how the job ended, takes nothing back.
    if (changes.find(kItStands) == std::string::npos) continue;
    if (changes.find(kItGoesOn) != std::string::npos) return std::nullopt;
    return read_incident(folder.string());
  }
  return std::nullopt;
}

report::Kept kept_of_run(const std::string& directory, const trace::Run& run) {
  report::Kept kept;
  std::string newest;
  for (const fs::path& home : homes_of(directory, run)) {
    const fs::path below = home.lexically_relative(without_slash(directory));
    const std::string prefix = below == "." ? "" : below.string() + "/";
    for (std::string& line : list_incidents(home.string())) {
      kept.verdicts.push_back(prefix + std::move(line));
    }
    const std::vector<std::string> names = names_of_incidents(home.string());
    for (auto name = names.rbegin(); name != names.rend() && *name > newest; ++name) {
      std::string text = stacks_in(home / kFolder / *name);
      if (text.empty()) continue;
      newest = *name;
      kept.stacks = {fmt::format("{}{}/{}", prefix, kFolder, *name), std::move(text)};
    }
  }
  return kept;
}

report::Kept kept_of_incident(const std::string& folder) {
  report::Kept kept{.stacks = {}, .verdicts = {}, .is_of_incident = true};
  const fs::path path = without_slash(folder);
  const std::string name = fmt::format("{}/{}", kFolder, path.filename().string());
  if (const std::optional<Incident> incident = read_incident(path.string())) {
    kept.verdicts.push_back(fmt::format("{}: {}: {}", name, incident->code, incident->summary));
  }
  std::string changes = changes_in(path);
  for (size_t begin = 0; begin < changes.size();) {
    const size_t end = std::min(changes.find('\n', begin), changes.size());
    if (end > begin) kept.verdicts.push_back(changes.substr(begin, end - begin));
    begin = end + 1;
  }
  kept.stacks = {name, stacks_in(path)};
  return kept;
}

std::optional<std::string> run_of_incident(const std::string& path) {
  std::error_code failure;
  const fs::path folder = without_slash(fs::absolute(path, failure).string());
  if (failure || folder.parent_path().filename() != kFolder) return std::nullopt;
  if (!fs::exists(folder / kIncidentFile, failure)) return std::nullopt;
  // As the user wrote it, where that names the run.
  const fs::path given = without_slash(path).parent_path();
  if (given.filename() != kFolder) return folder.parent_path().parent_path().string();
  return given.has_parent_path() ? given.parent_path().string() : std::string(".");
}

std::vector<std::string> list_incidents(const std::string& directory) {
  std::vector<std::string> names = names_of_incidents(directory);
  std::vector<std::string> lines;
  if (names.size() > kIncidentsShown) {
    lines.push_back(fmt::format("{} older ones in {}", names.size() - kIncidentsShown, kFolder));
    names.erase(names.begin(), names.end() - kIncidentsShown);
  }
  for (const std::string& name : names) {
    const std::string change = last_change_in(fs::path(directory) / kFolder / name);
    lines.push_back(fmt::format("{}/{}{}{}", kFolder, name, change.empty() ? "" : ": ", change));
  }
  return lines;
}

}  // namespace rollcall::tools
