#include "trace/import/importer.h"

#include <sys/stat.h>

#include <algorithm>

#include "core/base/limits.h"
#include "trace/bytes.h"
#include "trace/clocks.h"

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

bool read_whole(const std::string& path, std::vector<uint8_t>& bytes) {
  constexpr size_t kChunk = 1 << 20;
  const FileSource file(path);
  if (file.error() != 0 || file.size() > kForeignBytesMax) return false;
  // By pieces, for a log may grow meanwhile, and a file in /proc has no size.
  for (size_t got = kChunk; got == kChunk;) {
    const size_t at = bytes.size();
    if (at > kForeignBytesMax) return false;
    bytes.resize(at + kChunk);
    got = file.read(at, bytes.data() + at, kChunk);
    bytes.resize(at + got);
  }
  return true;
}

void import_as(ForeignFormat format, const std::string& path, std::span<const uint8_t> bytes,
               std::vector<Process>& processes, std::vector<Issue>& issues) {
  switch (format) {
    case ForeignFormat::flight_recorder_pickle:
      return import_flight_recorder(path, bytes, false, processes, issues);
    case ForeignFormat::flight_recorder_json:
      return import_flight_recorder(path, bytes, true, processes, issues);
    case ForeignFormat::nccl_log:
      return import_nccl_log(path, bytes, processes, issues);
    case ForeignFormat::inspector:
      return import_inspector(path, bytes, processes, issues);
    case ForeignFormat::ras_json:
      return import_ras_json(path, bytes, processes, issues);
    case ForeignFormat::ras_text:
      return import_ras_text(path, bytes, processes, issues);
    case ForeignFormat::none:
      break;
  }
  issues.push_back(
      {path,
       "is nothing that Rollcall reads: no recording of its own, no Flight Recorder dump, no log "
       "with NCCL INFO lines, and no file of NCCL Inspector or RAS",
       0, true});
}

// Nanoseconds since the epoch; 0 where the file system does not tell.
int64_t time_written_ns(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
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

}  // namespace

CommKey key_from_text(std::string_view text) {
  return {hash_text(text, 0), hash_text(text, 0x5bd1e995)};
}

ForeignFormat recognise(std::span<const uint8_t> head) {
  // Protocol 2 to 5, then a dictionary at once or behind a frame: a pickled dictionary.
  if (head.size() > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) {
    return ForeignFormat::flight_recorder_pickle;
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{' &&
      (text.find("\"pg_config\"") != std::string_view::npos ||
       text.find("\"record_id\"") != std::string_view::npos ||
       text.find("\"collective_seq_id\"") != std::string_view::npos)) {
    return ForeignFormat::flight_recorder_json;
  }
  const auto has = [&](const char* words) { return text.find(words) != std::string_view::npos; };
  if (first != std::string_view::npos && text[first] == '{') {
    if (has("\"coll_perf\"") || has("\"p2p_perf\"")) return ForeignFormat::inspector;
    if (has("\"communicators_count\"") && has("\"communicators\"")) return ForeignFormat::ras_json;
  }
  if (text.starts_with("NCCL version ") && has("\nJob summary")) return ForeignFormat::ras_text;
  if (text.find(" NCCL INFO ") != std::string_view::npos) return ForeignFormat::nccl_log;
  return ForeignFormat::none;
}

void import_bytes(const std::string& path, std::span<const uint8_t> bytes,
                  std::vector<Process>& processes, std::vector<Issue>& issues) {
  const size_t before = processes.size();
  const ForeignFormat format = recognise(bytes.first(std::min<size_t>(bytes.size(), 1 << 16)));
  import_as(format, path, bytes, processes, issues);
  for (size_t i = before; i < processes.size(); ++i) {
    bound_times(processes[i]);
    bound_ranks(processes[i]);
  }
}

void import_file(const std::string& path, std::vector<Process>& processes,
                 std::vector<Issue>& issues) {
  std::vector<uint8_t> bytes;
  if (!read_whole(path, bytes)) {
    issues.push_back({path,
                      "could not be read whole: you may not read it, or it is larger than 1 GiB", 0,
                      true});
    return;
  }
  const size_t before = processes.size();
  const int64_t written_ns = time_written_ns(path);
  import_bytes(path, bytes, processes, issues);
  for (size_t i = before; i < processes.size(); ++i) {
    processes[i].written_ns = written_ns;
  }
}

}  // namespace rollcall::trace
