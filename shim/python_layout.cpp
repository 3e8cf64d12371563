#include "shim/python_layout.h"

#include "core/base/text.h"

namespace rollcall::shim::python {
namespace {

constexpr Layout kLayouts[] = {
    {"3.9.", Lines::kSteps, 24, false, 0, 24, 32, 0, 104, 0, 40, 104, 112, 120, 0, 48, 0},
    {"3.10.", Lines::kRanges, 24, false, 0, 24, 32, 0, 96, 0, 40, 104, 112, 120, 0, 48, 0},
    {"3.11.", Lines::kLocations, 56, true, 8, 48, 32, 0, 56, 69, 72, 112, 120, 136, 184, 48, 0},
    {"3.12.", Lines::kLocations, 56, true, 0, 8, 0, 0, 56, 70, 68, 112, 120, 136, 192, 40, 24},
    {"3.13.", Lines::kLocations, 72, false, 0, 8, 0, 0, 56, 70, 68, 112, 120, 136, 200, 40, 32},
    {"3.14.", Lines::kLocations, 72, false, 0, 8, 0, 3, 56, 74, 68, 112, 120, 136, 208, 40, 32},
};

// --- the table that maps instructions to lines: PEP 626's successor, "Locations table" ----------
struct LineTable {
  const unsigned char* at;
  const unsigned char* end;

  bool is_over() const noexcept { return at >= end; }
  unsigned byte() noexcept { return is_over() ? 0u : *at++; }
  unsigned variable() noexcept {
    unsigned piece = byte();
    unsigned value = piece & 63;
    for (unsigned shift = 6; (piece & 64) != 0 && shift < 30; shift += 6) {
      piece = byte();
      value |= (piece & 63) << shift;
    }
    return value;
  }
  int signed_variable() noexcept {
    const unsigned value = variable();
    const int magnitude = static_cast<int>(value >> 1);
    return (value & 1) != 0 ? -magnitude : magnitude;
  }
  // How far the line moves with this entry; its columns are skipped.
  int line_step(unsigned kind) noexcept {
    if (kind == 15) return 0;
    if (kind == 14) {
      const int step = signed_variable();
      for (int skipped = 0; skipped < 3; ++skipped) variable();
      return step;
    }
    if (kind == 13) return signed_variable();
    if (kind >= 10) {
      at += 2;
      return static_cast<int>(kind) - 10;
    }
    ++at;
    return 0;
  }
};

// Up to 3.10: `wanted` is a number of bytes.
int line_in_pairs(const Layout& layout, LineTable pairs, int line, int64_t wanted) noexcept {
  constexpr int kNoLine = -128;
  int64_t reached = 0;
  while (!pairs.is_over()) {
    reached += pairs.byte();
    if (layout.lines == Lines::kSteps && reached > wanted) break;
    const int byte = static_cast<int>(pairs.byte());
    const int step = byte < 128 ? byte : byte - 256;  // a signed byte
    if (layout.lines == Lines::kSteps || step != kNoLine) line += step;
    if (layout.lines == Lines::kRanges && reached > wanted) break;
  }
  return line;
}

}  // namespace

bool is_free_threaded(std::string_view version) noexcept {
  return version.find("free-threading") != std::string_view::npos;
}

const Layout* layout_for(std::string_view version) noexcept {
  if (is_free_threaded(version)) return nullptr;
  for (const Layout& known : kLayouts) {
    if (part_of(version, 0, known.version.size()) == known.version) return &known;
  }
  return nullptr;
}

int line_of(const Layout& layout, std::span<const unsigned char> table, int first_line,
            int64_t instruction_bytes) noexcept {
  LineTable entries{table.data(), table.data() + table.size()};
  int line = first_line;
  if (layout.lines != Lines::kLocations) {
    return line_in_pairs(layout, entries, line, instruction_bytes);
  }
  const int64_t wanted = instruction_bytes / kInstructionBytes;
  int64_t unit = 0;
  while (!entries.is_over()) {
    const unsigned head = entries.byte();
    line += entries.line_step(head >> 3 & 15);
    unit += (head & 7) + 1;
    if (wanted < unit) break;
  }
  return line;
}

}  // namespace rollcall::shim::python
