#include "bench/ring_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>

namespace rollcall::bench {

RingSummary summarise_directory(const std::string& directory) {
  RingSummary summary;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".segment") summary.segment_bytes += entry.file_size();
    if (entry.path().extension() != ".ring") continue;
    summary.ring_bytes += entry.file_size();
    std::ifstream file(entry.path(), std::ios::binary);
    FileHeader header{};
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    if (!file || header.magic != kRingMagic) continue;
    file.seekg(static_cast<std::streamoff>(header.stats.offset));
    file.read(reinterpret_cast<char*>(&summary.statistics), sizeof summary.statistics);
    summary.next_ticket = header.next_ticket;
    summary.found = static_cast<bool>(file);
  }
  return summary;
}

}  // namespace rollcall::bench
