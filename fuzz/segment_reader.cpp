// Any bytes as a segment file. The header's magic and each block's magic and checksums are put in
// place for most inputs, because chance does not find them; the rest is the fuzzer's.
#include "trace/segment_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/crc32c.h"
#include "core/format/segment_layout.h"

namespace {

using rollcall::BlockHeader;
using rollcall::SegmentHeader;

// Makes every block that lies within the file one that the reader takes apart.
void mend_blocks(std::span<std::byte> file) {
  size_t offset = sizeof(SegmentHeader);
  while (offset + sizeof(BlockHeader) <= file.size()) {
    BlockHeader block;
    std::memcpy(&block, file.data() + offset, sizeof(block));
    const size_t room = file.size() - offset - sizeof(block);
    block.magic = rollcall::kBlockMagic;
    block.reserved0 = 0;
    block.reserved1 = 0;
    block.body_bytes = static_cast<uint32_t>(std::min<size_t>(block.body_bytes & 0xfff, room));
    if (block.codec == rollcall::BlockCodec::plain) block.raw_bytes = block.body_bytes;
    block.record_count %= rollcall::kBlockRecordsMax + 1;
    const std::byte* body = file.data() + offset + sizeof(block);
    block.body_crc = rollcall::crc32c(body, block.body_bytes);
    block.header_crc = rollcall::crc32c(&block, offsetof(BlockHeader, header_crc));
    std::memcpy(file.data() + offset, &block, sizeof(block));
    offset += sizeof(block) + block.body_bytes;
  }
}

void mend_header(std::span<std::byte> file) {
  SegmentHeader header;
  std::memcpy(&header, file.data(), sizeof(header));
  header.magic = rollcall::kSegmentMagic;
  header.version = rollcall::kSegmentVersion;
  header.endian_mark = rollcall::kEndianMark;
  header.time_shift %= 64;
  std::memcpy(file.data(), &header, sizeof(header));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> file(size);
  if (size > 0) std::memcpy(file.data(), data, size);
  if (size >= sizeof(SegmentHeader) && (data[size - 1] & 7) != 0) {
    mend_header(file);
    if ((data[size - 1] & 7) != 1) mend_blocks(file);
  }
  const rollcall::trace::MemorySource source{std::span<const std::byte>(file)};
  std::vector<rollcall::trace::Issue> issues;
  rollcall::trace::SegmentSink sink;
  sink.op = [](const rollcall::OpRecord&) {};
  sink.digest = [](const rollcall::DigestRecord&) {};
  const bool usable = rollcall::trace::read_segment(source, "fuzz.segment", {}, sink, issues);
  // What cannot be used must say why.
  if (!usable && issues.empty()) __builtin_trap();
  return 0;
}
