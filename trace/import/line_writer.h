// Who wrote a line, as far as what launchers and collectors put in front of it tells.
#pragma once

#include <cstdint>
#include <string>

#include "trace/import/line_prefix.h"

namespace rollcall::trace {

// All but the rank: PyTorch writes "[rank3]:" in front of the first of several lines only.
struct LineWriter {
  int32_t task = -1;
  int32_t local_rank = -1;
  uint32_t pid = 0;
  std::string host;
  std::string file;

  LineWriter() = default;
  explicit LineWriter(const LinePrefix& prefix)
      : task(prefix.task),
        local_rank(prefix.local_rank),
        pid(prefix.pid),
        host(prefix.host),
        file(prefix.file) {}
  bool operator==(const LineWriter&) const = default;
};

}  // namespace rollcall::trace
