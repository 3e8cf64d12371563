#include "core/format/file_name.h"

namespace rollcall {

namespace {

bool parse_hex(std::string_view text, uint64_t& value) noexcept {
  if (text.empty() || text.size() > 16) return false;
  uint64_t result = 0;
  for (const char c : text) {
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else {
      return false;
    }
    result = result << 4 | digit;
  }
  value = result;
  return true;
}

bool parse_number32(std::string_view text, uint32_t& value) noexcept {
  uint64_t wide = 0;
  if (!parse_decimal(text, wide) || wide > UINT32_MAX) return false;
  value = static_cast<uint32_t>(wide);
  return true;
}

}  // namespace

void write_stem(TextWriter& out, const FileStem& stem) noexcept {
  // A host name comes from the system, but it ends up in a path.
  for (const char c : stem.host) out.character(c == '/' || c == '\0' ? '_' : c);
  if (stem.host.empty()) out.text("unknown");
  out.character('.').number(stem.pid).character('.').hex(stem.start_time_ticks);
  if (stem.number != 0) out.character('-').number(stem.number);
}

void write_segment_name(TextWriter& out, const SegmentName& name) noexcept {
  const bool is_captured = name.kind == SegmentKind::captured;
  out.text(name.stem).character('.').padded(name.index, 6);
  out.text(is_captured ? kCapturedEnding : kSegmentEnding);
}

bool parse_ring_name(std::string_view name, std::string_view& stem) noexcept {
  if (!name.ends_with(kRingEnding)) return false;
  stem = part_of(name, 0, name.size() - kRingEnding.size());
  FileStem parts;
  return parse_stem(stem, parts);
}

bool parse_segment_name(std::string_view name, SegmentName& parsed) noexcept {
  const bool is_captured = name.ends_with(kCapturedEnding);
  if (!is_captured && !name.ends_with(kSegmentEnding)) return false;
  name.remove_suffix(is_captured ? kCapturedEnding.size() : kSegmentEnding.size());
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view digits = part_of(name, dot + 1);
  if (digits.size() < 6 || !parse_number32(digits, parsed.index)) return false;
  parsed.stem = part_of(name, 0, dot);
  parsed.kind = is_captured ? SegmentKind::captured : SegmentKind::history;
  FileStem parts;
  return parse_stem(parsed.stem, parts);
}

bool parse_stem(std::string_view text, FileStem& stem) noexcept {
  const size_t last = text.rfind('.');
  if (last == std::string_view::npos || last == 0) return false;
  const size_t middle = text.rfind('.', last - 1);
  if (middle == std::string_view::npos || middle == 0) return false;
  std::string_view start = part_of(text, last + 1);
  FileStem result;
  const size_t dash = start.find('-');
  if (dash != std::string_view::npos) {
    if (!parse_number32(part_of(start, dash + 1), result.number) || result.number == 0)
      return false;
    start = part_of(start, 0, dash);
  }
  result.host = part_of(text, 0, middle);
  if (!parse_number32(part_of(text, middle + 1, last - middle - 1), result.pid)) return false;
  if (!parse_hex(start, result.start_time_ticks)) return false;
  stem = result;
  return true;
}

}  // namespace rollcall
