// `rollcall pack`: compresses the history of finished processes.
//
// The recorder carries no compression library into the job; this does the compressing afterwards. A
// segment is rewritten beside itself and renamed (tools/output_file.h), so that whoever reads it
// has the old one or the new one, and so that it may be done as root in the directory of a user
// whom nobody trusts. What cannot be understood is carried over byte for byte.
//
// Two at once take turns by directory: the second leaves it alone. Where a file system has no lock
// for that, both do the same work, and whoever is second finds that the file was replaced.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/base/crc32c.h"
#include "core/format/file_name.h"
#include "core/format/header_check.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"
#include "trace/bytes.h"
#include "trace/loader.h"
#include "trace/regular_file.h"

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
  uint64_t busy = 0;  // directories
};

// The segment `in` with its blocks compressed, in `out`. Memory: one block, whatever their sizes.
class SegmentPacker {
 public:
  SegmentPacker(const trace::FileSource& in, OutputFile& out, int level)
      : in_(in), out_(out), level_(level) {}

  // Size of the new segment.
  uint64_t pack() {
    copy(0, sizeof(SegmentHeader));
    uint64_t at = sizeof(SegmentHeader);
    BlockHeader block{};
    while (in_.read(at, &block, sizeof block) == sizeof block &&
           block_header_is_valid(block, in_.size() - at)) {
      const uint64_t whole = sizeof block + uint64_t{block.body_bytes};
      if (!put_packed(block, at + sizeof block)) copy(at, at + whole);
      at += whole;
    }
    // A tail that is cut off or damaged stays as it is: the reader says what was lost with it.
    copy(at, in_.size());
    out_.set_size(written_);
    return written_;
  }

 private:
  void put(const void* bytes, size_t count) {
    out_.write_at(written_, bytes, count);
    written_ += count;
  }

  // Where there is nothing, in a hole, nothing is written.
  void copy(uint64_t begin, uint64_t end) {
    std::array<char, 1 << 16> piece;
    while (begin < end && !out_.failed()) {
      const uint64_t data = std::min(in_.data_from(begin), end);
      written_ += data - begin;
      begin = data;
      const size_t bytes =
          in_.read(begin, piece.data(), std::min<uint64_t>(piece.size(), end - begin));
      if (bytes == 0) break;
      put(piece.data(), bytes);
      begin += bytes;
    }
    // Cut off while it was read.
    written_ += end - begin;
  }

  // The block with its body compressed, where it is sound, plain and gets smaller.
  bool put_packed(const BlockHeader& block, uint64_t at) {
    if (block.codec != BlockCodec::plain || block.body_bytes == 0) return false;
    body_.resize(block.body_bytes);
    if (in_.read(at, body_.data(), body_.size()) != body_.size() ||
        crc32c(body_.data(), body_.size()) != block.body_crc) {
      return false;
    }
    packed_.resize(ZSTD_compressBound(body_.size()));
    const size_t bytes =
        ZSTD_compress(packed_.data(), packed_.size(), body_.data(), body_.size(), level_);
    if (ZSTD_isError(bytes) != 0 || bytes >= body_.size()) return false;
    BlockHeader header = block;
    header.codec = BlockCodec::zstd;
    header.raw_bytes = block.body_bytes;
    header.body_bytes = static_cast<uint32_t>(bytes);
    header.body_crc = crc32c(packed_.data(), bytes);
    header.header_crc = crc32c(&header, offsetof(BlockHeader, header_crc));
    put(&header, sizeof header);
    put(packed_.data(), bytes);
    return true;
  }

  const trace::FileSource& in_;
  OutputFile& out_;
  const int level_;
  std::vector<char> body_;
  std::vector<char> packed_;
  uint64_t written_ = 0;
};

// A block that `pack` would compress.
bool has_plain_block(const trace::FileSource& file) {
  std::array<std::byte, sizeof(SegmentHeader)> bytes{};
  SegmentHeader segment{};
  const size_t got = file.read(0, bytes.data(), bytes.size());
  if (judge_segment_header(std::span<const std::byte>(bytes).first(got), segment) !=
      HeaderVerdict::fine) {
    return false;
  }
  BlockHeader block{};
  for (uint64_t at = sizeof segment; file.read(at, &block, sizeof block) == sizeof block &&
                                     block_header_is_valid(block, file.size() - at);
       at += sizeof block + uint64_t{block.body_bytes}) {
    if (block.codec == BlockCodec::plain && block.body_bytes != 0) return true;
  }
  return false;
}

void complain(const OpenDirectory& directory, const std::string& name, std::string_view why,
              Totals& totals) {
  unusable(fmt::format("{}/{} could not be rewritten: {}; it is as it was.", directory.path(), name,
                       why));
  ++totals.failed;
}

void pack_segment(const OpenDirectory& directory, const std::string& name, int level,
                  Totals& totals) {
  const trace::FileSource file(trace::OpenedFile{
      trace::open_regular(directory.descriptor(), name, O_RDONLY, trace::Links::refused)});
  struct stat old {};
  if (file.error() != 0 || ::fstat(file.descriptor(), &old) != 0) {
    struct stat status {};
    const bool is_there =
        ::fstatat(directory.descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    std::string_view why = is_there ? objection_to_kind(status.st_mode) : "";
    if (why.empty()) why = std::strerror(file.error());
    return complain(directory, name, why, totals);
  }
  if (!has_plain_block(file)) {
    ++totals.unchanged;
    return;
  }
  OutputFile packed(directory, name, Privacy::own);
  const uint64_t bytes = packed.failed() ? 0 : SegmentPacker(file, packed, level).pack();
  if (!packed.failed() && bytes >= file.size()) {
    ++totals.unchanged;
    return;
  }
  if (packed.put_in_place_of(old)) {
    ++totals.files;
    totals.bytes_before += file.size();
    totals.bytes_after += bytes;
  } else if (packed.was_overtaken()) {
    ++totals.unchanged;
  } else {
    complain(directory, name, packed.why(), totals);
  }
}

// The segments of these rings. What else has the name of one, a pipe or a link, is no segment.
std::vector<std::string> segments_of(const OpenDirectory& directory,
                                     const std::set<std::string>& rings) {
  std::vector<std::string> names;
  for (std::string& name : directory.file_names()) {
    SegmentName segment;
    if (!parse_segment_name(name, segment)) continue;
    if (rings.count(fmt::format("{}{}", segment.stem, kRingEnding)) != 0) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

void pack_directory(const OpenDirectory& directory, const std::set<std::string>& rings, int level,
                    Totals& totals) {
  if (directory.error() != 0) {
    unusable(fmt::format("{} could not be opened: {}; its files are as they were.",
                         directory.path(), std::strerror(directory.error())));
    ++totals.failed;
    return;
  }
  if (::flock(directory.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    say(fmt::format("{} is being packed by another `rollcall pack`; its files were left to it.",
                    directory.path()));
    ++totals.busy;
    return;
  }
  remove_leftovers(directory);
  for (const std::string& name : segments_of(directory, rings)) {
    pack_segment(directory, name, level, totals);
  }
}

bool is_over(const trace::Process& process) {
  return process.liveness == trace::Liveness::exited || process.liveness == trace::Liveness::dead;
}

// Rings of processes that are over, by the directory in the run's one that they are in; "": in
// that one itself.
using Rings = std::map<std::string, std::set<std::string>>;

Rings rings_to_pack(const trace::Run& run, const std::string& root) {
  Rings rings;
  for (const trace::Process& process : run.processes) {
    if (process.is_foreign() || !is_over(process)) continue;
    const std::string below = process.file.substr(std::min(root.size() + 1, process.file.size()));
    const size_t slash = below.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : below.substr(0, slash);
    rings[folder].insert(below.substr(slash == std::string::npos ? 0 : slash + 1));
  }
  return rings;
}

int tell(const Totals& totals, uint64_t skipped) {
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
  if (totals.failed > 0) return finish_output(kExitUnusable);
  return finish_output(totals.busy > 0 ? kExitBusy : kExitGood);
}

int pack(const Arguments& arguments) {
  std::string error;
  // The newest call of each is enough: only the state of the processes is asked for.
  const std::optional<trace::Run> run = read_run(arguments.directory, 1, error);
  if (!run) return unusable(error);
  std::error_code ignored;
  std::string root = arguments.directory;
  if (!fs::is_directory(root, ignored)) {
    const size_t slash = root.rfind('/');
    root = slash == std::string::npos ? "." : root.substr(0, slash);
  }
  Totals totals;
  const OpenDirectory top(root);
  const bool is_alone = root != arguments.directory;
  const Rings rings =
      is_alone && !run->processes.empty() && is_over(run->processes[0])
          ? Rings{{"", {arguments.directory.substr(arguments.directory.rfind('/') + 1)}}}
          : rings_to_pack(*run, root);
  {
    Progress progress("packing");
    size_t done = 0;
    for (const auto& [folder, names] : rings) {
      progress.tell(done++, rings.size());
      if (folder.empty()) {
        pack_directory(top, names, arguments.level, totals);
      } else {
        pack_directory(OpenDirectory(top, folder), names, arguments.level, totals);
      }
    }
  }
  const auto left_alone = std::count_if(run->processes.begin(), run->processes.end(),
                                        [](const auto& process) { return !is_over(process); });
  return tell(totals, static_cast<uint64_t>(left_alone));
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
  command.footer(
      "\nExit status: 0 when done, 2 when a file could not be rewritten (it is as it was), 5 when\n"
      "another `rollcall pack` is at work in the directory.\n"
      "\nExample:\n  rollcall pack DIR");
  command.action([arguments] { return pack(*arguments); });
}

}  // namespace rollcall::tools
