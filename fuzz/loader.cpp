// A whole run directory: the rings and both kinds of segments of two ranks that are sound but for
// what the input writes over them, loaded whole and with equal calls left on disk.
//
// A segment's checksums are made behind the patches, so that these reach the coded operations and
// the digests.
#include "trace/loader.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/base/crc32c.h"
#include "fuzz/patches.h"
#include "tests/trace/files.h"

namespace {

using rollcall::BlockHeader;

constexpr uint32_t kRanks = 2;
constexpr uint64_t kCalls = 400;

struct File {
  std::string name;
  std::vector<std::byte> bytes;
};

std::vector<File> sound_run() {
  std::vector<File> files;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    rollcall::test::RankFiles made = rollcall::test::make_rank(rank, kCalls);
    files.push_back({made.captured_name, rollcall::test::capture_first_calls(kCalls, made)});
    files.push_back({made.ring_name, made.ring});
    files.push_back({made.segment_name, made.segment});
  }
  return files;
}

// Each patch behind the byte that says which file it is for.
void patch(std::span<const uint8_t> input, std::vector<File>& files) {
  constexpr size_t kBytes = 1 + rollcall::fuzz::kPatchBytes;
  for (; input.size() >= kBytes; input = input.subspan(kBytes)) {
    rollcall::fuzz::put_patch(input.data() + 1, files[input[0] % files.size()].bytes);
  }
}

// As far as the blocks' lengths lead.
void seal_segment(std::vector<std::byte>& bytes) {
  size_t offset = sizeof(rollcall::SegmentHeader);
  while (offset + sizeof(BlockHeader) <= bytes.size()) {
    BlockHeader block;
    std::memcpy(&block, bytes.data() + offset, sizeof block);
    const size_t body = offset + sizeof block;
    if (block.body_bytes > bytes.size() - body) return;
    block.body_crc = rollcall::crc32c(bytes.data() + body, block.body_bytes);
    block.header_crc = rollcall::crc32c(&block, offsetof(BlockHeader, header_crc));
    std::memcpy(bytes.data() + offset, &block, sizeof block);
    offset = body + block.body_bytes;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<File> sound = sound_run();
  static const rollcall::test::Directory directory;
  std::vector<File> files = sound;
  patch({data, size}, files);
  for (File& file : files) {
    if (!file.name.ends_with(".ring")) seal_segment(file.bytes);
    directory.write(file.name, file.bytes);
  }
  for (const uint64_t records_max : {0, 100}) {
    rollcall::trace::load_run(directory.path(),
                              {.records_max = records_max, .threads = 1, .probe_processes = false});
  }
  return 0;
}
