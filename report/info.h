// What a run holds: who recorded, what is known of the process, how complete the record is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/model.h"

namespace rollcall::report {

struct FileSizes {
  uint64_t ring_bytes = 0;
  uint64_t segment_bytes = 0;
  uint64_t segments = 0;
};

// By process of the run; asks the file system.
std::vector<FileSizes> file_sizes(const trace::Run& run);

std::string info_text(const trace::Run& run, const std::vector<FileSizes>& sizes);
// Schema rollcall.info/1.
std::string info_json(const trace::Run& run, const std::vector<FileSizes>& sizes);

}  // namespace rollcall::report
