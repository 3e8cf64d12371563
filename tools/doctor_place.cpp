// The place where files go, and the machine.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/config.h"
#include "tools/doctor.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// A ring of the usual size and its tables (docs/OVERHEAD.md).
constexpr uint64_t kRingBytes = 11 * kMiB;

// The nearest folder that exists, in which the others would be made.
fs::path existing_part(const std::string& directory) {
  std::error_code failure;
  fs::path path = fs::absolute(directory, failure);
  while (!path.empty() && path != path.root_path() && !fs::exists(path, failure)) {
    path = path.parent_path();
  }
  return path;
}

struct FileSystem {
  uint32_t type;
  const char* name;
};
// Those that the recorder does not map; it knows all that it does (core/ring/ring_file.cpp).
constexpr FileSystem kElsewhere[] = {
    {0x6969, "NFS"},      {0x65735546, "FUSE"},   {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"}, {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},
    {0x00c36400, "Ceph"}, {0x19830326, "BeeGFS"}, {0x01021997, "9P"},
};
constexpr uint32_t kTmpfs = 0x01021994;

std::string why_not_writable(const fs::path& folder) {
  std::error_code failure;
  if (!fs::is_directory(folder, failure)) return std::strerror(ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return std::strerror(errno);
  const int file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  // Not every file system has files without a name.
  if (file < 0) return errno == EOPNOTSUPP || errno == EISDIR ? "" : std::strerror(errno);
  ::close(file);
  return "";
}

Remark remark_on_room(const fs::path& folder, const struct statfs& where) {
  const uint64_t free = where.f_bavail * static_cast<uint64_t>(where.f_bsize);
  const uint64_t history = read_config([](std::string_view) {}).max_history_bytes;
  const std::string sentence = fmt::format(
      "{} MiB are free in {}; a process takes 11 MiB for its ring, and up to {} MiB for "
      "its history",
      free / kMiB, folder.string(), history / kMiB);
  if (free < 2 * kRingBytes) {
    return {Mark::bad, "room", sentence, "make room, or name another directory in ROLLCALL_DIR"};
  }
  if (free < kRingBytes + history + 256 * kMiB) {
    return {Mark::open, "room", sentence,
            "history stops while less than 256 MiB are free: lower ROLLCALL_MAX_HISTORY or make "
            "room"};
  }
  return {Mark::good, "room", sentence};
}

Remark remark_on_kind(const fs::path& folder, const struct statfs& where) {
  const auto type = static_cast<uint32_t>(where.f_type);
  for (const FileSystem& known : kElsewhere) {
    if (known.type != type) continue;
    return {Mark::open, "file system",
            fmt::format("{} is on {}: the ring stays on this machine and is copied there once a "
                        "second",
                        folder.string(), known.name),
            "that is good for a job of several hosts; on one host, a local directory shows the "
            "newest calls at once"};
  }
  if (type == kTmpfs) {
    return {Mark::open, "file system",
            fmt::format("{} is in memory: what is recorded counts as the job's, and is gone with "
                        "the machine",
                        folder.string()),
            "a directory on a disk keeps it"};
  }
  return {Mark::good, "file system", folder.string() + " is on a file system of this machine"};
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string status_field(std::string_view name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(line.find_first_not_of(" \t", name.size()));
  }
  return {};
}

Remark remark_on_clock() {
  const bool is_tsc = detect_clock() == ClockKind::tsc;
  if (is_tsc) return {Mark::good, "clock", "the processor's own counter runs at one rate"};
  return {Mark::open, "clock",
          "this processor does not say that its counter runs at one rate, so that times come from "
          "the kernel: a record costs some 50 ns more",
          "nothing to do; virtual machines that can be moved are like that"};
}

Remark remark_on_limits() {
  rlimit files{};
  rlimit bytes{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_FSIZE, &bytes);
  constexpr rlim_t kFilesMin = 64;
  if (bytes.rlim_cur != RLIM_INFINITY && bytes.rlim_cur < kRingBytes) {
    return {Mark::bad, "limits",
            fmt::format("no file may be larger than {} KiB, and the ring is", bytes.rlim_cur >> 10),
            "raise it: ulimit -f unlimited"};
  }
  if (files.rlim_cur < kFilesMin) {
    return {Mark::bad, "limits",
            fmt::format("a process may have {} files open; the recorder needs two", files.rlim_cur),
            "raise it: ulimit -n 1024"};
  }
  return {Mark::good, "limits", "files may be as many and as large as they have to be"};
}

Remark remark_on_sandbox() {
  const std::string filter = status_field("Seccomp:");
  const bool has_filter = filter == "2";
  if (!has_filter) return {Mark::good, "sandbox", "no system call is filtered here"};
  return {Mark::open, "sandbox",
          "system calls are filtered here (a container, most likely); where the filter kills "
          "instead of refusing, the recorder's calls may end the job",
          "docs/FAILURE_MODES.md lists the calls; the filters of Docker and Kubernetes allow them"};
}

Remark remark_on_gpu() {
  const std::string driver = first_line("/proc/driver/nvidia/version");
  const GpuTiming timing = read_config([](std::string_view) {}).gpu_timing;
  if (driver.empty()) {
    return {Mark::open, "GPU", "there is no NVIDIA driver here",
            "`rollcall run --emulate` has emulated GPUs"};
  }
  if (timing == GpuTiming::off) {
    return {Mark::open, "GPU", "a driver is here, and ROLLCALL_GPU_TIMING=off",
            "unset it to learn what the GPU did with each call"};
  }
  return {Mark::good, "GPU", driver};
}

}  // namespace

Remarks examine_directory(const std::string& directory) {
  const fs::path folder = existing_part(directory);
  const std::string why = why_not_writable(folder);
  if (!why.empty()) {
    return {{Mark::bad, "directory",
             fmt::format("{} cannot be written to: {}", folder.string(), why),
             "name another directory: rollcall run -d DIR, or ROLLCALL_DIR"}};
  }
  Remarks remarks;
  remarks.push_back(
      {Mark::good, "directory", fmt::format("{} can be written to", folder.string())});
  struct statfs where {};
  if (::statfs(folder.c_str(), &where) != 0) return remarks;
  remarks.push_back(remark_on_room(folder, where));
  remarks.push_back(remark_on_kind(folder, where));
  return remarks;
}

Remarks examine_system() {
  return {remark_on_gpu(), remark_on_clock(), remark_on_limits(), remark_on_sandbox()};
}

}  // namespace rollcall::tools
