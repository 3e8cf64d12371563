// `rollcall pack`: compresses the history of finished processes.
//
// The recorder carries no compression library into the job; this does the compressing afterwards. A
// segment is rewritten beside itself and renamed, so that whoever reads it has the old one or the
// new one. What cannot be understood is carried over byte for byte.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include "core/base/crc32c.h"
#include "core/format/file_name.h"
#include "core/format/header_check.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"
#include "trace/loader.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

// Blocks are small and coded already: higher levels gain a percent for ten times the time.
constexpr int kLevelDefault = 6;

struct Arguments {
  std::string directory;
  int level = kLevelDefault;
};

struct Totals {
  uint64_t files = 0;
  uint64_t unchanged = 0;
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
  uint64_t failed = 0;
};

void append(std::string& out, const void* bytes, size_t count) {
  out.append(static_cast<const char*>(bytes), count);
}

// The block with its body compressed, where it is sound, plain and gets smaller.
bool append_packed(std::string& out, const BlockHeader& block, std::span<const char> body,
                   int level) {
  if (block.codec != BlockCodec::plain || body.empty() ||
      crc32c(body.data(), body.size()) != block.body_crc) {
    return false;
  }
  std::string packed(ZSTD_compressBound(body.size()), '\0');
  const size_t bytes = ZSTD_compress(packed.data(), packed.size(), body.data(), body.size(), level);
  if (ZSTD_isError(bytes) != 0 || bytes >= body.size()) return false;
  BlockHeader header = block;
  header.codec = BlockCodec::zstd;
  header.raw_bytes = block.body_bytes;
  header.body_bytes = static_cast<uint32_t>(bytes);
  header.body_crc = crc32c(packed.data(), bytes);
  header.header_crc = crc32c(&header, offsetof(BlockHeader, header_crc));
  append(out, &header, sizeof header);
  append(out, packed.data(), bytes);
  return true;
}

// The segment with its blocks compressed; nullopt: not a segment of this version.
std::optional<std::string> packed_segment(const std::string& content, int level) {
  SegmentHeader segment{};
  if (judge_segment_header(std::as_bytes(std::span(content)), segment) != HeaderVerdict::fine) {
    return std::nullopt;
  }
  std::string out = content.substr(0, sizeof segment);
  uint64_t offset = sizeof segment;
  while (content.size() - offset >= sizeof(BlockHeader)) {
    BlockHeader block{};
    std::memcpy(&block, content.data() + offset, sizeof block);
    if (!block_header_is_valid(block, content.size() - offset)) break;
    const uint64_t whole = sizeof block + uint64_t{block.body_bytes};
    const std::span<const char> body(content.data() + offset + sizeof block, block.body_bytes);
    if (!append_packed(out, block, body, level)) append(out, content.data() + offset, whole);
    offset += whole;
  }
  // A tail that is cut off or damaged stays as it is: the reader says what was lost with it.
  append(out, content.data() + offset, content.size() - offset);
  return out;
}

bool write_whole(const std::string& path, const std::string& content) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  size_t at = 0;
  while (at < content.size()) {
    const ssize_t written = ::write(file, content.data() + at, content.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    at += static_cast<size_t>(written);
  }
  const bool synced = at == content.size() && ::fsync(file) == 0;
  return ::close(file) == 0 && synced;
}

void pack_segment(const std::string& path, int level, Totals& totals) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  const std::optional<std::string> packed = packed_segment(content, level);
  if (!packed || packed->size() >= content.size()) {
    ++totals.unchanged;
    return;
  }
  const std::string temporary = path + ".packing";
  if (!write_whole(temporary, *packed) || std::rename(temporary.c_str(), path.c_str()) != 0) {
    unusable(
        fmt::format("{} could not be rewritten: {}; it is as it was.", path, std::strerror(errno)));
    ::unlink(temporary.c_str());
    ++totals.failed;
    return;
  }
  ++totals.files;
  totals.bytes_before += content.size();
  totals.bytes_after += packed->size();
}

std::vector<std::string> segments_of(const trace::Process& process) {
  std::vector<std::string> paths;
  const fs::path ring(process.file);
  const std::string own = ring.stem().string();
  std::error_code failure;
  const fs::path folder = ring.has_parent_path() ? ring.parent_path() : fs::path(".");
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    SegmentName segment;
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (parse_segment_name(name, segment) && segment.stem == own && at->is_regular_file(ignored)) {
      paths.push_back(at->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

int pack(const Arguments& arguments) {
  std::string error;
  // The newest call of each is enough: only the state of the processes is asked for.
  const std::optional<trace::Run> run = read_run(arguments.directory, 1, error);
  if (!run) return unusable(error);
  Totals totals;
  uint64_t skipped = 0;
  {
    Progress progress("packing");
    for (size_t at = 0; at < run->processes.size(); ++at) {
      const trace::Process& process = run->processes[at];
      progress.tell(at, run->processes.size());
      const bool over =
          process.liveness == trace::Liveness::exited || process.liveness == trace::Liveness::dead;
      if (!over) {
        ++skipped;
        continue;
      }
      for (const std::string& path : segments_of(process)) {
        pack_segment(path, arguments.level, totals);
      }
    }
  }
  print_out(fmt::format("{} segments packed: {} are now {}\n", totals.files,
                        report::byte_size(totals.bytes_before),
                        report::byte_size(totals.bytes_after)));
  if (totals.unchanged > 0) {
    print_out(fmt::format("{} were left as they are: packed before, or no smaller when packed.\n",
                          totals.unchanged));
  }
  if (skipped > 0) {
    print_out(fmt::format(
        "{} processes were left alone: they still run, or ran on another machine; pack there.\n",
        skipped));
  }
  return finish_output(totals.failed > 0 ? kExitUnusable : kExitGood);
}

}  // namespace

void add_pack(CommandLine& line) {
  Subcommand command(line, "pack",
                     "Compress the history of finished processes; every command still reads it.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("DIR", arguments->directory, "run directory").required();
  command.option("--level", arguments->level, "zstd level (default 6)")
      .value_name("1..19")
      .between(1, 19);
  command.footer("\nExample:\n  rollcall pack DIR");
  command.action([arguments] { return pack(*arguments); });
}

}  // namespace rollcall::tools
