#include "trace/import/importer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/limits.h"
#include "trace/clocks.h"
#include "trace/equal_calls.h"
#include "trace/import/job_description.h"
#include "trace/import/text_reader.h"
#include "trace/regular_file.h"

namespace rollcall::trace {
namespace {

uint64_t hash_text(std::string_view text, uint64_t seed) {
  // FNV-1a with a final mix: identity within one set of files, nothing adversarial.
  uint64_t hash = 0xcbf29ce484222325ull ^ seed;
  for (const char character : text) {
    hash = (hash ^ static_cast<uint8_t>(character)) * 0x100000001b3ull;
  }
  hash ^= hash >> 32;
  return hash * 0x9e3779b97f4a7c15ull;
}

void complain(const std::string& path, std::string text, std::vector<Issue>& issues) {
  issues.push_back({path, std::move(text), 0, true});
}

// False: it is larger than may be held.
bool read_whole(ByteStream& stream, std::vector<uint8_t>& bytes) {
  constexpr size_t kPiece = 1 << 20;
  for (size_t got = kPiece; got == kPiece;) {
    const size_t at = bytes.size();
    if (at > kForeignBytesMax) return false;
    bytes.resize(at + kPiece);
    got = stream.read(bytes.data() + at, kPiece);
    bytes.resize(at + got);
  }
  return true;
}

std::vector<std::unique_ptr<LineParser>> parsers_of(const std::string& path) {
  std::vector<std::unique_ptr<LineParser>> parsers;
  parsers.push_back(nccl_log_parser(path));
  parsers.push_back(job_log_parser(path));
  parsers.push_back(ras_report_parser(path));
  parsers.push_back(py_spy_parser(path));
  return parsers;
}

void complain_about_lines(const std::string& path, const TextCounts& counts,
                          std::vector<Issue>& issues) {
  const auto say = [&](std::string text) { issues.push_back({path, std::move(text), 0, false}); };
  if (counts.cut != 0) {
    say(fmt::format("{} lines are longer than {} KiB; of these the first {} KiB were read",
                    counts.cut, kLineBytesMax >> 10, kLineBytesMax >> 10));
  }
  if (counts.damaged != 0) {
    say(
        fmt::format("{} lines hold NUL bytes, as after a disk was full or a machine went down; "
                    "nothing is concluded from them alone",
                    counts.damaged));
  }
  if (counts.joined != 0) {
    say(
        fmt::format("was copied from a terminal that broke long lines; {} of them were joined "
                    "again",
                    counts.joined));
  }
}

// Told of processes or issues by a parser: the text was about NCCL.
bool import_text(const std::string& path, ByteStream& stream, std::vector<Process>& processes,
                 std::vector<JobLog>& logs, std::vector<Issue>& issues, uint64_t& lines) {
  const std::vector<std::unique_ptr<LineParser>> parsers = parsers_of(path);
  const TextCounts counts = TextReader(stream, parsers).read();
  lines = counts.lines;
  if (stream.is_refused()) return false;
  const size_t processes_before = processes.size();
  const size_t issues_before = issues.size();
  const size_t logs_before = logs.size();
  for (const std::unique_ptr<LineParser>& parser : parsers) {
    parser->finish(processes, logs, issues);
  }
  for (size_t i = logs_before; i < logs.size(); ++i) {
    logs[i].lines = lines;
    logs[i].last_line = counts.last_line;
    issues.push_back({path, description_of(logs[i]), 0, false});
  }
  const bool is_known = processes.size() != processes_before || issues.size() != issues_before;
  if (is_known) complain_about_lines(path, counts, issues);
  return is_known;
}

void import_whole(ForeignFormat format, const std::string& path, std::span<const uint8_t> bytes,
                  std::vector<Process>& processes, std::vector<JobLog>& logs,
                  std::vector<Issue>& issues) {
  switch (format) {
    case ForeignFormat::flight_recorder_pickle:
    case ForeignFormat::other_pickle:
      return import_flight_recorder(path, bytes, false, processes, issues);
    case ForeignFormat::flight_recorder_json:
      return import_flight_recorder(path, bytes, true, processes, issues);
    case ForeignFormat::inspector:
      return import_inspector(path, bytes, processes, issues);
    case ForeignFormat::ras_json:
      return import_ras_json(path, bytes, processes, issues);
    case ForeignFormat::py_spy:
      return import_py_spy(path, bytes, logs, issues);
    case ForeignFormat::sqlite:
      return import_nsys(path, bytes, processes, issues);
    default:
      break;
  }
}

// As `kind` says. False: nothing is to be said of it.
bool import_as(const FileKind& kind, const std::string& path, ByteStream& stream,
               std::vector<Process>& processes, std::vector<JobLog>& logs,
               std::vector<Issue>& issues, uint64_t& lines) {
  switch (kind.format) {
    case ForeignFormat::unknown:
    case ForeignFormat::empty:
      return false;
    case ForeignFormat::named:
      complain(path, fmt::format("is {}; {}", kind.name, kind.help), issues);
      return true;
    case ForeignFormat::text:
      return import_text(path, stream, processes, logs, issues, lines);
    case ForeignFormat::kineto:
      import_kineto(path, stream, processes, issues);
      return true;
    default:
      break;
  }
  const size_t before = processes.size();
  std::vector<uint8_t> bytes;
  if (read_whole(stream, bytes)) {
    import_whole(kind.format, path, bytes, processes, logs, issues);
  } else {
    complain(path,
             fmt::format("is {} of more than {} GiB, which is more than is read", kind.name,
                         kForeignBytesMax >> 30),
             issues);
  }
  return kind.format != ForeignFormat::other_pickle || processes.size() != before;
}

// As the reader of our own files does: what is counted up to a number in a file must be one that a
// job can have.
void bound_ranks(Process& process) {
  constexpr auto kMax = static_cast<int32_t>(kRanksMax);
  const auto is_rank = [](int32_t rank) { return rank >= 0 && rank < kMax; };
  if (!is_rank(process.job_rank)) process.job_rank = -1;
  for (Comm& comm : process.comms) {
    if (comm.nranks < 0 || comm.nranks > kMax) comm.nranks = -1;
    if (!is_rank(comm.rank) || (comm.nranks >= 0 && comm.rank >= comm.nranks)) comm.rank = -1;
  }
  for (Op& op : process.ops) {
    if (!is_rank(op.root_or_peer)) op.root_or_peer = -1;
  }
}

void bound(std::vector<Process>& processes, size_t first) {
  for (size_t i = first; i < processes.size(); ++i) {
    bound_times(processes[i]);
    bound_ranks(processes[i]);
  }
}

// What it is by its first bytes alone.
bool is_database(int descriptor) {
  uint8_t head[kSqliteMagic.size()] = {};
  return ::pread(descriptor, head, sizeof head, 0) == static_cast<ssize_t>(sizeof head) &&
         kind_of(head).format == ForeignFormat::sqlite;
}

}  // namespace

int64_t time_written_ns(const std::string& path) {
  struct stat status {};
  // A file may claim any time, also one whose nanoseconds do not fit 64 bits.
  constexpr int64_t kSecondsMax = 9'000'000'000;
  if (::stat(path.c_str(), &status) != 0 || std::abs(status.st_mtim.tv_sec) > kSecondsMax) return 0;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

CommKey key_from_text(std::string_view text) {
  return {hash_text(text, 0), hash_text(text, 0x5bd1e995)};
}

std::string why_nothing(const ImportedFile& imported) {
  const FileKind& kind = imported.kind;
  if (kind.format == ForeignFormat::text) {
    return fmt::format(
        "is a text of {} {}, none of which tells of a hang or an error in words that are known; "
        "logs of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL tell most",
        imported.lines, imported.lines == 1 ? "line" : "lines");
  }
  if (!kind.help.empty()) return fmt::format("is {}; {}", kind.name, kind.help);
  return fmt::format(
      "is {}: no recording of Rollcall, no log, no Flight Recorder dump, no profiler trace, no "
      "report of ncclras",
      kind.name);
}

ImportedFile import_stream(const std::string& path, std::unique_ptr<ByteStream> stream,
                           std::vector<Process>& processes, std::vector<Issue>& issues,
                           std::vector<JobLog>* logs, LoggedAs calls) {
  std::vector<JobLog> unheard;
  std::vector<JobLog>& heard = logs == nullptr ? unheard : *logs;
  const size_t logs_before = heard.size();
  PeekStream text(as_utf8(unpacked(std::move(stream))));
  const size_t before = processes.size();
  ImportedFile imported;
  imported.kind = kind_of(text.peek(kHeadBytes));
  imported.is_known =
      import_as(imported.kind, path, text, processes, heard, issues, imported.lines);
  if (text.is_refused()) {
    processes.resize(before);
    heard.resize(logs_before);
  }
  if (calls == LoggedAs::operations) {
    for (size_t i = before; i < processes.size(); ++i) unpack_all_calls(processes[i]);
  }
  bound(processes, before);
  const std::string complaint = text.complaint();
  if (!complaint.empty()) {
    complain(path, complaint, issues);
    imported.is_known = true;
  }
  return imported;
}

ImportedFile import_bytes(const std::string& path, std::span<const uint8_t> bytes,
                          std::vector<Process>& processes, std::vector<Issue>& issues,
                          std::vector<JobLog>* logs) {
  return import_stream(path, std::make_unique<MemoryStream>(bytes), processes, issues, logs);
}

ImportedFile import_file(const std::string& path, std::vector<Process>& processes,
                         std::vector<Issue>& issues, OnBytes on_bytes, std::vector<JobLog>* logs,
                         LoggedAs calls) {
  const int descriptor = open_regular(path);
  if (descriptor < 0) {
    // A pipe or a device that lies about is nobody's recording.
    if (descriptor == -EINVAL || descriptor == -EISDIR) return {};
    complain(path, fmt::format("could not be read: {}", std::strerror(-descriptor)), issues);
    return {.kind = {}, .is_known = true};
  }
  const size_t before = processes.size();
  const int64_t written_ns = time_written_ns(path);
  ImportedFile imported;
  if (is_database(descriptor)) {
    // Read where it lies, for it may be larger than may be held.
    ::close(descriptor);
    import_nsys(path, processes, issues);
    bound(processes, before);
    imported = {.kind = {ForeignFormat::sqlite, "a database of SQLite", ""}, .is_known = true};
  } else {
    imported = import_stream(
        path, std::make_unique<DescriptorStream>(descriptor, true, std::move(on_bytes)), processes,
        issues, logs, calls);
  }
  for (size_t i = before; i < processes.size(); ++i) {
    processes[i].written_ns = written_ns;
  }
  return imported;
}

}  // namespace rollcall::trace
