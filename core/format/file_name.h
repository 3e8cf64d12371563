// Names of the files of a run: <host>.<pid>.<start>[-<n>] and an ending.
//
// Host, pid and the process's start time (clock ticks since boot, in hex) make the stem. -<n>
// (from 1) appears only where that name is taken already: after exec() the same process, with the
// same start time, is another program.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/text.h"

namespace rollcall {

inline constexpr std::string_view kRingEnding = ".ring";
inline constexpr std::string_view kSegmentEnding = ".segment";
inline constexpr std::string_view kCapturedEnding = ".captured";
inline constexpr std::string_view kTraceEnding = ".trace.json";
// Host (63) + pid (10) + start (16) + number + ending, with room.
inline constexpr uint32_t kFileNameBytes = 160;

struct FileStem {
  std::string_view host;  // any character but '/' and NUL; may contain dots
  uint32_t pid = 0;
  uint64_t start_time_ticks = 0;
  uint32_t number = 0;  // 0: none
};

void write_stem(TextWriter& out, const FileStem& stem) noexcept;

enum class SegmentKind : uint8_t {
  history,
  captured,  // what went into CUDA graphs, once more
};
struct SegmentName {
  std::string_view stem;
  SegmentKind kind = SegmentKind::history;
  uint32_t index = 0;  // in the name six digits, more when they do not suffice
};
void write_segment_name(TextWriter& out, const SegmentName& name) noexcept;

// Parse a name without its directory. `stem` points into `name`.
bool parse_ring_name(std::string_view name, std::string_view& stem) noexcept;
bool parse_segment_name(std::string_view name, SegmentName& parsed) noexcept;
bool parse_stem(std::string_view text, FileStem& stem) noexcept;

}  // namespace rollcall
