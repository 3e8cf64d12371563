#include "core/format/header_check.h"

#include <cstring>

#include "core/base/crc32c.h"

namespace rollcall {

namespace {

constexpr uint64_t kPageBytes = 4096;

constexpr uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

bool is_power_of_two(uint32_t value) noexcept { return value != 0 && (value & (value - 1)) == 0; }

uint64_t swapped(uint64_t value) noexcept { return __builtin_bswap64(value); }

bool area_is_inside(const FileArea& area, uint64_t file_bytes) noexcept {
  return area.offset >= kHeaderBytes && area.offset <= file_bytes &&
         area.bytes <= file_bytes - area.offset && area.offset % 64 == 0;
}

bool areas_overlap(const FileArea& a, const FileArea& b) noexcept {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

HeaderVerdict judge_sizes(const FileHeader& header) noexcept {
  const bool sizes = header.header_bytes == kHeaderBytes &&
                     header.op_record_bytes == sizeof(OpRecord) &&
                     header.event_record_bytes == sizeof(EventRecord) &&
                     header.comm_entry_bytes == sizeof(CommEntry) &&
                     header.thread_entry_bytes == sizeof(ThreadEntry);
  if (!sizes) return HeaderVerdict::sizes_mismatch;
  const bool counts = is_power_of_two(header.ring_slots) && header.ring_slots <= kRingSlotsMax &&
                      is_power_of_two(header.event_slots) && header.event_slots <= kRingSlotsMax &&
                      header.comms_max <= kRingSlotsMax && header.threads_max <= kRingSlotsMax;
  if (!counts) return HeaderVerdict::sizes_mismatch;
  const bool areas = header.ops.bytes >= uint64_t{header.ring_slots} * sizeof(OpRecord) &&
                     header.events.bytes >= uint64_t{header.event_slots} * sizeof(EventRecord) &&
                     header.comms.bytes >= uint64_t{header.comms_max} * sizeof(CommEntry) &&
                     header.threads.bytes >= uint64_t{header.threads_max} * sizeof(ThreadEntry) &&
                     header.stats.bytes >= sizeof(SelfStatistics);
  // Files from before the table of channels have zeros there.
  const bool channels =
      header.channels_max == 0 ||
      (header.channels_max <= kRingSlotsMax && header.channel_entry_bytes == sizeof(ChannelEntry) &&
       header.channels.bytes >= uint64_t{header.channels_max} * sizeof(ChannelEntry));
  const bool graphs =
      header.graphs_max == 0 ||
      (header.graphs_max <= kRingSlotsMax && header.graph_entry_bytes == sizeof(GraphEntry) &&
       header.graphs.bytes >= uint64_t{header.graphs_max} * sizeof(GraphEntry));
  const bool progress =
      header.progress_slots == 0 ||
      (header.progress_slots == header.ring_slots &&
       header.progress.bytes >= uint64_t{header.progress_slots} * sizeof(uint64_t));
  const bool phases =
      header.kernel_phase_slots == 0 ||
      (is_power_of_two(header.kernel_phase_slots) && header.kernel_phase_slots <= kRingSlotsMax &&
       header.kernel_phase_entry_bytes == sizeof(KernelPhasesEntry) &&
       header.kernel_phases.bytes >=
           uint64_t{header.kernel_phase_slots} * sizeof(KernelPhasesEntry));
  return areas && channels && graphs && progress && phases ? HeaderVerdict::fine
                                                           : HeaderVerdict::sizes_mismatch;
}

HeaderVerdict judge_areas(const FileHeader& header, uint64_t file_bytes) noexcept {
  if (header.file_bytes > file_bytes) return HeaderVerdict::truncated;
  FileArea present[10] = {header.meta,  header.stats,  header.threads,
                          header.comms, header.events, header.ops};
  size_t count = 6;
  if (header.channels_max != 0) present[count++] = header.channels;
  if (header.graphs_max != 0) present[count++] = header.graphs;
  if (header.progress_slots != 0) present[count++] = header.progress;
  if (header.kernel_phase_slots != 0) present[count++] = header.kernel_phases;
  const std::span<const FileArea> areas(present, count);
  for (const FileArea& area : areas) {
    if (!area_is_inside(area, header.file_bytes)) return HeaderVerdict::out_of_bounds;
  }
  for (size_t i = 0; i < areas.size(); ++i) {
    for (size_t k = i + 1; k < areas.size(); ++k) {
      if (areas_overlap(areas[i], areas[k])) return HeaderVerdict::out_of_bounds;
    }
  }
  return HeaderVerdict::fine;
}

bool all_zero(std::span<const std::byte> bytes) noexcept {
  for (const std::byte byte : bytes) {
    if (byte != std::byte{0}) return false;
  }
  return true;
}

}  // namespace

std::string_view name_of(HeaderVerdict verdict) noexcept {
  constexpr std::string_view kNames[] = {
#define ROLLCALL_X(name, sentence) #name,
      ROLLCALL_HEADER_VERDICTS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  return verdict < HeaderVerdict::Count ? kNames[static_cast<size_t>(verdict)] : "unknown";
}

std::string_view sentence_of(HeaderVerdict verdict) noexcept {
  constexpr std::string_view kSentences[] = {
#define ROLLCALL_X(name, sentence) sentence,
      ROLLCALL_HEADER_VERDICTS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  return verdict < HeaderVerdict::Count ? kSentences[static_cast<size_t>(verdict)] : "unknown";
}

HeaderVerdict judge_header(std::span<const std::byte> bytes, uint64_t file_bytes,
                           FileHeader& header) noexcept {
  if (bytes.size() < 8 || file_bytes < 8) return HeaderVerdict::truncated;
  uint64_t magic;
  std::memcpy(&magic, bytes.data(), 8);
  if (magic == swapped(kRingMagic)) return HeaderVerdict::other_endianness;
  if (bytes.size() < sizeof(FileHeader) || file_bytes < kHeaderBytes) {
    // Magic or nothing but zeros: ours, and cut off. The magic is stored last, so a creator that
    // died leaves zeros there.
    return magic == kRingMagic || magic == 0 ? HeaderVerdict::truncated : HeaderVerdict::foreign;
  }
  std::memcpy(&header, bytes.data(), sizeof(FileHeader));
  if (magic == 0) {
    const bool created = header.version == 0 || header.endian_mark == kEndianMark;
    return created || all_zero(bytes.first(sizeof(FileHeader))) ? HeaderVerdict::unfinished
                                                                : HeaderVerdict::foreign;
  }
  if (magic != kRingMagic) return HeaderVerdict::foreign;
  if (header.endian_mark != kEndianMark) return HeaderVerdict::other_endianness;
  if (header.version < kRingVersionOldest || header.version > kRingVersion) {
    return HeaderVerdict::other_version;
  }
  const HeaderVerdict sizes = judge_sizes(header);
  return sizes != HeaderVerdict::fine ? sizes : judge_areas(header, file_bytes);
}

HeaderVerdict judge_segment_header(std::span<const std::byte> bytes,
                                   SegmentHeader& header) noexcept {
  if (bytes.size() < 8) return HeaderVerdict::truncated;
  uint64_t magic;
  std::memcpy(&magic, bytes.data(), 8);
  if (magic == swapped(kSegmentMagic)) return HeaderVerdict::other_endianness;
  if (magic != kSegmentMagic) return HeaderVerdict::foreign;
  if (bytes.size() < sizeof(SegmentHeader)) return HeaderVerdict::truncated;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.endian_mark != kEndianMark) return HeaderVerdict::other_endianness;
  if (header.version < kSegmentVersionOldest || header.version > kSegmentVersion) {
    return HeaderVerdict::other_version;
  }
  return header.time_shift < 64 ? HeaderVerdict::fine : HeaderVerdict::sizes_mismatch;
}

bool block_header_is_valid(const BlockHeader& header, uint64_t remaining_bytes) noexcept {
  if (remaining_bytes < sizeof(BlockHeader)) return false;
  if (header.magic != kBlockMagic) return false;
  if (header.header_crc != crc32c(&header, offsetof(BlockHeader, header_crc))) return false;
  if (header.body_bytes > remaining_bytes - sizeof(BlockHeader)) return false;
  if (header.codec == BlockCodec::plain && header.raw_bytes != header.body_bytes) return false;
  constexpr uint64_t kBodyBytesMax = uint64_t{kBlockRecordsMax} * kOpCodedBytesMax;
  if (header.raw_bytes > kBodyBytesMax) return false;
  // What has no codec of ours is passed over, whatever its size.
  if (header.codec == BlockCodec::zstd && header.body_bytes > kBodyBytesMax) return false;
  if (header.record_count > kBlockRecordsMax) return false;
  return header.first_ticket <= header.last_ticket;
}

RingAreas areas_of(const RingGeometry& geometry) noexcept {
  RingAreas areas{};
  uint64_t offset = kHeaderBytes;
  // Every area starts on a page, so that the hot ones share no page with the text.
  const auto place = [&offset](uint64_t bytes) {
    const FileArea area{.offset = offset, .bytes = bytes};
    offset = round_up(offset + bytes, kPageBytes);
    return area;
  };
  areas.meta = place(geometry.meta_bytes_max);
  areas.stats = place(kStatisticsBytes);
  areas.threads = place(uint64_t{geometry.threads_max} * sizeof(ThreadEntry));
  areas.comms = place(uint64_t{geometry.comms_max} * sizeof(CommEntry));
  areas.events = place(uint64_t{geometry.event_slots} * sizeof(EventRecord));
  areas.ops = place(uint64_t{geometry.ring_slots} * sizeof(OpRecord));
  areas.channels = place(uint64_t{geometry.channels_max} * sizeof(ChannelEntry));
  areas.kernel_phases = place(uint64_t{geometry.kernel_phase_slots} * sizeof(KernelPhasesEntry));
  // The words that the GPU writes are the end of the file: graphs, progress.
  areas.graphs = place(uint64_t{geometry.graphs_max} * sizeof(GraphEntry));
  areas.progress = place(uint64_t{geometry.ring_slots} * sizeof(uint64_t));
  areas.file_bytes = offset;
  return areas;
}

void fill_layout(FileHeader& header, const RingGeometry& geometry) noexcept {
  const RingAreas areas = areas_of(geometry);
  header.version = kRingVersion;
  header.endian_mark = kEndianMark;
  header.file_bytes = areas.file_bytes;
  header.header_bytes = kHeaderBytes;
  header.op_record_bytes = sizeof(OpRecord);
  header.event_record_bytes = sizeof(EventRecord);
  header.comm_entry_bytes = sizeof(CommEntry);
  header.thread_entry_bytes = sizeof(ThreadEntry);
  header.ring_slots = geometry.ring_slots;
  header.event_slots = geometry.event_slots;
  header.comms_max = geometry.comms_max;
  header.threads_max = geometry.threads_max;
  header.meta = areas.meta;
  header.stats = areas.stats;
  header.threads = areas.threads;
  header.comms = areas.comms;
  header.events = areas.events;
  header.ops = areas.ops;
  header.channels = areas.channels;
  header.channels_max = geometry.channels_max;
  header.channel_entry_bytes = sizeof(ChannelEntry);
  header.kernel_phases = areas.kernel_phases;
  header.kernel_phase_slots = geometry.kernel_phase_slots;
  header.kernel_phase_entry_bytes = sizeof(KernelPhasesEntry);
  header.graphs = areas.graphs;
  header.graphs_max = geometry.graphs_max;
  header.graph_entry_bytes = sizeof(GraphEntry);
  header.progress = areas.progress;
  header.progress_slots = geometry.ring_slots;
  header.next_ticket = 1;
  header.next_event_ticket = 1;
}

}  // namespace rollcall
