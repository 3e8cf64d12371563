// What a clock leaves in a file (core/format/ring_layout.h): part of the layout.
#pragma once

#include <cstdint>

namespace rollcall {

// A point of the process's clock: the same instant read on three clocks. `error_ns` bounds the time
// between the first and the last of the three reads.
struct ClockAnchor {
  uint64_t ticks;
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
  uint64_t error_ns;
};

enum class ClockKind : uint32_t { monotonic = 0, tsc = 1 };

}  // namespace rollcall
