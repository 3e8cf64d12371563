// Where the ring itself is, of which a run directory holds a copy (core/format/ring_copy.h).
//
// The copy names the place. It may have been written by anybody, so what stands there counts only
// if it is a ring file, of the same process of the same boot of this machine, and belongs to the
// owner of the copy.
#pragma once

#include <cstdint>
#include <string>

namespace rollcall::trace {

struct LiveRing {
  bool is_copy = false;       // the file asked about is one
  uint64_t copied_ticks = 0;  // by the clock of its header
  std::string path;           // of the ring itself; empty where it cannot be read here
};
LiveRing find_live_ring(const std::string& path);

}  // namespace rollcall::trace
