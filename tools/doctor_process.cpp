// Processes that run, and what they have written about themselves.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "core/format/call_site.h"
#include "report/terms.h"
#include "tools/doctor.h"
#include "tools/elf_file.h"
#include "tools/process_table.h"
#include "tools/ring_files.h"

namespace rollcall::tools {
namespace {

constexpr const char* kRecorder = "librollcall.so";
constexpr const char* kPlugin = "libnccl-profiler-rollcall.so";
// Of many processes that are alike the first are named.
constexpr size_t kPidsNamed = 4;

// What a process has mapped, by the names of the files.
struct Mappings {
  std::string recorder{};
  std::string plugin{};
  std::string nccl{};
  std::string ring{};
};

// nullopt: it may not be looked at.
std::optional<Mappings> mappings_of(pid_t pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  if (!maps) return std::nullopt;
  Mappings found;
  for (std::string line; std::getline(maps, line);) {
    const size_t start = line.find('/');
    if (start == std::string::npos) continue;
    const std::string path = line.substr(start);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name.starts_with(kRecorder)) found.recorder = path;
    if (name.starts_with(kPlugin)) found.plugin = path;
    if (name.starts_with("libnccl.so")) found.nccl = path;
    if (name.ends_with(".ring")) found.ring = path;
  }
  return found;
}

// The same remark about many processes is one line.
class Gathered {
 public:
  void add(pid_t pid, Remark remark) {
    const auto is_same = [&](const Entry& entry) {
      return entry.remark.subject == remark.subject && entry.remark.sentence == remark.sentence &&
             entry.remark.advice == remark.advice;
    };
    auto at = std::find_if(entries_.begin(), entries_.end(), is_same);
    if (at == entries_.end()) at = entries_.insert(at, Entry{std::move(remark), {}});
    at->pids.push_back(pid);
  }

  Remarks remarks() const {
    Remarks all;
    for (const Entry& entry : entries_) {
      Remark remark = entry.remark;
      remark.sentence = fmt::format("{}: {}", named(entry.pids), remark.sentence);
      all.push_back(std::move(remark));
    }
    return all;
  }

 private:
  struct Entry {
    Remark remark;
    std::vector<pid_t> pids;
  };

  static std::string named(const std::vector<pid_t>& pids) {
    if (pids.size() == 1) return fmt::format("pid {}", pids[0]);
    std::string text = fmt::format("{} processes (", pids.size());
    for (size_t at = 0; at < std::min(pids.size(), kPidsNamed); ++at) {
      text += fmt::format("{}{}", at == 0 ? "" : ", ", pids[at]);
    }
    return text + (pids.size() > kPidsNamed ? ", …)" : ")");
  }

  std::vector<Entry> entries_;
};

Remark remark_on_coverage(const std::string& coverage) {
  if (coverage.find("static_nccl") != std::string::npos) {
    return {Mark::bad, "covered",
            "NCCL is linked into a library of the process, and its calls pass the preloaded one by",
            "set NCCL_PROFILER_PLUGIN to librollcall.so as well (NCCL 2.23 and later)"};
  }
  const bool is_preloaded =
      coverage.find("plt") != std::string::npos || coverage.find("dlsym") != std::string::npos;
  if (is_preloaded) {
    return {Mark::good, "covered", fmt::format("calls are recorded (by way of {})", coverage)};
  }
  if (coverage.find("plugin") != std::string::npos) {
    return {Mark::open, "covered",
            "NCCL's profiler interface alone tells of calls: not of reductions, aborts, and "
            "communicators that never come to be",
            "preload librollcall.so where that can be done"};
  }
  return {Mark::open, "covered", "no call of NCCL's has been seen yet",
          "ask again once the job has passed its rendezvous"};
}

void examine_gpu_timing(const std::string& ring, const FileHeader& header, pid_t pid,
                        Gathered& all) {
  const std::string timing = read_meta(ring, header, "gpu_timing");
  if (timing.empty()) {
    all.add(pid, {Mark::open, "GPU timing", "no operation is timed on the GPU",
                  "see ROLLCALL_GPU_TIMING in `rollcall config`; a job that has made no call yet "
                  "has nothing to time"});
  } else {
    all.add(pid, {Mark::good, "GPU timing", "operations are timed by " + timing});
  }
  if (const std::string why = read_meta(ring, header, "gpu_cupti"); !why.empty()) {
    all.add(pid, {Mark::open, "GPU timing", "CUPTI is not used: " + why});
  }
  if (const std::string fault = read_meta(ring, header, "gpu_fault"); !fault.empty()) {
    all.add(pid, {Mark::bad, "GPU timing", "the driver refuses it: " + fault,
                  "ROLLCALL_GPU_TIMING=off does without"});
  }
}

void examine_state(const FileHeader& header, pid_t pid, Gathered& all) {
  switch (static_cast<CaptureState>(header.capture_state)) {
    case CaptureState::paused:
      all.add(pid, {Mark::bad, "recorder", "recording is paused", "rollcall ctl resume DIR"});
      return;
    case CaptureState::off:
      all.add(pid, {Mark::bad, "recorder",
                    fmt::format("the recorder has switched itself off (check in line {})",
                                header.off_reason),
                    "that is a fault of Rollcall: please report it with the run directory"});
      return;
    default:
      all.add(pid, {Mark::good, "recorder", "recording"});
  }
}

void examine_ring(const std::string& ring, pid_t pid, Gathered& all) {
  std::string error;
  const std::optional<FileHeader> header = read_header(ring, &error);
  if (!header) return all.add(pid, {Mark::bad, "recorder", error});
  examine_state(*header, pid, all);
  all.add(pid, remark_on_coverage(read_meta(ring, *header, "coverage")));
  const std::string version = report::nccl_version(read_meta(ring, *header, "nccl_version"));
  const std::string path = read_meta(ring, *header, "nccl_path");
  if (!version.empty())
    all.add(pid, {Mark::good, "NCCL", fmt::format("{} from {}", version, path)});
  examine_gpu_timing(ring, *header, pid, all);
  const std::string frames = read_meta(ring, *header, "python_frames");
  const std::string left_out = read_meta(ring, *header, kFramesLeftOutKey);
  if (frames == "off" || frames.starts_with("not understood")) {
    all.add(pid, {Mark::open, "frames", "the lines of the script are not recorded: " + frames});
  } else if (!left_out.empty()) {
    all.add(pid, {Mark::open, "frames", "some calls have no line of the script: " + left_out});
  } else if (!frames.empty()) {
    all.add(pid,
            {Mark::good, "frames", "the lines of the script are recorded (Python " + frames + ")"});
  }
  const std::string from_files = read_meta(ring, *header, "conf");
  if (!from_files.empty()) all.add(pid, {Mark::good, "file", from_files});
  const std::string chain = read_meta(ring, *header, "env.ROLLCALL_PLUGIN_CHAIN");
  if (!chain.empty()) all.add(pid, {Mark::good, "plugin", chain + " stands behind Rollcall's"});
  const std::string warning = read_meta(ring, *header, "warning");
  if (!warning.empty()) all.add(pid, {Mark::open, "warning", warning});
}

// A process that has NCCL, and nothing of ours.
Remark why_not_loaded(pid_t pid, const std::string& nccl) {
  const std::string preload = variable_of(pid, "LD_PRELOAD");
  const std::string what = "uses " + nccl + " and is not recorded";
  const size_t at = preload.find(kRecorder);
  if (at == std::string::npos) {
    return {Mark::bad, "recorder",
            preload.empty() ? what + ": it has no LD_PRELOAD"
                            : fmt::format("{}: its LD_PRELOAD is {}", what, preload),
            "what started it has cleared or replaced the variable (ssh, sudo, a container, a "
            "launcher with an environment of its own): set it there, as `rollcall run` prints it"};
  }
  const size_t before = preload.find_last_of(": ", at);
  const size_t start = before == std::string::npos ? 0 : before + 1;
  const std::string library = preload.substr(start, preload.find_first_of(": ", at) - start);
  const std::string seen = fmt::format("/proc/{}/root{}", pid, library);
  if (::access(seen.c_str(), R_OK) != 0) {
    return {Mark::bad, "recorder",
            fmt::format("{}: {} cannot be read where it runs", what, library),
            "mount the folder into its container"};
  }
  return {Mark::bad, "recorder", what + ", though its LD_PRELOAD asks for it",
          "its program is static, setuid, or for another C library than glibc; use the profiler "
          "plugin"};
}

// A process that has mapped no NCCL: a launcher, a helper, or one with NCCL in its program.
void examine_program_of(pid_t pid, Gathered& all, size_t& others) {
  const auto facts = read_elf(fmt::format("/proc/{}/exe", pid));
  if (!facts || !facts->contains_nccl) return void(++others);
  all.add(pid, {Mark::bad, "recorder",
                "NCCL is linked into its program, where no library gets its calls, and nothing is "
                "recorded",
                "set NCCL_PROFILER_PLUGIN to libnccl-profiler-rollcall.so (NCCL 2.23 and later)"});
}

void examine_process(pid_t pid, Gathered& all, size_t& others) {
  const std::optional<Mappings> mapped = mappings_of(pid);
  if (!mapped) {
    return all.add(pid, {Mark::open, "process", "may not be looked at",
                         "ask as its user, or as root, and in its container"});
  }
  const bool has_recorder = !mapped->recorder.empty() || !mapped->plugin.empty();
  if (mapped->nccl.empty() && (mapped->ring.empty() || !has_recorder)) {
    return examine_program_of(pid, all, others);
  }
  if (!has_recorder) return all.add(pid, why_not_loaded(pid, mapped->nccl));
  const std::string& library = mapped->recorder.empty() ? mapped->plugin : mapped->recorder;
  if (!mapped->ring.empty()) {
    all.add(pid, {Mark::good, "library", library + " is loaded"});
    // The path is the process's own, which may be in a container.
    const bool is_here = ::access(mapped->ring.c_str(), R_OK) == 0;
    const std::string there = fmt::format("/proc/{}/root{}", pid, mapped->ring);
    return examine_ring(is_here ? mapped->ring : there, pid, all);
  }
  all.add(pid, {Mark::open, "library", library + " is loaded, and nothing is recorded yet",
                "before the first call of NCCL's that is as it should be; after it, its stderr "
                "says why"});
}

}  // namespace

Remarks examine_process_tree(pid_t root) {
  std::set<pid_t> family{root};
  const std::vector<ProcessFacts> processes = read_processes();
  // Parents may have larger numbers than their children.
  for (size_t before = 0; before != family.size();) {
    before = family.size();
    for (const ProcessFacts& process : processes) {
      if (family.contains(process.parent)) family.insert(process.pid);
    }
  }
  Gathered all;
  size_t others = 0;
  for (const pid_t pid : family) examine_process(pid, all, others);
  Remarks remarks = all.remarks();
  if (remarks.empty()) {
    remarks.push_back(
        {Mark::bad, "process",
         fmt::format("neither process {} nor what descends from it ({} in all) has NCCL loaded",
                     root, family.size()),
         "ask again once the job has loaded it, or name the process that has started the ranks"});
  } else if (others > 0) {
    remarks.push_back(
        {Mark::good, "others", fmt::format("{} more without NCCL: launchers, helpers", others)});
  }
  return remarks;
}

Remarks examine_rings(const std::vector<std::string>& rings) {
  if (rings.empty()) {
    return {
        {Mark::bad, "recorder", "there is no ring file: no process has recorded anything here",
         "rollcall doctor -- COMMAND looks at the job's program; `rollcall doctor PID` at a job "
         "that runs"}};
  }
  Gathered all;
  for (const std::string& ring : rings) {
    const std::optional<FileHeader> header = read_header(ring);
    examine_ring(ring, header ? static_cast<pid_t>(header->pid) : 0, all);
  }
  return all.remarks();
}

}  // namespace rollcall::tools
