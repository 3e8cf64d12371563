#include "trace/loader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>

#include "core/format/file_name.h"
#include "trace/attempts.h"
#include "trace/clocks.h"
#include "trace/equal_calls.h"
#include "trace/equal_prefix.h"
#include "trace/grown.h"
#include "trace/import/importer.h"
#include "trace/import/rotated_log.h"
#include "trace/import/torch_names.h"
#include "trace/job_end.h"
#include "trace/listing.h"
#include "trace/live_ring.h"
#include "trace/liveness.h"
#include "trace/parcel.h"
#include "trace/process_builder.h"
#include "trace/ring_reader.h"
#include "trace/segment_reader.h"
#include "trace/shared_identifiers.h"
#include "trace/workers.h"

namespace rollcall::trace {
namespace {

constexpr int64_t kHeartbeatFreshNs = 5'000'000'000;

// What one file, or one ring with its segments, gave.
struct Reading {
  std::vector<Process> processes;
  std::vector<JobLog> logs;
  std::vector<Issue> issues;
  bool is_foreign = false;  // another recorder's, usable or not
  std::string kind;         // of a file that is none
};

template <class Io>
void transfer(Io& io, Reading& reading) {
  auto& [processes, logs, issues, is_foreign, kind] = reading;
  transfer_all(io, processes, logs, issues, is_foreign, kind);
}

void append(std::vector<Reading>& readings, Run& run) {
  for (Reading& reading : readings) {
    std::move(reading.processes.begin(), reading.processes.end(),
              std::back_inserter(run.processes));
    std::move(reading.logs.begin(), reading.logs.end(), std::back_inserter(run.logs));
    std::move(reading.issues.begin(), reading.issues.end(), std::back_inserter(run.issues));
  }
}

// How many mebibytes of how many have been read, for who waits.
class BytesRead {
 public:
  BytesRead(const std::vector<std::string>& paths, const LoadOptions& options)
      : tell_(options.on_progress) {
    for (const std::string& path : paths) {
      struct stat status {};
      if (::stat(path.c_str(), &status) == 0) all_ += static_cast<uint64_t>(status.st_size);
    }
  }
  void add(uint64_t bytes) {
    const uint64_t done = done_ += bytes;
    if (tell_ && all_ >> 20 != 0) tell_(done >> 20, all_ >> 20);
  }

 private:
  std::function<void(uint64_t, uint64_t)> tell_;
  std::atomic<uint64_t> done_{0};
  uint64_t all_ = 0;
};

std::string shown(const std::string& path) {
  return path == kStandardInput ? "standard input" : path;
}

// A file that somebody named; it may be a pipe, or "-" for standard input.
ImportedFile import_named(const std::string& path, Reading& reading, const OnBytes& on_bytes) {
  struct stat status {};
  const bool is_input = path == kStandardInput;
  const bool is_pipe = !is_input && ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
  if (!is_input && !is_pipe) {
    return import_file(path, reading.processes, reading.issues, on_bytes, &reading.logs,
                       LoggedAs::packed);
  }
  const int descriptor = is_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    reading.issues.push_back(
        {path, fmt::format("cannot be read: {}", std::strerror(errno)), 0, true});
    return {.kind = {}, .is_known = true};
  }
  return import_stream(shown(path),
                       std::make_unique<DescriptorStream>(descriptor, !is_input, on_bytes),
                       reading.processes, reading.issues, &reading.logs, LoggedAs::packed);
}

// A file, or a log that was rotated with its older parts.
ImportedFile import_log(const std::vector<std::string>& parts, bool is_named, Reading& reading,
                        const OnBytes& on_bytes) {
  if (parts.size() > 1) {
    return import_rotated(parts, reading.processes, reading.issues, on_bytes, &reading.logs,
                          LoggedAs::packed);
  }
  if (is_named) return import_named(parts[0], reading, on_bytes);
  return import_file(parts[0], reading.processes, reading.issues, on_bytes, &reading.logs,
                     LoggedAs::packed);
}

// Parts of rotated logs with their newest; by names, where these are texts
// whose times agree.
std::vector<std::vector<std::string>> gathered(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> logs;
  for (std::vector<std::string>& log : gather_rotated(paths)) {
    if (log.size() == 1 || (are_texts(log) && follow_in_time(log))) {
      logs.push_back(std::move(log));
    } else {
      for (std::string& path : log) logs.push_back({std::move(path)});
    }
  }
  return logs;
}

// Files that lie about in a directory and hold nothing for us are no news beside recordings of
// ours. Beside others' they may be what somebody meant to hand over.
void mention_others(const std::vector<Reading>& readings,
                    const std::vector<std::vector<std::string>>& files, Run& run) {
  constexpr size_t kNamed = 4;
  std::map<std::string, std::vector<std::string>> by_kind;
  for (size_t i = 0; i < readings.size(); ++i) {
    if (readings[i].is_foreign || readings[i].kind.empty()) continue;
    const std::string& path = files[i].back();
    // Of a rank, which somebody may wait for: that is evidence.
    if (readings[i].kind == "empty" && rank_in_file_name(path) >= 0) {
      run.issues.push_back(
          {path, "is empty: cut off while it was written, or the rank was killed", 0, true});
      continue;
    }
    by_kind[readings[i].kind].push_back(path.substr(path.rfind('/') + 1));
  }
  for (const auto& [kind, names] : by_kind) {
    const size_t shown = std::min(names.size(), kNamed);
    std::string list = names[0];
    for (size_t i = 1; i < shown; ++i) list += ", " + names[i];
    if (names.size() > shown) list += fmt::format(" and {} more", names.size() - shown);
    run.issues.push_back({run.directory,
                          fmt::format("{} {}: nothing was read from {}", list,
                                      names.size() == 1 ? fmt::format("is {}", kind)
                                                        : fmt::format("are each {}", kind),
                                      names.size() == 1 ? "it" : "them"),
                          0, false});
  }
}

// `gzip -k` leaves a log beside what it packed of it: of both one is read.
std::vector<std::string> without_copies(const std::vector<std::string>& paths, Run& run) {
  const std::set<std::string> names(paths.begin(), paths.end());
  std::vector<std::string> kept;
  for (const std::string& path : paths) {
    const size_t dot = path.rfind('.');
    const bool is_packed = path.ends_with(".gz") || path.ends_with(".zst") || path.ends_with(".xz");
    if (!is_packed || names.count(path.substr(0, dot)) == 0) {
      kept.push_back(path);
      continue;
    }
    run.issues.push_back(
        {path, "was not read, for it lies beside the file that it was packed from", 0, false});
  }
  return kept;
}

// What one file says of the calls of its processes.
using FileMarks = std::vector<CallMarks>;

// Everybody has all of them afterwards.
template <class T>
void share_out(Team* team, std::vector<T>& values) {
  bring_together(team, values);
  hand_out(team, values);
}

// By file: what of each process is unpacked. Empty: all is.
std::vector<std::vector<WantedCalls>> plan_unpacking(const std::vector<Reading>& readings,
                                                     const LoadOptions& options, Run& run) {
  if (options.records_max == 0 || options.window != 0) return {};
  const Share share = my_share(readings.size(), options.team);
  std::vector<uint64_t> calls(readings.size(), 0);
  for (size_t i = share.begin; i < share.end; ++i) calls[i] = packed_calls(readings[i].processes);
  share_out(options.team, calls);
  const uint64_t all = std::accumulate(calls.begin(), calls.end(), uint64_t{0});
  if (all <= options.records_max) return {};
  std::vector<FileMarks> marks(readings.size());
  for_each_in(share, worker_count(options.threads, options.team), [&](size_t i) {
    for (const Process& process : readings[i].processes) marks[i].push_back(mark_calls(process));
  });
  share_out(options.team, marks);
  std::vector<CallMarks> of_all;
  for (FileMarks& one : marks) std::move(one.begin(), one.end(), std::back_inserter(of_all));
  CallPlan planned = plan_calls(of_all, options.records_max);
  std::vector<WantedCalls>& wanted = planned.wanted;
  std::vector<std::vector<WantedCalls>> plan;
  auto next = wanted.begin();
  for (const FileMarks& one : marks) {
    const auto end = next + static_cast<std::ptrdiff_t>(one.size());
    plan.emplace_back(std::make_move_iterator(next), std::make_move_iterator(end));
    next = end;
  }
  uint64_t left_out = 0;
  for (size_t i = 0, p = 0; i < plan.size(); ++i) {
    for (const WantedCalls& one : plan[i]) left_out += calls_left_out(one, of_all[p++]);
  }
  run.issues.push_back(
      {.file = run.directory,
       .text = fmt::format(
           "{} of {} {}, for they are the same on all ranks{}; "
           "--window 0 keeps every call",
           left_out, all, kReadAndLeftOut,
           planned.leaves_out_places ? ", but for some behind the first that differ" : "")});
  return plan;
}

void unpack_readings(const LoadOptions& options, std::vector<Reading>& readings, Run& run) {
  const std::vector<std::vector<WantedCalls>> plan = plan_unpacking(readings, options, run);
  for (size_t i = 0; i < readings.size(); ++i) {
    for (size_t p = 0; p < readings[i].processes.size(); ++p) {
      Process& process = readings[i].processes[p];
      if (plan.empty()) {
        unpack_all_calls(process);
      } else {
        unpack_calls(plan[i][p], process);
      }
    }
  }
}

// `is_named`: somebody named these very files. True when one of them is another recorder's, usable
// or not.
bool load_foreign(const std::vector<std::string>& all_paths, bool is_named,
                  const LoadOptions& options, Run& run) {
  const std::vector<std::string> paths = without_copies(all_paths, run);
  const std::vector<std::vector<std::string>> files = gathered(paths);
  std::vector<Reading> readings(files.size());
  BytesRead bytes_read(paths, options);
  const auto on_bytes = [&bytes_read](uint64_t bytes) { bytes_read.add(bytes); };
  for_each_in(my_share(files.size(), options.team), worker_count(options.threads, options.team),
              [&](size_t i) {
                Reading& reading = readings[i];
                const ImportedFile imported = import_log(files[i], is_named, reading, on_bytes);
                reading.is_foreign = imported.is_known;
                reading.kind = imported.kind.name;
                if (imported.is_known || !is_named || !reading.issues.empty()) return;
                reading.issues.push_back({shown(files[i].back()), why_nothing(imported), 0, true});
              });
  unpack_readings(options, readings, run);
  bring_together(options.team, readings);
  bool has_foreign = std::any_of(readings.begin(), readings.end(),
                                 [](const Reading& reading) { return reading.is_foreign; });
  if (has_foreign && !is_named) mention_others(readings, files, run);
  if (!is_named) std::erase_if(readings, [](const Reading& one) { return !one.is_foreign; });
  if (readings.size() > options.files_max) readings.resize(options.files_max);
  append(readings, run);
  hand_out(options.team, has_foreign);
  return has_foreign;
}

int64_t now_ns() {
  using std::chrono::duration_cast;
  return duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Empty ranges want everything.
bool is_wanted(const std::vector<TicketRange>& wanted, uint64_t ticket) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const TicketRange& range) {
           return ticket >= range.begin && ticket < range.end;
         });
}

using SegmentFiles = std::vector<std::pair<uint32_t, std::string>>;

void read_files(const SegmentFiles& files, const FileHeader& header, const SegmentSink& sink,
                ProcessBuilder& builder, std::vector<Issue>& issues) {
  const auto belongs = [&](const SegmentHeader& segment) {
    return segment.pid == header.pid && segment.start_time_ticks == header.start_time_ticks &&
           segment.run_id == header.run_id;
  };
  for (const auto& [index, path] : files) {
    const FileSource source(path);
    if (source.error() != 0) {
      // The recorder removes old segments to keep its bound, also while we look.
      if (source.error() == ENOENT) continue;
      issues.push_back({.file = path,
                        .text = fmt::format("cannot be read ({}); its history is missing",
                                            std::strerror(source.error())),
                        .lost = 0,
                        .unusable = true});
      continue;
    }
    builder.allow_file(source.stored_bytes());
    bool is_ours = true;
    const auto accept = [&](const SegmentHeader& segment) { return is_ours = belongs(segment); };
    read_segment(source, path, accept, sink, issues);
    if (!is_ours) {
      issues.push_back({.file = path,
                        .text = "the segment belongs to another process than the ring of the same "
                                "name, and was left out; files of two runs were mixed",
                        .lost = 0,
                        .unusable = true});
    }
  }
}

void read_segments(const FileGroup& group, const FileHeader& header, uint64_t window,
                   const std::vector<TicketRange>& wanted, bool only_check, ProcessBuilder& builder,
                   std::vector<Issue>& issues) {
  SegmentSink sink;
  if (!only_check) {
    sink.op = [&](const OpRecord& record) {
      if (is_wanted(wanted, ticket_of(record.publish))) builder.add_from_segment(record);
    };
  }
  sink.digest = [&](const DigestRecord& record) { builder.add_digest(record); };
  if (!wanted.empty()) sink.first_ticket_wanted = wanted.front().begin;
  // Operations in flight may be older than the window; they are in the ring, not here.
  if (window != 0 && header.next_ticket > window) {
    sink.first_ticket_wanted = header.next_ticket - window;
  }
  if (window != 0) builder.limit_to_newest(window);
  read_files(group.segments, header, sink, builder, issues);
  SegmentSink captured;
  captured.op = [&](const OpRecord& record) { builder.add_captured(record); };
  read_files(group.captured, header, captured, builder, issues);
}

// What a plan leaves out of a ring; an operation in flight is worth more than its age, and a
// captured one may be of a graph that is replayed.
void drop_unwanted(const std::vector<TicketRange>& wanted, RingImage& image,
                   ProcessBuilder& builder) {
  std::erase_if(image.ops, [&](const OpRecord& record) {
    const bool goes_on = record.kind == OpKind::GraphLaunch && awaits_gpu(record);
    const bool is_dropped =
        record.returned_ticks != 0 && !goes_on && !is_wanted(wanted, ticket_of(record.publish));
    if (is_dropped) builder.add_captured(record);
    return is_dropped;
  });
}

// Beside the newest operations there is room for as many captured ones.
BuildLimits limits_of(const LoadOptions& options, const std::vector<TicketRange>& wanted,
                      const FileHeader& header) {
  BuildLimits limits{.window = options.window};
  if (options.window != 0) limits.captured_max = options.window;
  if (wanted.empty()) return limits;
  const uint64_t newest = wanted.back().begin;
  limits.captured_max = header.next_ticket - std::min(header.next_ticket, newest);
  return limits;
}

// What was not read is not lost.
void set_skipped(const LoadOptions& options, const std::vector<TicketRange>& wanted,
                 Process& process) {
  // The number of calls comes from a file: what is allocated by it is bounded.
  constexpr uint64_t kSkippedMax = 1u << 22;
  if (wanted.empty() && options.window == 0) return;
  const uint64_t calls = process.next_ticket - 1;
  process.skipped = std::min(calls - std::min<uint64_t>(calls, process.ops.size()), kSkippedMax);
  const uint64_t in_front = calls - std::min(calls, options.window);
  process.lost -= std::min(process.lost, wanted.empty() ? in_front : process.skipped);
}

std::string why_unreadable(int error) {
  // What FileSource says of a pipe, a device and a directory.
  if (error == EINVAL || error == EISDIR) {
    return "is not a regular file, as recordings are; remove it or rename it";
  }
  return fmt::format("cannot be read: {}; check its owner and permissions (recordings are 0600)",
                     std::strerror(error));
}

// A destructor that ran behind ours called NCCL, and is still in that call.
bool is_inside_behind_exit(const Process& process) {
  const auto is_inside = [&](const auto& call, bool inside) {
    return inside && call.called_ns > process.exited_ns;
  };
  return process.exited_ns != 0 &&
         (std::any_of(process.ops.begin(), process.ops.end(),
                      [&](const Op& op) { return is_inside(op, op.returned_ns == 0); }) ||
          std::any_of(process.events.begin(), process.events.end(),
                      [&](const Event& event) { return is_inside(event, event.is_inside()); }));
}

// Such a process has not ended, if the kernel still has it.
void look_behind_exit(const FileHeader& header, int descriptor, Process& process) {
  if (process.liveness != Liveness::exited || !is_inside_behind_exit(process)) return;
  LivenessAnswer answer = probe_behind_exit(header, descriptor);
  const bool lives = answer.liveness == Liveness::running || answer.liveness == Liveness::stopped;
  if (!lives) return;
  process.exited_ns = 0;
  process.liveness = answer.liveness;
  process.liveness_evidence = std::move(answer.evidence) + ", inside NCCL at its exit";
}

// The ring itself where it can be read, else the copy that the run directory holds of it.
std::unique_ptr<FileSource> open_ring(const std::string& path, const LiveRing& live) {
  if (!live.path.empty()) {
    auto source = std::make_unique<FileSource>(live.path);
    if (source->error() == 0) return source;
  }
  return std::make_unique<FileSource>(path);
}

// What a process that did not end by itself did after the last copy is not in it.
void complain_about_copy(const std::string& path, const LiveRing& live, const FileHeader& header,
                         std::vector<Issue>& issues) {
  if (header.exit_state == static_cast<uint32_t>(ExitState::exited)) return;
  const auto copied_ns = static_cast<int64_t>(conversion_of(header).realtime_ns(live.copied_ticks));
  const double age_s = static_cast<double>(now_ns() - copied_ns) / 1e9;
  issues.push_back(
      {.file = path,
       .text = fmt::format("this is a copy, last brought up to date {:.1f} s ago, of a ring that "
                           "its process keeps on {}; later calls are not in it: look at the run "
                           "there, as the job's user, for the newest",
                           std::max(age_s, 0.0), std::string(padded_view(header.host)))});
}

void complain_about_records(const std::string& ring, const LoadOptions& options,
                            const ProcessBuilder& builder, std::vector<Issue>& issues) {
  if (builder.unbelievable() != 0) {
    issues.push_back({.file = ring,
                      .text = fmt::format("{} records of its history hold values that no recorder "
                                          "writes and were left out; somebody wrote into the "
                                          "segments, or a newer Rollcall did",
                                          builder.unbelievable()),
                      .lost = builder.unbelievable()});
  }
  if (builder.left_out() != 0 && options.window == 0) {
    issues.push_back({.file = ring,
                      .text = fmt::format("its segments hold {} records more than any recording of "
                                          "their size does; the newest were read",
                                          builder.left_out()),
                      .lost = builder.left_out()});
  }
}

Process load_group(const FileGroup& group, const LoadOptions& options,
                   const std::vector<TicketRange>& wanted, const std::vector<PrefixDigest>& ends,
                   std::vector<Issue>& issues) {
  const LiveRing live = options.probe_processes ? find_live_ring(group.ring) : LiveRing{};
  const std::unique_ptr<FileSource> opened = open_ring(group.ring, live);
  const FileSource& source = *opened;
  if (source.error() != 0) {
    issues.push_back(
        {.file = group.ring, .text = why_unreadable(source.error()), .lost = 0, .unusable = true});
    return {};
  }
  FileHeader header{};
  std::vector<Issue> header_issues;
  if (!read_ring_header(source, group.ring, header, header_issues)) {
    issues.insert(issues.end(), header_issues.begin(), header_issues.end());
    return {};
  }
  if (live.is_copy && live.path.empty()) complain_about_copy(group.ring, live, header, issues);
  LivenessAnswer answer;
  if (options.probe_processes) {
    answer = probe_liveness(header, source.descriptor());
  } else if (header.exit_state == static_cast<uint32_t>(ExitState::exited)) {
    answer = {Liveness::exited, "it left an exit record"};
  }
  const bool writer_may_live = options.probe_processes && answer.liveness != Liveness::dead;
  RingImage image;
  if (!read_ring(source, group.ring, writer_may_live, image, issues)) return {};
  ProcessBuilder builder(group.ring, image);
  if (!wanted.empty()) drop_unwanted(wanted, image, builder);
  if (options.segments) {
    const bool ring_suffices = !wanted.empty() && holds_all_from(image, wanted.front().begin);
    read_segments(group, image.header, options.window, wanted, ring_suffices, builder, issues);
  }
  for (size_t comm = 0; comm < ends.size(); ++comm) builder.add_digest(comm, ends[comm]);
  complain_about_records(group.ring, options, builder, issues);
  Process process = builder.finish(limits_of(options, wanted, image.header));
  set_skipped(options, wanted, process);
  process.liveness = answer.liveness;
  process.liveness_evidence = std::move(answer.evidence);
  if (options.probe_processes) look_behind_exit(header, source.descriptor(), process);
  return process;
}

void sort_processes(std::vector<Process>& processes) {
  std::stable_sort(processes.begin(), processes.end(), [](const Process& a, const Process& b) {
    const auto key = [](const Process& p) {
      return std::make_tuple(p.job_rank < 0, p.job_rank, std::cref(p.host), p.started_ns, p.pid);
    };
    return key(a) < key(b);
  });
}

ReadingPlan make_plan(const std::vector<const FileGroup*>& groups, const LoadOptions& options,
                      unsigned threads, Run& run) {
  if (options.records_max == 0 || options.window != 0 || !options.segments) return {};
  std::vector<RingFiles> rings;
  for (const FileGroup* group : groups) {
    RingFiles& files = rings.emplace_back(RingFiles{group->ring, {}});
    for (const auto& [index, path] : group->segments) files.segments.push_back(path);
  }
  ReadingPlan plan = plan_reading(rings, options.records_max, threads, options.team);
  if (plan.skipped != 0) {
    run.issues.push_back({.file = run.directory,
                          .text = fmt::format("{} of {} {}, for what differs between ranks is "
                                              "among the others; --window 0 reads every call",
                                              plan.skipped, plan.calls, kLeftOnDisk)});
  }
  return plan;
}

// Reads the groups with a few threads; results keep the order of the names, so that the same
// directory gives the same run.
void load_groups(const std::vector<const FileGroup*>& groups, const LoadOptions& options,
                 Run& run) {
  const unsigned threads = worker_count(options.threads, options.team);
  const ReadingPlan plan = make_plan(groups, options, threads, run);
  const std::vector<TicketRange> everything;
  const std::vector<PrefixDigest> none;
  std::vector<Reading> readings(groups.size());
  const Share share = my_share(groups.size(), options.team);
  std::atomic<size_t> done{0};
  for_each_in(share, threads, [&](size_t i) {
    const bool is_planned = !plan.wanted.empty();
    Process process = load_group(*groups[i], options, is_planned ? plan.wanted[i] : everything,
                                 is_planned ? plan.ends[i] : none, readings[i].issues);
    if (!process.file.empty()) readings[i].processes.push_back(std::move(process));
    if (options.on_progress) options.on_progress(++done, share.end - share.begin);
  });
  bring_together(options.team, readings);
  append(readings, run);
}

void refuse(Run& run, std::string text) {
  run.issues.push_back(
      {.file = run.directory, .text = std::move(text), .lost = 0, .unusable = true});
}

void complain_about_segments(const Listing& listing, Run& run) {
  for (const auto& [stem, group] : listing.groups) {
    if (!group.ring.empty()) continue;
    const SegmentFiles& files = group.segments.empty() ? group.captured : group.segments;
    run.issues.push_back({.file = files.front().second,
                          .text = fmt::format("the ring file {}.ring is missing, and {} segments "
                                              "cannot be read without it; copy it as well",
                                              stem, files.size()),
                          .lost = 0,
                          .unusable = true});
  }
}

// What stands at the paths that somebody named, as the process of rank 0 sees it.
struct Place {
  std::string refusal;             // not empty: there is nothing to read
  std::vector<std::string> named;  // files that are no rings, and standard input
  bool has_directory = false;
  Listing listing;
};

template <class Io>
void transfer(Io& io, Place& place) {
  auto& [refusal, named, has_directory, listing] = place;
  transfer_all(io, refusal, named, has_directory, listing);
}

// By its name, or by its first bytes.
bool is_ring(const std::string& path) {
  if (path.ends_with(kRingEnding)) return true;
  const FileSource file(path);
  uint64_t magic = 0;
  return file.error() == 0 && file.read(0, &magic, sizeof magic) == sizeof magic &&
         magic == kRingMagic;
}

// A ring that somebody named, and the segments beside it.
FileGroup group_of(const std::string& path) {
  FileGroup group;
  group.ring = path;
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  std::string_view stem;
  Listing listing;
  if (!parse_ring_name(name, stem) || !list_directory(directory, listing)) return group;
  const auto found = listing.groups.find(directory + "/" + std::string(stem));
  if (found == listing.groups.end()) return group;
  group.segments = found->second.segments;
  group.captured = found->second.captured;
  std::sort(group.segments.begin(), group.segments.end());
  std::sort(group.captured.begin(), group.captured.end());
  return group;
}

void look_at(const std::string& path, bool with_segments, Place& place) {
  struct stat status {};
  if (path == kStandardInput) return place.named.push_back(path);
  if (::stat(path.c_str(), &status) != 0) {
    place.refusal = fmt::format(
        "there is no such directory or file: {} ({}); name the directory that `rollcall run -d` "
        "or ROLLCALL_DIR named, or a log of the job",
        path, std::strerror(errno));
  } else if (!S_ISDIR(status.st_mode)) {
    if (!is_ring(path)) return place.named.push_back(path);
    place.listing.groups[path] = group_of(path);
    if (!with_segments) place.listing.groups[path] = FileGroup{path, {}, {}};
  } else {
    place.has_directory = true;
    if (list_run(path, place.listing)) return;
    place.refusal = fmt::format(
        "the directory {} cannot be read: {}; run directories belong to the user who ran the job",
        path, std::strerror(errno));
  }
}

void load_place(const Place& place, const LoadOptions& options, Run& run) {
  const Listing& listing = place.listing;
  std::vector<const FileGroup*> groups;
  for (const auto& [stem, group] : listing.groups) {
    if (!group.ring.empty() && groups.size() < options.files_max) groups.push_back(&group);
  }
  // A watcher of a job of ours reads the rings only.
  const bool want_foreign = options.segments || listing.groups.empty();
  bool has_foreign = want_foreign && load_foreign(listing.others, false, options, run);
  if (!place.named.empty()) {
    load_foreign(place.named, true, options, run);
    has_foreign = true;  // or it has been said what they are
  }
  if (listing.groups.empty() && !has_foreign) {
    refuse(run,
           "the directory holds no recording (*.ring) and nothing else that is read; was the job "
           "started under `rollcall run`, or with LD_PRELOAD=librollcall.so and this ROLLCALL_DIR, "
           "and did it call NCCL?");
    return;
  }
  complain_about_segments(listing, run);
  load_groups(groups, options, run);
  if (is_root(options.team)) run.ends = read_job_ends(listing.ends, run.issues);
}

}  // namespace

void find_live(Run& run) {
  run.live = false;
  for (const Process& process : run.processes) {
    if (process.superseded) continue;
    const bool beats = process.liveness == Liveness::unknown && process.exited_ns == 0 &&
                       run.read_at_ns - process.heartbeat_ns < kHeartbeatFreshNs;
    const bool is_here =
        process.liveness == Liveness::running || process.liveness == Liveness::stopped;
    run.live = run.live || is_here || beats;
  }
}

Run load_run(const std::string& path, const LoadOptions& options) {
  return load_run(std::vector<std::string>{path}, options);
}

Run load_run(const std::vector<std::string>& paths, const LoadOptions& options) {
  Run run;
  run.directory = paths.size() == 1 ? paths.front() : "";
  run.read_at_ns = now_ns();
  Place place;
  if (is_root(options.team)) {
    for (const std::string& path : paths) {
      if (place.refusal.empty()) look_at(path, options.segments, place);
    }
  }
  hand_out(options.team, place);
  if (!place.refusal.empty()) {
    refuse(run, place.refusal);
  } else {
    load_place(place, options, run);
  }
  if (!is_root(options.team)) return run;
  unify_grown(run);
  sort_processes(run.processes);
  mark_superseded(run);
  forget_shared_identifiers(run);
  forget_times_to_come(run);
  find_live(run);
  align_clocks(run);
  return run;
}

Process load_file(const std::string& path, const LoadOptions& options, std::vector<Issue>& issues) {
  const FileGroup group = options.segments ? group_of(path) : FileGroup{path, {}, {}};
  return load_group(group, options, {}, {}, issues);
}

}  // namespace rollcall::trace
