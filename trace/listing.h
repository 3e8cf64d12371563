// The files of a run directory, by their names: rings with their segments, and what may be another
// recorder's.
//
// A run directory may hold directories of its own (one per attempt, or one per host); files one
// level down are listed as well, and those of attempts that are another level down.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rollcall::trace {

// A ring and the segments that carry its stem.
struct FileGroup {
  std::string ring;  // empty: segments without a ring
  std::vector<std::pair<uint32_t, std::string>> segments;
  std::vector<std::pair<uint32_t, std::string>> captured;  // of what went into CUDA graphs
};

struct Listing {
  std::map<std::string, FileGroup> groups;  // by directory and stem
  std::vector<std::string> directories;     // below, those that were looked into first
  std::vector<std::string> ends;            // how the job ended (trace/job_end.h)
  std::vector<std::string> others;          // files that may be another recorder's, by name
};

// One directory. False: it cannot be read; errno tells.
bool list_directory(const std::string& directory, Listing& listing);
// A directory and those in it, everything in the order of the names, so that the same directory
// gives the same run.
bool list_run(const std::string& directory, Listing& listing);

template <class Io>
void transfer(Io& io, FileGroup& group) {
  auto& [ring, segments, captured] = group;
  transfer_all(io, ring, segments, captured);
}

template <class Io>
void transfer(Io& io, Listing& listing) {
  auto& [groups, directories, ends, others] = listing;
  transfer_all(io, groups, directories, ends, others);
}

}  // namespace rollcall::trace
