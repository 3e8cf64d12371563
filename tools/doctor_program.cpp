// A program before it is started, and the environment that it would be started with.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/base/config.h"
#include "core/base/setting_files.h"
#include "core/base/variables.h"
#include "tools/doctor.h"
#include "tools/elf_file.h"
#include "tools/libraries.h"
#include "tools/variables.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

// Those whose frames the recorder can read (docs/CLIENTS.md).
constexpr int kPythonMinorOldest = 9;
constexpr int kPythonMinorNewest = 14;
constexpr const char* kPluginAdvice =
    "NCCL 2.23 and later takes Rollcall as its profiler plugin: set NCCL_PROFILER_PLUGIN to "
    "libnccl-profiler-rollcall.so and ROLLCALL_DIR, and start the job without `rollcall run`";

bool needs_nccl(const ElfFacts& facts) {
  return std::any_of(facts.needed.begin(), facts.needed.end(),
                     [](const std::string& name) { return name.starts_with("libnccl.so"); });
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string configured(const char* name) {
  const char* value = setting(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The folders of packages beside an interpreter, which may be a link in an environment's bin.
std::vector<fs::path> package_folders(const fs::path& python) {
  std::vector<fs::path> found;
  std::error_code failure;
  const fs::path libraries = python.parent_path().parent_path() / "lib";
  for (fs::directory_iterator at(libraries, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (!at->path().filename().string().starts_with("python3")) continue;
    for (const char* name : {"site-packages", "dist-packages"}) {
      if (fs::is_directory(at->path() / name, failure)) found.push_back(at->path() / name);
    }
  }
  return found;
}

Remark remark_on_copy(const fs::path& path, const ElfFacts& facts) {
  if (needs_nccl(facts)) {
    return {Mark::good, "NCCL",
            path.string() + " is linked against libnccl: the preloaded library gets its calls"};
  }
  if (facts.contains_nccl) {
    return {Mark::bad, "NCCL",
            path.string() + " has NCCL linked into it, where no library gets its calls",
            kPluginAdvice};
  }
  return {Mark::good, "NCCL",
          path.string() +
              " is not linked against NCCL; libraries that are loaded later, and what they look "
              "up with dlsym, are covered"};
}

Remarks remarks_on_python(const fs::path& python) {
  Remarks remarks;
  std::error_code failure;
  for (const fs::path& folder : package_folders(python)) {
    const fs::path torch = folder / "torch/lib/libtorch_cuda.so";
    if (const auto facts = read_elf(torch.string()))
      remarks.push_back(remark_on_copy(torch, *facts));
    const fs::path wheel = folder / "nvidia/nccl/lib/libnccl.so.2";
    if (fs::exists(wheel, failure)) {
      remarks.push_back({Mark::good, "NCCL", wheel.string() + " is there to be loaded"});
    }
  }
  if (remarks.empty()) {
    remarks.push_back(
        {Mark::open, "NCCL",
         fmt::format("neither PyTorch for CUDA nor NCCL's package lies beside {}", python.string()),
         "NCCL from elsewhere is covered, too, when a library or dlopen brings it"});
  }
  int minor = 0;
  const std::string real = fs::weakly_canonical(python, failure).filename().string();
  if (std::sscanf(real.c_str(), "python3.%d", &minor) != 1) return remarks;
  const bool is_known = minor >= kPythonMinorOldest && minor <= kPythonMinorNewest;
  const std::string word = configured("ROLLCALL_PYTHON_FRAMES");
  PythonFrames wanted = PythonFrames::within_budget;
  if (!word.empty()) parse_python_frames(word, wanted);
  if (wanted == PythonFrames::off) {
    remarks.push_back({Mark::open, "frames",
                       fmt::format("the lines of the script are not recorded: "
                                   "ROLLCALL_PYTHON_FRAMES={}",
                                   word),
                       "unset it to have them in the verdict"});
  } else if (!is_known) {
    remarks.push_back(
        {wanted == PythonFrames::always ? Mark::bad : Mark::open, "frames",
         fmt::format("the lines of the script cannot be read in Python 3.{}", minor),
         fmt::format("Python 3.{} to 3.{} can", kPythonMinorOldest, kPythonMinorNewest)});
  } else {
    remarks.push_back({Mark::good, "frames", "the lines of the script are recorded"});
  }
  return remarks;
}

// Each library that is preloaded already: one that is not there is only a warning of ld.so's.
Remarks remarks_on_preload(const std::string& recorder) {
  Remarks remarks;
  const std::string value = variable("LD_PRELOAD");
  for (size_t at = 0; at < value.size();) {
    const size_t end = std::min(value.find_first_of(": ", at), value.size());
    const std::string library = value.substr(at, end - at);
    at = end + 1;
    if (library.empty() || library == recorder) continue;
    const bool is_absent =
        library.find('/') != std::string::npos && ::access(library.c_str(), R_OK) != 0;
    if (is_absent) {
      remarks.push_back({Mark::bad, "LD_PRELOAD", library + " is preloaded, and cannot be read",
                         "take it out of LD_PRELOAD"});
    } else {
      remarks.push_back({Mark::open, "LD_PRELOAD",
                         library + " is preloaded already; Rollcall's library comes behind it",
                         "where both intercept NCCL, that one hears of a call first"});
    }
  }
  return remarks;
}

Remarks remarks_on_plugin() {
  const std::string plugin = variable("NCCL_PROFILER_PLUGIN");
  if (plugin.empty() || plugin.find("rollcall") != std::string::npos) return {};
  return {{Mark::open, "plugin",
           fmt::format("NCCL_PROFILER_PLUGIN={} keeps NCCL's profiler interface for itself; the "
                       "preloaded library does not need it",
                       plugin),
           fmt::format("for both: NCCL_PROFILER_PLUGIN=…/librollcall.so ROLLCALL_PLUGIN_CHAIN={}",
                       plugin)}};
}

// Which file gives which variable its value here.
Remarks remarks_on_files() {
  constexpr const char* kNames[] = {
#define ROLLCALL_X(name, type, source, fallback, meaning) #name,
      ROLLCALL_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
  };
  Remarks remarks;
  for (const SettingOrigin file : {SettingOrigin::user_file, SettingOrigin::system_file}) {
    std::vector<std::string> given;
    for (const char* name : kNames) {
      if (origin_of_setting(name) == file) {
        given.push_back(fmt::format("{}={}", name, configured(name)));
      }
    }
    if (!is_setting_file_read(file)) continue;
    remarks.push_back(
        {Mark::good, "file",
         given.empty() ? fmt::format("{} sets nothing here", setting_file(file))
                       : fmt::format("{} sets {}", setting_file(file), fmt::join(given, ", "))});
  }
  return remarks;
}

Remarks remarks_on_settings() {
  static Remarks found;
  found.clear();
  const Config config = read_config([](std::string_view sentence) {
    found.push_back({Mark::open, "setting", std::string(sentence), "correct it or unset it"});
  });
  for (const std::string& sentence : unknown_variables()) {
    found.push_back({Mark::open, "setting", sentence});
  }
  for (const std::string& sentence : setting_complaints()) {
    found.push_back({Mark::open, "file", sentence, "correct it or remove it"});
  }
  if (!config.enable) {
    found.push_back({Mark::bad, "setting", "ROLLCALL_ENABLE switches recording off", "unset it"});
  }
  for (Remark& remark : remarks_on_files()) found.push_back(std::move(remark));
  return std::exchange(found, {});
}

}  // namespace

Remarks examine_program(const std::vector<std::string>& command) {
  const std::string path = resolve_program(command[0]);
  if (path.empty()) {
    return {{Mark::bad, "program", command[0] + " is not found, or may not be run",
             "name a program on the PATH, or with its folder"}};
  }
  if (const std::string harm = preload_harm(command[0]); !harm.empty()) {
    return {{Mark::bad, "program", harm}};
  }
  if (const std::string obstacle = preload_obstacle(command[0]); !obstacle.empty()) {
    return {{Mark::bad, "program", obstacle + ": nothing can be preloaded into it", kPluginAdvice}};
  }
  Remarks remarks{{Mark::good, "program", path + " takes preloaded libraries"}};
  const std::optional<ElfFacts> facts = read_elf(path);
  if (!facts) return remarks;
  const bool is_python = fs::path(path).filename().string().starts_with("python");
  Remarks more = is_python ? remarks_on_python(path) : Remarks{remark_on_copy(path, *facts)};
  remarks.insert(remarks.end(), more.begin(), more.end());
  return remarks;
}

Remarks examine_installation() {
  Remarks remarks;
  std::string error;
  const auto recorder = find_recorder(error);
  if (!recorder) {
    remarks.push_back({Mark::bad, "library", error});
  } else if (std::string value_error; !preload_value(nullptr, {*recorder}, value_error)) {
    remarks.push_back({Mark::bad, "library", value_error});
  } else {
    remarks.push_back(
        {Mark::good, "library",
         fmt::format("{} (glibc {} is here, 2.28 is needed)", *recorder, gnu_get_libc_version())});
  }
  for (Remarks more :
       {remarks_on_preload(recorder.value_or("")), remarks_on_plugin(), remarks_on_settings()}) {
    remarks.insert(remarks.end(), more.begin(), more.end());
  }
  return remarks;
}

}  // namespace rollcall::tools
