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
// Index of a segment as in its name: six digits, more when they do not suffice.
void write_segment_name(TextWriter& out, std::string_view stem, uint32_t index) noexcept;

// Parse a name without its directory. `stem` points into `name`.
bool parse_ring_name(std::string_view name, std::string_view& stem) noexcept;
bool parse_segment_name(std::string_view name, std::string_view& stem, uint32_t& index) noexcept;
bool parse_stem(std::string_view text, FileStem& stem) noexcept;

}  // namespace rollcall
