#include "tools/libraries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecorder = "librollcall.so";
constexpr const char* kMpiLibrary = "librollcall-mpi.so";
// The driver first: the others ask it for their streams and memory.
constexpr const char* kEmulator[] = {"libcuda.so.1",      "libcudart.so.13", "libcudart.so.12",
                                     "libcudart.so.11.0", "libnccl.so.2",    "libnvidia-ml.so.1"};
// Taken where they were built: only programs that multiply matrices miss them.
constexpr const char* kEmulatorOptional[] = {"libcublasLt.so.13", "libcublas.so.13",
                                             "libcublasLt.so.12", "libcublas.so.12",
                                             "libcublasLt.so.11", "libcublas.so.11"};

// Places of a build tree (<build>/tools/rollcall), then of an installation (<prefix>/bin/rollcall).
std::vector<fs::path> places(const char* build_folder, const char* installed_folder) {
  if (const char* chosen = std::getenv("ROLLCALL_LIB_DIR"); chosen != nullptr && *chosen != 0) {
    const fs::path root = fs::absolute(chosen).lexically_normal();
    return {root, root / build_folder};
  }
  std::error_code failure;
  const fs::path executable = fs::read_symlink("/proc/self/exe", failure);
  if (failure) return {};
  const fs::path prefix = executable.parent_path().parent_path();
  return {prefix / build_folder, prefix / installed_folder, executable.parent_path()};
}

std::optional<std::string> find_in(const std::vector<fs::path>& folders, const char* name) {
  std::error_code failure;
  for (const fs::path& folder : folders) {
    if (fs::is_regular_file(folder / name, failure)) return (folder / name).string();
  }
  return std::nullopt;
}

std::string not_found(const char* name, const std::vector<fs::path>& folders,
                      const char* origin = "build it") {
  std::vector<std::string> texts;
  for (const fs::path& folder : folders) texts.push_back(folder.string());
  return fmt::format("{} was found in none of {}; {}, or name its folder in ROLLCALL_LIB_DIR.",
                     name, fmt::join(texts, ", "), origin);
}

std::optional<std::string> find_library(const char* name, const std::vector<fs::path>& folders,
                                        std::string& error) {
  std::optional<std::string> path = find_in(folders, name);
  if (!path) error = not_found(name, folders);
  return path;
}

}  // namespace

std::optional<std::string> find_recorder(std::string& error) {
  return find_library(kRecorder, places("shim", "lib/rollcall"), error);
}

std::optional<std::string> find_mpi_library(std::string& error) {
  return find_library(kMpiLibrary, places("tools", "lib/rollcall"), error);
}

std::optional<std::vector<std::string>> find_emulator(std::string& error) {
  const std::vector<fs::path> folders = places("emulator", "lib/rollcall");
  std::vector<std::string> paths;
  for (const char* name : kEmulator) {
    const std::optional<std::string> path = find_in(folders, name);
    if (!path) {
      error = not_found(name, folders, "build it, `pip install rollcall-nccl-emulator`");
      return std::nullopt;
    }
    paths.push_back(*path);
  }
  for (const char* name : kEmulatorOptional) {
    if (const std::optional<std::string> path = find_in(folders, name)) paths.push_back(*path);
  }
  return paths;
}

std::optional<std::string> find_emulated_cupti() {
  return find_in(places("emulator", "lib/rollcall"), "libcupti.so.13");
}

std::optional<std::string> preload_value(const char* existing,
                                         const std::vector<std::string>& libraries,
                                         std::string& error) {
  std::string value = existing == nullptr ? "" : existing;
  for (const std::string& library : libraries) {
    if (library.find_first_of(": ") != std::string::npos) {
      error = fmt::format(
          "{} cannot be preloaded, because its path holds a space or a colon; move it, or name "
          "another folder in ROLLCALL_LIB_DIR.",
          library);
      return std::nullopt;
    }
    if (!value.empty()) value += ':';
    value += library;
  }
  return value;
}

}  // namespace rollcall::tools
