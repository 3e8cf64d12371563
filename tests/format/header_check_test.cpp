// Headers and file names: what is refused, and by which name.
#include "core/format/header_check.h"

#include <cstring>
#include <string>
#include <vector>

#include "core/base/crc32c.h"
#include "core/format/file_name.h"
#include "tests/catch.h"

namespace rollcall {
namespace {

constexpr RingGeometry kSmall{
    .ring_slots = 64, .event_slots = 64, .comms_max = 4, .threads_max = 4, .meta_bytes_max = 4096};

FileHeader good_header() {
  FileHeader header{};
  fill_layout(header, kSmall);
  header.magic = kRingMagic;
  return header;
}

HeaderVerdict judge(const FileHeader& header, uint64_t file_bytes) {
  std::vector<std::byte> bytes(sizeof(FileHeader));
  std::memcpy(bytes.data(), &header, sizeof(header));
  FileHeader out{};
  return judge_header(bytes, file_bytes, out);
}

TEST_CASE("a header of this version is readable") {
  const FileHeader header = good_header();
  REQUIRE(judge(header, header.file_bytes) == HeaderVerdict::fine);
}

TEST_CASE("a header from before the kernel phases is readable") {
  FileHeader header = good_header();
  header.kernel_phase_slots = 0;
  header.kernel_phases = {};
  header.kernel_phase_entry_bytes = 0;
  REQUIRE(judge(header, header.file_bytes) == HeaderVerdict::fine);
}

TEST_CASE("a header cut at any byte is refused by name") {
  const FileHeader header = good_header();
  for (size_t length = 0; length < sizeof(FileHeader); ++length) {
    const auto* first = reinterpret_cast<const std::byte*>(&header);
    const std::vector<std::byte> bytes(first, first + length);
    FileHeader out{};
    REQUIRE(judge_header(bytes, length, out) == HeaderVerdict::truncated);
  }
}

TEST_CASE("a file shorter than its header says is truncated") {
  const FileHeader header = good_header();
  REQUIRE(judge(header, header.file_bytes - 1) == HeaderVerdict::truncated);
  REQUIRE(judge(header, header.file_bytes + 4096) == HeaderVerdict::fine);
}

TEST_CASE("each way a header can be wrong has its own name") {
  const auto judge_changed = [](auto change) {
    FileHeader header = good_header();
    change(header);
    return judge(header, uint64_t{1} << 30);
  };
  CHECK(judge_changed([](FileHeader& h) { h.magic = 0x1234; }) == HeaderVerdict::foreign);
  CHECK(judge_changed([](FileHeader& h) { h.magic = 0; }) == HeaderVerdict::unfinished);
  CHECK(judge_changed([](FileHeader& h) { h.magic = __builtin_bswap64(kRingMagic); }) ==
        HeaderVerdict::other_endianness);
  CHECK(judge_changed([](FileHeader& h) { h.endian_mark = __builtin_bswap32(kEndianMark); }) ==
        HeaderVerdict::other_endianness);
  CHECK(judge_changed([](FileHeader& h) { h.version = kRingVersion + 1; }) ==
        HeaderVerdict::other_version);
  CHECK(judge_changed([](FileHeader& h) { h.version = 0; }) == HeaderVerdict::other_version);
  CHECK(judge_changed([](FileHeader& h) { h.op_record_bytes = 64; }) ==
        HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.ring_slots = 63; }) == HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.ring_slots = 0; }) == HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.comms_max = 0xffffffff; }) ==
        HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.ops.bytes -= 1; }) == HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.ops.offset = h.file_bytes; }) ==
        HeaderVerdict::out_of_bounds);
  CHECK(judge_changed([](FileHeader& h) { h.ops.offset = ~uint64_t{0} - 63; }) ==
        HeaderVerdict::out_of_bounds);
  CHECK(judge_changed([](FileHeader& h) { h.ops.bytes = ~uint64_t{0}; }) ==
        HeaderVerdict::out_of_bounds);
  CHECK(judge_changed([](FileHeader& h) { h.comms.offset = h.ops.offset; }) ==
        HeaderVerdict::out_of_bounds);
  CHECK(judge_changed([](FileHeader& h) { h.meta.offset = 0; }) == HeaderVerdict::out_of_bounds);
  CHECK(judge_changed([](FileHeader& h) { h.kernel_phase_slots = 4095; }) ==
        HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.kernel_phase_entry_bytes = 24; }) ==
        HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.kernel_phases.bytes -= 1; }) ==
        HeaderVerdict::sizes_mismatch);
  CHECK(judge_changed([](FileHeader& h) { h.kernel_phases.offset = h.ops.offset; }) ==
        HeaderVerdict::out_of_bounds);
}

TEST_CASE("a segment header cut at any byte, or of something else, is refused") {
  SegmentHeader header{};
  header.magic = kSegmentMagic;
  header.version = kSegmentVersion;
  header.endian_mark = kEndianMark;
  std::vector<std::byte> bytes(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  SegmentHeader out{};
  REQUIRE(judge_segment_header(bytes, out) == HeaderVerdict::fine);
  for (size_t length = 0; length < sizeof(header); ++length) {
    REQUIRE(judge_segment_header(std::span(bytes).first(length), out) == HeaderVerdict::truncated);
  }
  bytes[0] = std::byte{0x7f};
  REQUIRE(judge_segment_header(bytes, out) == HeaderVerdict::foreign);
}

TEST_CASE("a block header is believed only whole, and only if its body fits") {
  BlockHeader header{};
  header.magic = kBlockMagic;
  header.type = BlockType::ops;
  header.body_bytes = header.raw_bytes = 100;
  header.record_count = 10;
  header.first_ticket = 1;
  header.last_ticket = 10;
  const auto seal = [](BlockHeader& h) {
    h.header_crc = crc32c(&h, offsetof(BlockHeader, header_crc));
  };
  seal(header);
  REQUIRE(block_header_is_valid(header, sizeof(header) + 100));
  REQUIRE_FALSE(block_header_is_valid(header, sizeof(header) + 99));
  REQUIRE_FALSE(block_header_is_valid(header, sizeof(header) - 1));
  for (size_t at = 0; at < offsetof(BlockHeader, header_crc); ++at) {
    BlockHeader damaged = header;
    reinterpret_cast<unsigned char*>(&damaged)[at] ^= 0x10;
    REQUIRE_FALSE(block_header_is_valid(damaged, sizeof(header) + 100));
  }
  BlockHeader greedy = header;
  greedy.record_count = kBlockRecordsMax + 1;
  seal(greedy);
  REQUIRE_FALSE(block_header_is_valid(greedy, sizeof(header) + 100));
}

TEST_CASE("both forms of the checksum give the published value") {
  const char text[] = "123456789";
  REQUIRE(crc32c(text, 9) == 0xe3069283);
  REQUIRE(crc32c_portable(text, 9) == 0xe3069283);
  std::vector<uint8_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 + i / 7);
  for (size_t length = 0; length < 70; ++length) {
    REQUIRE(crc32c(&bytes[length], length) == crc32c_portable(&bytes[length], length));
  }
  REQUIRE(crc32c(&bytes[500], 500, crc32c(bytes.data(), 500)) == crc32c(bytes.data(), 1000));
}

TEST_CASE("names of files are read back as they were written") {
  for (const FileStem& stem :
       {FileStem{"node-1", 4711, 0x1234abcd, 0}, FileStem{"a.b.example", 1, 1, 0},
        FileStem{"host-7", UINT32_MAX, UINT64_MAX, 12}}) {
    TextBuffer<kFileNameBytes> name;
    write_stem(name, stem);
    FileStem parsed;
    REQUIRE(parse_stem(name.view(), parsed));
    CHECK(parsed.host == stem.host);
    CHECK(parsed.pid == stem.pid);
    CHECK(parsed.start_time_ticks == stem.start_time_ticks);
    CHECK(parsed.number == stem.number);
    for (const SegmentKind kind : {SegmentKind::history, SegmentKind::captured}) {
      TextBuffer<kFileNameBytes> segment;
      write_segment_name(segment, {name.view(), kind, 1234567});
      SegmentName read;
      REQUIRE(parse_segment_name(segment.view(), read));
      CHECK(read.stem == name.view());
      CHECK(read.kind == kind);
      CHECK(read.index == 1234567);
    }
  }
}

TEST_CASE("other files of the directory are not taken for ours") {
  std::string_view stem;
  SegmentName segment;
  for (const char* name : {"", ".ring", "a.ring", "a.b.ring", "host.12.xyz.ring", "host..1f.ring",
                           "host.12.1f-0.ring", "host.12.1f-.ring", "host.99999999999.1f.ring",
                           "host.12.1f.rings", "host.12.11112222333344445.ring"}) {
    INFO(name);
    CHECK_FALSE(parse_ring_name(name, stem));
  }
  CHECK(parse_ring_name("host.12.1f.ring", stem));
  for (const char* name : {"host.12.1f.segment", "host.12.1f.12345.segment", "1.segment",
                           "host.12.1f.captured", "host.12.1f.000000.captures"}) {
    INFO(name);
    CHECK_FALSE(parse_segment_name(name, segment));
  }
}

}  // namespace
}  // namespace rollcall
