// Is this a ring file, or a segment file, that this version can read? Every refusal has a name and
// a sentence. Nothing behind the header may be touched before judge_header() said `fine`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"

namespace rollcall {

// X(name, sentence)
#define ROLLCALL_HEADER_VERDICTS(X)                                                        \
  X(fine, "readable")                                                                      \
  X(truncated, "the file is shorter than its header says, or than a header")               \
  X(unfinished, "the file was being created when its process ended; it holds no records")  \
  X(foreign, "this is not a file of Rollcall")                                             \
  X(other_endianness, "the file was written on a machine of the other byte order")         \
  X(other_version, "the file has a format version that this rollcall cannot read")         \
  X(sizes_mismatch, "the file's record sizes or slot counts are not those of its version") \
  X(out_of_bounds, "the file's header points outside the file, or two of its areas overlap")

enum class HeaderVerdict : uint8_t {
#define ROLLCALL_X(name, sentence) name,
  ROLLCALL_HEADER_VERDICTS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
std::string_view name_of(HeaderVerdict verdict) noexcept;
std::string_view sentence_of(HeaderVerdict verdict) noexcept;

// `file_bytes` is the size the file has now; `bytes` are its first bytes, at least
// sizeof(FileHeader) of them unless the file is shorter. On `fine` every area lies inside the file,
// aligned, disjoint, and as large as its counts say.
HeaderVerdict judge_header(std::span<const std::byte> bytes, uint64_t file_bytes,
                           FileHeader& header) noexcept;
HeaderVerdict judge_segment_header(std::span<const std::byte> bytes,
                                   SegmentHeader& header) noexcept;
// A block header that stands where `remaining_bytes` are left of the file, itself included. False:
// the rest of the file is not readable (cut off, or damaged).
bool block_header_is_valid(const BlockHeader& header, uint64_t remaining_bytes) noexcept;

// Where the areas of a ring file with these counts lie. The writer creates by it, the reader holds
// the header against it.
struct RingGeometry {
  uint32_t ring_slots = kRingSlotsDefault;
  uint32_t event_slots = kEventSlots;
  uint32_t comms_max = kCommsMax;
  uint32_t threads_max = kThreadsMax;
  uint32_t meta_bytes_max = kMetaBytesMax;
  uint32_t channels_max = kChannelsMax;
  uint32_t graphs_max = kGraphsMax;
  uint32_t kernel_phase_slots = kKernelPhaseSlots;
};
struct RingAreas {
  FileArea meta;
  FileArea stats;
  FileArea threads;
  FileArea comms;
  FileArea events;
  FileArea ops;
  FileArea channels;
  FileArea kernel_phases;
  FileArea graphs;
  FileArea progress;
  uint64_t file_bytes;
};
RingAreas areas_of(const RingGeometry& geometry) noexcept;
// Everything of a header that follows from the geometry; `magic` stays 0.
void fill_layout(FileHeader& header, const RingGeometry& geometry) noexcept;

}  // namespace rollcall
