#include "trace/listing.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "core/format/file_name.h"
#include "core/format/stack_request.h"
#include "trace/job_end.h"

namespace rollcall::trace {
namespace {

constexpr std::string_view kAttempt = "attempt-";

void take_name(const std::string& directory, const std::string& name, Listing& listing) {
  std::string_view stem;
  SegmentName segment;
  const std::string path = directory + "/" + name;
  if (parse_ring_name(name, stem)) {
    listing.groups[directory + "/" + std::string(stem)].ring = path;
  } else if (parse_segment_name(name, segment)) {
    FileGroup& group = listing.groups[directory + "/" + std::string(segment.stem)];
    const bool is_captured = segment.kind == SegmentKind::captured;
    (is_captured ? group.captured : group.segments).emplace_back(segment.index, path);
  } else if (name.ends_with(kRingEnding)) {
    // Renamed by hand: its contents decide.
    listing.groups[path].ring = path;
  } else if (name.ends_with(kJobEndEnding)) {
    listing.ends.push_back(path);
  } else if (name.ends_with(kStacksEnding)) {
    // Where threads stood at some moment: `rollcall stacks` reads it, and no verdict rests on it.
  } else if (name.starts_with(".")) {
    // What a command of ours is writing at this moment, or a file system hides.
  } else {
    listing.others.push_back(path);
  }
}

// torchrun puts the output of a rank in <job>/attempt_0/<rank>/stderr.log. Whoever names a home
// directory by mistake is to have an answer all the same.
void list_deeper(std::vector<std::string> level, Listing& listing) {
  constexpr int kLevelsMax = 3;
  constexpr size_t kDirectoriesMax = 20'000;
  for (int i = 0; i < kLevelsMax; ++i) {
    const size_t known = listing.directories.size();
    if (known > kDirectoriesMax) return;
    for (const std::string& path : level) list_directory(path, listing);
    level.assign(listing.directories.begin() + static_cast<std::ptrdiff_t>(known),
                 listing.directories.end());
  }
}

}  // namespace

bool list_directory(const std::string& directory, Listing& listing) {
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(directory.c_str()), ::closedir);
  if (!handle) return false;
  while (const dirent* entry = ::readdir(handle.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    bool is_directory = entry->d_type == DT_DIR;
    if (entry->d_type == DT_UNKNOWN) {
      struct stat status {};
      is_directory =
          ::stat((directory + "/" + name).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    }
    if (is_directory) {
      listing.directories.push_back(directory + "/" + name);
    } else {
      take_name(directory, name, listing);
    }
  }
  return true;
}

bool list_run(const std::string& directory, Listing& listing) {
  if (!list_directory(directory, listing)) return false;
  const std::vector<std::string> below = listing.directories;
  for (const std::string& path : below) list_directory(path, listing);
  // An attempt of the whole job holds those of its launcher.
  const std::vector<std::string> lower(listing.directories.begin() + below.size(),
                                       listing.directories.end());
  if (listing.groups.empty()) {
    list_deeper(lower, listing);
  } else {
    for (const std::string& path : lower) {
      if (path.substr(path.rfind('/') + 1).starts_with(kAttempt)) list_directory(path, listing);
    }
  }
  for (auto& [stem, group] : listing.groups) {
    std::sort(group.segments.begin(), group.segments.end());
    std::sort(group.captured.begin(), group.captured.end());
  }
  std::sort(listing.ends.begin(), listing.ends.end());
  std::sort(listing.others.begin(), listing.others.end());
  return true;
}

}  // namespace rollcall::trace
