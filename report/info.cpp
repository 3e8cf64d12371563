#include "report/info.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "analysis/views/by_gpu.h"
#include "core/base/check.h"
#include "core/format/file_name.h"
#include "report/json_terms.h"
#include "report/lines.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

namespace fs = std::filesystem;

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

// Calls that were made and are not on file because the recorder could not, or was told not to.
uint64_t dropped(const trace::Process& process) {
  uint64_t sum = 0;
  for (const auto& [name, value] : process.statistics) {
    if (name.rfind("dropped_", 0) == 0) sum += value;
  }
  return sum;
}

struct Gpu {
  int32_t rank;
  int32_t device;
};

// Which ranks a process is: one, or as many as it drives GPUs.
struct ProcessRanks {
  std::vector<int32_t> labels;  // unlike ranks, no two processes share one, and each has some
  std::vector<int32_t> ranks;   // empty: unknown
  std::vector<Gpu> gpus;        // empty where no process of the run drives several

  std::string text() const {
    return ranks.empty() ? fmt::format("({})", rank_list(labels)) : rank_list(ranks);
  }
  std::string devices() const {
    std::vector<int32_t> known;
    for (const Gpu& gpu : gpus) {
      if (gpu.device >= 0) known.push_back(gpu.device);
    }
    return known.empty() ? "-" : rank_list(known);
  }
};

struct RunRanks {
  std::vector<ProcessRanks> of;  // by process
  std::string numbering;         // empty: the environment's ranks
};

// Of a process that is one rank: its GPU, unless it is unknown or changes.
int32_t only_device(const trace::Process& process) {
  int32_t device = -1;
  for (const trace::Comm& comm : process.comms) {
    if (comm.device < 0 || comm.device == device) continue;
    if (device >= 0) return -1;
    device = comm.device;
  }
  return device;
}

RunRanks ranks_of(const trace::Run& whole) {
  const std::optional<analysis::Parts> parts = analysis::take_apart(whole);
  const trace::Run& run = parts ? parts->run : whole;
  const std::vector<int32_t> labels = process_labels(run);
  RunRanks known{std::vector<ProcessRanks>(whole.processes.size()), parts ? parts->numbering : ""};
  for (size_t at = 0; at < run.processes.size(); ++at) {
    const trace::Process& process = run.processes[at];
    ProcessRanks& ranks = known.of[parts ? parts->origin[at] : at];
    ranks.labels.push_back(labels[at]);
    if (process.job_rank >= 0) ranks.ranks.push_back(process.job_rank);
    if (!parts) continue;
    const int32_t device = process.gpu >= 0 ? process.gpu : only_device(process);
    ranks.gpus.push_back({process.job_rank, device});
  }
  return known;
}

// "all" of a value over the processes: the value when they agree, else each value with its ranks.
std::string agreed(const trace::Run& run, const RunRanks& ranks,
                   std::string (*value_of)(const trace::Process&)) {
  std::map<std::string, std::vector<int32_t>> groups;
  for (size_t at = 0; at < run.processes.size(); ++at) {
    std::vector<int32_t>& group = groups[or_unknown(printable(value_of(run.processes[at])))];
    group.insert(group.end(), ranks.of[at].labels.begin(), ranks.of[at].labels.end());
  }
  if (groups.size() == 1) return groups.begin()->first;
  std::string text;
  for (const auto& [value, group] : groups) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", value, ranks_in_words(group));
  }
  return text;
}

std::string nccl_of(const trace::Process& process) {
  const std::string version = nccl_version(meta_of(process, "nccl_version"));
  return version.empty() || meta_of(process, "emulated") != "1" ? version : version + " (emulated)";
}
std::string cuda_of(const trace::Process& process) {
  return cuda_version(meta_of(process, "cuda_runtime_version"));
}
std::string driver_of(const trace::Process& process) {
  return cuda_version(meta_of(process, "cuda_driver_version"));
}
std::string rollcall_of(const trace::Process& process) {
  return meta_of(process, "rollcall_version");
}
std::string clock_of(const trace::Process& process) { return process.clock; }
std::string coverage_text(const trace::Process& process) { return meta_of(process, "coverage"); }

// How the GPU is timed, and the first call in which the driver refused to.
std::string gpu_timing_of(const trace::Process& process) {
  std::string text = meta_of(process, "gpu_timing");
  const auto append = [&](std::string_view words, const char* key) {
    const std::string value = meta_of(process, key);
    if (!value.empty()) text += fmt::format("; {} {}", words, printable(value));
  };
  append("CUPTI", "gpu_cupti");
  append("words written by:", "gpu_words");
  append("refused:", "gpu_fault");
  return text;
}
bool any_gpu_timing(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const trace::Process& process) {
    return !meta_of(process, "gpu_timing").empty();
  });
}

// Functions that the process asked the emulator for and the emulator does not have.
std::vector<std::string> not_emulated(const trace::Process& process) {
  constexpr std::string_view kPrefix = "not_emulated.";
  std::vector<std::string> functions;
  for (auto at = process.meta.lower_bound(std::string(kPrefix)); at != process.meta.end(); ++at) {
    if (at->first.compare(0, kPrefix.size(), kPrefix) != 0) break;
    functions.push_back(at->first.substr(kPrefix.size()));
  }
  return functions;
}
std::string not_emulated_text(const trace::Process& process) {
  const std::vector<std::string> functions = not_emulated(process);
  return functions.empty() ? "nothing" : fmt::format("{}", fmt::join(functions, ", "));
}
bool any_not_emulated(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const trace::Process& process) { return !not_emulated(process).empty(); });
}

void append_header(std::string& out, const trace::Run& run, const RunRanks& ranks,
                   const std::vector<FileSizes>& sizes) {
  std::set<std::string> hosts;
  std::set<std::string> keys;
  FileSizes all;
  int64_t started_ns = 0;
  for (const trace::Process& process : run.processes) {
    hosts.insert(process.host);
    for (const trace::Comm& comm : process.comms) keys.insert(key_hex(comm.key));
    if (process.started_ns > 0 && (started_ns == 0 || process.started_ns < started_ns)) {
      started_ns = process.started_ns;
    }
  }
  for (const FileSizes& size : sizes) {
    all.ring_bytes += size.ring_bytes;
    all.segment_bytes += size.segment_bytes;
    all.segments += size.segments;
  }
  out += fmt::format("run        {}\n", printable(run.directory));
  out += fmt::format("started    {}{}\n", utc_time(started_ns), run.live ? ", still running" : "");
  out += fmt::format("processes  {} on {} {}, {} communicators\n", run.processes.size(),
                     hosts.size(), hosts.size() == 1 ? "host" : "hosts", keys.size());
  if (!ranks.numbering.empty()) out += fmt::format("ranks      {}\n", ranks.numbering);
  out += fmt::format("files      {} of rings, {} of history in {} segments\n",
                     byte_size(all.ring_bytes), byte_size(all.segment_bytes), all.segments);
  out += fmt::format("versions   NCCL {}; CUDA runtime {}; driver {}; rollcall {}\n",
                     agreed(run, ranks, nccl_of), agreed(run, ranks, cuda_of),
                     agreed(run, ranks, driver_of), agreed(run, ranks, rollcall_of));
  out += fmt::format("coverage   {}\n", agreed(run, ranks, coverage_text));
  out += fmt::format("clock      {}\n", agreed(run, ranks, clock_of));
  if (any_gpu_timing(run)) {
    out += fmt::format("GPU times  {}\n", agreed(run, ranks, gpu_timing_of));
  }
  if (any_not_emulated(run)) {
    out += fmt::format("absent     not in the emulator, and asked for: {}\n",
                       agreed(run, ranks, not_emulated_text));
  }
}

// Behind the ranks.
void insert_gpus(std::vector<std::vector<std::string>>& rows, const RunRanks& ranks) {
  rows[0].insert(rows[0].begin() + 1, "GPU");
  for (size_t at = 0; at < ranks.of.size(); ++at) {
    rows[at + 1].insert(rows[at + 1].begin() + 1, ranks.of[at].devices());
  }
}

void append_processes(std::string& out, const trace::Run& run, const RunRanks& ranks) {
  std::vector<std::vector<std::string>> rows{
      {"rank", "host", "pid", "state", "recorded", "on file", "dropped", "lost", "torn"}};
  for (size_t at = 0; at < run.processes.size(); ++at) {
    const trace::Process& process = run.processes[at];
    rows.push_back({ranks.of[at].text(), printable(process.host), fmt::format("{}", process.pid),
                    std::string(trace::name_of(process.liveness)),
                    grouped(process.calls_recorded()), grouped(process.ops.size()),
                    grouped(dropped(process)), grouped(process.lost), grouped(process.torn)});
  }
  if (!ranks.numbering.empty()) insert_gpus(rows, ranks);
  constexpr size_t kNumbers = 5;  // the last columns
  const size_t first_number = rows[0].size() - kNumbers;
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t at = 0; at < row.size(); ++at) widths[at] = std::max(widths[at], row[at].size());
  }
  out += '\n';
  for (const auto& row : rows) {
    for (size_t at = 0; at < row.size(); ++at) {
      // Numbers stand under each other by their last digit.
      out += at >= first_number ? fmt::format("  {:>{}}", row[at], widths[at])
                                : fmt::format("{}{:<{}}", at == 0 ? "" : "  ", row[at], widths[at]);
    }
    out += '\n';
  }
}

// What a recorder counts as missing from its file, or as unknown of what the GPU did.
enum class Loss { none, record, gpu_time };
constexpr Loss loss_of(std::string_view statistic) {
  for (const std::string_view name :
       {"gpu_untimed", "gpu_sampled_out", "graph_unmarked", "graph_table_full", "gpu_unwritten"}) {
    if (statistic == name) return Loss::gpu_time;
  }
  for (const std::string_view name :
       {"history_lost", "history_errors", "history_dropped_files", "late_overflow", "comm_unknown",
        "comm_table_full", "checks_failed", "gpu_records_dropped", "meta_truncated"}) {
    if (statistic == name) return Loss::record;
  }
  return statistic.starts_with("dropped_") ? Loss::record : Loss::none;
}

void append_losses(std::string& out, const trace::Run& run) {
  std::map<std::string, uint64_t> sums;
  for (const trace::Process& process : run.processes) {
    for (const auto& [name, value] : process.statistics) sums[name] += value;
  }
  std::string records;
  std::string gpu_times;
#define ROLLCALL_X(name, meaning)                                                      \
  if (constexpr Loss kLoss = loss_of(#name); kLoss != Loss::none && sums[#name] > 0) { \
    std::string& lines = kLoss == Loss::record ? records : gpu_times;                  \
    lines += fmt::format("  {:>12}  {}\n", grouped(sums[#name]), meaning);             \
  }
  ROLLCALL_STATISTICS(ROLLCALL_X)
#undef ROLLCALL_X
  if (!records.empty()) out += "\nWhat is not on file\n" + records;
  if (!gpu_times.empty()) out += "\nWhat is not known of the GPUs\n" + gpu_times;
}

Json gpus_json(const std::vector<Gpu>& gpus) {
  Json list = Json::array();
  for (const Gpu& gpu : gpus) {
    list.push_back({{"rank", known_or_null(gpu.rank, gpu.rank >= 0)},
                    {"device", known_or_null(gpu.device, gpu.device >= 0)}});
  }
  return list;
}

Json process_json(const trace::Process& process, const ProcessRanks& ranks, const FileSizes& size) {
  Json json;
  json["rank"] = process.job_rank >= 0 ? Json(process.job_rank) : Json(nullptr);
  if (!ranks.gpus.empty()) json["gpus"] = gpus_json(ranks.gpus);
  json["host"] = text_or_null(process.host);
  json["pid"] = process.pid;
  json["file"] = valid_utf8(process.file);
  json["recorder"] = process.recorder;
  json["liveness"] = trace::name_of(process.liveness);
  json["liveness_evidence"] = text_or_null(process.liveness_evidence);
  json["started"] = text_or_null(iso_time(process.started_ns));
  json["heartbeat"] = text_or_null(iso_time(process.heartbeat_ns));
  json["exited"] = text_or_null(iso_time(process.exited_ns));
  json["nccl"] = text_or_null(nccl_version(meta_of(process, "nccl_version")));
  json["cuda"] = text_or_null(cuda_of(process));
  json["driver"] = text_or_null(driver_of(process));
  json["rollcall"] = text_or_null(rollcall_of(process));
  json["emulated"] = meta_of(process, "emulated") == "1";
  json["not_emulated"] = Json::array();
  for (const std::string& name : not_emulated(process))
    json["not_emulated"].push_back(valid_utf8(name));
  json["coverage"] = text_or_null(coverage_text(process));
  for (const char* key : {"gpu_timing", "gpu_cupti", "gpu_words", "gpu_fault"}) {
    json[key] = text_or_null(meta_of(process, key));
  }
  json["clock"] = text_or_null(clock_of(process));
  json["recorded"] = process.calls_recorded();
  json["on_file"] = process.ops.size();
  json["events"] = process.events.size();
  json["dropped"] = dropped(process);
  json["lost"] = process.lost;
  json["torn"] = process.torn;
  json["ring_bytes"] = size.ring_bytes;
  json["segment_bytes"] = size.segment_bytes;
  json["segments"] = size.segments;
  json["statistics"] = process.statistics;
  return json;
}

}  // namespace

std::vector<FileSizes> file_sizes(const trace::Run& run) {
  // One listing per folder: ten thousand processes share one.
  std::map<std::string, std::map<std::string, FileSizes>> folders;
  std::vector<FileSizes> sizes;
  for (const trace::Process& process : run.processes) {
    const fs::path path(process.file);
    const std::string folder = path.parent_path().string();
    const auto [found, is_new] = folders.try_emplace(folder);
    std::error_code failure;
    const fs::path listed = folder.empty() ? fs::path(".") : path.parent_path();
    for (fs::directory_iterator at(listed, failure), end; is_new && !failure && at != end;
         at.increment(failure)) {
      const std::string name = at->path().filename().string();
      SegmentName segment;
      std::error_code ignored;
      if (!parse_segment_name(name, segment)) continue;
      const uint64_t bytes = at->file_size(ignored);
      if (ignored) continue;
      FileSizes& size = found->second[std::string(segment.stem)];
      size.segment_bytes += bytes;
      ++size.segments;
    }
    FileSizes size = found->second[path.stem().string()];
    const uint64_t ring_bytes = fs::file_size(path, failure);
    size.ring_bytes = failure ? 0 : ring_bytes;
    sizes.push_back(size);
  }
  return sizes;
}

std::string info_text(const trace::Run& run, const std::vector<FileSizes>& sizes) {
  ROLLCALL_CHECK(sizes.size() == run.processes.size());
  std::string out;
  const RunRanks ranks = ranks_of(run);
  append_header(out, run, ranks, sizes);
  append_processes(out, run, ranks);
  append_losses(out, run);
  if (!run.issues.empty()) out += "\nAbout the files\n";
  for (const SharedIssue& shared : issues_to_name(run)) {
    out += fmt::format("  {}\n", issue_line(shared));
  }
  return out;
}

std::string info_json(const trace::Run& run, const std::vector<FileSizes>& sizes) {
  ROLLCALL_CHECK(sizes.size() == run.processes.size());
  Json json;
  json["schema"] = "rollcall.info/1";
  json["dir"] = valid_utf8(run.directory);
  json["live"] = run.live;
  const RunRanks ranks = ranks_of(run);
  if (!ranks.numbering.empty()) json["ranks_are"] = ranks.numbering;
  json["processes"] = Json::array();
  for (size_t at = 0; at < run.processes.size(); ++at) {
    json["processes"].push_back(process_json(run.processes[at], ranks.of[at], sizes[at]));
  }
  json["issues"] = issues_json(run);
  return json.dump(2) + "\n";
}

}  // namespace rollcall::report
