#include "tools/kineto_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "report/terms.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "trace/saturated.h"

namespace rollcall::tools {
namespace {

std::vector<std::string> paths_at(const std::string& path, std::string& error) {
  std::error_code failure;
  if (!std::filesystem::is_directory(path, failure)) return {path};
  const OpenDirectory directory(path);
  if (directory.error() != 0) {
    error = fmt::format("--merge: {} cannot be read: {}", path, std::strerror(directory.error()));
    return {};
  }
  std::vector<std::string> paths;
  for (const std::string& name : directory.file_names()) {
    paths.push_back((std::filesystem::path(path) / name).string());
  }
  return paths;
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void say_joins(const std::vector<KinetoFile>& files, std::vector<std::string>& sentences) {
  uint64_t records = 0;
  uint64_t joined = 0;
  uint64_t by_time = 0;
  std::map<std::string, uint64_t> left_out;
  for (const KinetoFile& file : files) {
    if (!file.process) continue;
    records += file.join.records;
    uint32_t before = UINT32_MAX;
    for (const comparison::JoinedCall& call : file.join.calls) {
      if (std::exchange(before, call.record) == call.record) continue;
      ++joined;
      by_time += call.by_number ? 0 : 1;
    }
    for (const auto& [reason, count] : file.join.left_out) left_out[reason] += count;
  }
  std::string text =
      fmt::format("{} of {} records of PyTorch's profiler are joined with their calls",
                  report::grouped(joined), report::grouped(records));
  if (by_time != 0) text += fmt::format(", {} of these by time alone", report::grouped(by_time));
  sentences.push_back(text);
  for (const auto& [reason, count] : left_out) {
    sentences.push_back(fmt::format("not joined: {} {}, {}", report::grouped(count),
                                    count == 1 ? "record" : "records", reason));
  }
}

void say_clocks(const std::vector<KinetoFile>& files, const trace::Run& run,
                std::vector<std::string>& sentences) {
  int64_t bound_ns = -1;
  int64_t hosts_ns = -1;
  std::map<std::string, bool> unbound;  // hosts
  std::map<std::string, bool> hosts;
  for (const KinetoFile& file : files) {
    if (!file.process) continue;
    const trace::Process& process = run.processes[*file.process];
    hosts[process.host] = true;
    if (process.clock_bound_ns < 0) unbound[process.host] = true;
    hosts_ns = std::max(hosts_ns, process.clock_bound_ns);
    bound_ns = std::max(bound_ns, file.join.bound_ns);
    if (file.join.bound_ns >= 0) continue;
    sentences.push_back(fmt::format("{}: no call proves its clock; its times are taken as they are",
                                    report::printable(name_of(file.path))));
  }
  if (bound_ns >= 0) {
    sentences.push_back(
        fmt::format("on a host the clocks of both agree {}, as the calls prove", within(bound_ns)));
  }
  if (hosts.size() < 2) return;
  if (hosts_ns >= 0) {
    sentences.push_back(
        fmt::format("the clocks of hosts agree {}, as the communicators prove that they share",
                    within(hosts_ns)));
  }
  for (const auto& [host, is_unbound] : unbound) {
    sentences.push_back(fmt::format("nothing proves the clock of {}", report::printable(host)));
  }
}

}  // namespace

std::string within(int64_t bound_ns) {
  constexpr int64_t kMs = 1'000'000;
  const bool is_short = bound_ns < kMs;
  const int64_t unit_ns = is_short ? 1000 : kMs;
  return fmt::format("within {} {}",
                     report::grouped(static_cast<uint64_t>((bound_ns + unit_ns - 1) / unit_ns)),
                     is_short ? "us" : "ms");
}

std::string title_of(const KinetoFile& file, size_t number) {
  std::string name = file.trace.rank >= 0 ? fmt::format("PyTorch, rank {}", file.trace.rank)
                                          : fmt::format("PyTorch, file {}", number);
  if (!file.trace.host.empty()) name += fmt::format(" ({})", report::printable(file.trace.host));
  return name;
}

bool KinetoFiles::read(const std::string& path, std::string& error) {
  const Progress progress(fmt::format("reading {}", path));
  for (const std::string& one : paths_at(path, error)) {
    std::optional<trace::KinetoTrace> trace = trace::read_kineto_file(one);
    if (trace) files_.push_back({one, std::move(*trace)});
  }
  if (error.empty() && files_.empty()) {
    error = fmt::format(
        "--merge: there is no trace of PyTorch's profiler in {}; name the directory into which "
        "tensorboard_trace_handler() or export_chrome_trace() wrote",
        path);
  }
  return error.empty();
}

void KinetoFiles::assign(const trace::Run& run) {
  const std::vector<int32_t> labels = report::process_labels(run);
  for (KinetoFile& file : files_) {
    const int64_t pid = file.trace.calls.empty() ? -1 : file.trace.calls.front().pid;
    for (uint32_t at = 0; at < run.processes.size(); ++at) {
      const trace::Process& process = run.processes[at];
      if (process.superseded || process.is_foreign()) continue;
      const bool is_rank = file.trace.rank >= 0 && labels[at] == file.trace.rank;
      const bool is_pid = file.trace.rank < 0 && process.pid == pid &&
                          (file.trace.host.empty() || file.trace.host == process.host);
      if (is_rank || is_pid) file.process = at;
    }
  }
}

bool KinetoFiles::keep_those_of(const std::vector<uint32_t>& processes) {
  std::erase_if(files_, [&](const KinetoFile& file) {
    return !file.process ||
           std::find(processes.begin(), processes.end(), *file.process) == processes.end();
  });
  return !files_.empty();
}

std::vector<uint32_t> KinetoFiles::processes() const {
  std::vector<uint32_t> all;
  for (const KinetoFile& file : files_) {
    if (file.process) all.push_back(*file.process);
  }
  return all;
}

std::map<uint64_t, report::KinetoName> KinetoFiles::names_of(uint32_t process,
                                                             const trace::Process& whole) {
  std::map<uint64_t, report::KinetoName> names;
  for (KinetoFile& file : files_) {
    if (file.process != process) continue;
    file.join = comparison::join_kineto(file.trace, whole);
    for (const comparison::JoinedCall& call : file.join.calls) {
      const trace::KinetoRecord& record = file.trace.calls[call.record];
      names[call.ticket] = {record.external, record.seq};
    }
  }
  return names;
}

std::vector<std::string> KinetoFiles::sentences(const trace::Run& run) const {
  std::vector<std::string> sentences;
  say_joins(files_, sentences);
  for (const KinetoFile& file : files_) {
    const std::string name = report::printable(name_of(file.path));
    const std::string& trouble =
        file.trace.trouble.empty() ? file.losses.trouble : file.trace.trouble;
    if (!trouble.empty()) {
      // Such as NaN, which Python writes.
      const bool is_in_part = file.losses.trouble.starts_with("is no JSON");
      sentences.push_back(fmt::format("{}: {}{}", name, report::printable(trouble),
                                      is_in_part ? "; the trace has what is in front of it, an "
                                                   "archive (-o run.zip) has the whole file"
                                                 : ""));
    }
    if (file.losses.arguments != 0) {
      sentences.push_back(fmt::format("{}: left out {} arguments of events that have more than {}",
                                      name, report::grouped(file.losses.arguments),
                                      report::perfetto::kKinetoArgumentsMax));
    }
    for (const auto& [reason, count] : file.losses.left_out) {
      sentences.push_back(fmt::format("{}: left out {} {} {}", name, report::grouped(count),
                                      count == 1 ? "event" : "events", report::printable(reason)));
    }
    if (file.process) continue;
    sentences.push_back(fmt::format(
        "{}: there is no recording of its process; it is merged by its own clock", name));
  }
  say_clocks(files_, run, sentences);
  return sentences;
}

int64_t offset_of(const KinetoFile& file, const trace::Run& run) {
  const int64_t moved_ns = file.process ? run.processes[*file.process].clock_moved_ns : 0;
  return trace::saturated_sum(trace::saturated_sum(file.trace.base_ns, moved_ns),
                              file.join.offset_ns);
}

}  // namespace rollcall::tools
