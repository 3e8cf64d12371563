// The bench's own look at the files it produced: statistics of the one ring in a directory.
#pragma once

#include <cstdint>
#include <string>

#include "core/format/ring_layout.h"

namespace rollcall::bench {

struct RingSummary {
  bool found = false;
  uint64_t next_ticket = 0;
  uint64_t ring_bytes = 0;
  uint64_t segment_bytes = 0;
  SelfStatistics statistics{};
};
RingSummary summarise_directory(const std::string& directory);

}  // namespace rollcall::bench
