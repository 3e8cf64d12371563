#include "tools/ring_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/base/limits.h"
#include "core/base/text.h"
#include "trace/live_ring.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

// A ring, or what has its name; never anything but a regular file.
class Descriptor {
 public:
  // For writing no link is followed: it may lead out of the run directory.
  Descriptor(const std::string& path, int access)
      : number_(trace::open_regular(
            AT_FDCWD, path, access,
            access == O_RDONLY ? trace::Links::followed : trace::Links::refused)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;  // or an errno negated
};

// "": it is open.
std::string why_not_open(const Descriptor& file) {
  switch (file.number()) {
    case -EINVAL:
    case -EISDIR:
      return "is not a regular file, as recordings are; remove it or rename it.";
    case -ELOOP:
      return "is a symbolic link, which is not followed for writing; name the file itself.";
    default:
      if (file.number() >= 0) return "";
      return fmt::format("cannot be opened: {}.", std::strerror(-file.number()));
  }
}

void list_level(const fs::path& folder, int levels, std::vector<std::string>& paths) {
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code ignored;
    if (at->is_directory(ignored)) {
      if (levels > 0) list_level(at->path(), levels - 1, paths);
    } else if (at->path().extension() == ".ring") {
      paths.push_back(at->path().string());
    }
  }
}

// Where the file is a copy, and the ring itself can be read here, the ring.
std::string ring_itself(const std::string& path) {
  const std::string live = trace::find_live_ring(path).path;
  return live.empty() ? path : live;
}

bool write_word(const Descriptor& file, uint32_t value) {
  return file.number() >= 0 && ::pwrite(file.number(), &value, sizeof value,
                                        offsetof(FileHeader, capture_switch)) == sizeof value;
}

void explain(std::string* error, std::string text) {
  if (error != nullptr) *error = std::move(text);
}

}  // namespace

std::vector<std::string> list_rings(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code failure;
  if (fs::is_regular_file(directory, failure)) return {directory};
  // A launcher's attempt within an attempt of the whole job.
  list_level(directory, 2, paths);
  std::sort(paths.begin(), paths.end());
  return paths;
}

namespace {

std::optional<FileHeader> header_in(const Descriptor& file, const std::string& path,
                                    std::string* error) {
  FileHeader header;
  if (const std::string why = why_not_open(file); !why.empty()) {
    explain(error, fmt::format("{} {}", path, why));
    return std::nullopt;
  }
  if (::pread(file.number(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      header.magic != kRingMagic) {
    explain(
        error,
        fmt::format("{} is not a ring file of Rollcall, or its process is just starting.", path));
    return std::nullopt;
  }
  if (header.endian_mark != kEndianMark || header.version < kRingVersionOldest ||
      header.version > kRingVersion) {
    explain(error, fmt::format("{} was written by another version of Rollcall, or on a machine of "
                               "another byte order; use the command of that version.",
                               path));
    return std::nullopt;
  }
  return header;
}

}  // namespace

std::optional<FileHeader> read_header(const std::string& given, std::string* error) {
  const std::string path = ring_itself(given);
  return header_in(Descriptor(path, O_RDONLY), path, error);
}

std::string read_meta(const std::string& path, const FileHeader& header, const std::string& key) {
  const Descriptor file(path, O_RDONLY);
  if (file.number() < 0) return {};
  std::string text(std::min(header.meta_bytes, kMetaBytesMax), '\0');
  const ssize_t bytes =
      ::pread(file.number(), text.data(), text.size(), static_cast<off_t>(header.meta.offset));
  if (bytes <= 0) return {};
  text.resize(static_cast<size_t>(bytes));
  std::string value;
  std::string_view rest(text);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (line.size() > key.size() && line[key.size()] == '=' && line.substr(0, key.size()) == key) {
      value = line.substr(key.size() + 1);
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return value;
}

bool holds_run(const std::string& directory, uint64_t run_id) {
  const std::vector<std::string> paths = list_rings(directory);
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
    const std::optional<FileHeader> header = read_header(path);
    return header && header->run_id == run_id;
  });
}

std::optional<uint64_t> newest_attempt(const std::string& directory) {
  constexpr std::string_view kAttempt = "attempt-";
  std::optional<uint64_t> newest;
  for (const std::string& path : list_rings(directory)) {
    const std::string name = fs::path(path).lexically_relative(directory).begin()->string();
    uint64_t number = 0;
    if (!name.starts_with(kAttempt)) continue;
    if (!parse_decimal(std::string_view(name).substr(kAttempt.size()), number)) continue;
    newest = std::max(newest.value_or(0), number);
  }
  return newest;
}

bool write_switch(const std::string& path, uint32_t value, std::string& error) {
  const Descriptor file(path, O_RDWR);
  // What is written to is the file that was judged, whatever has its name by now.
  if (!header_in(file, path, &error)) return false;
  // A write to a file reaches its shared mappings at once. Of a copy the recorder looks at the word
  // whenever it brings the copy up to date, wherever it runs; where the ring itself is at hand it
  // need not wait for that.
  const std::string ring = ring_itself(path);
  if (write_word(file, value) && (ring == path || write_word(Descriptor(ring, O_RDWR), value))) {
    return true;
  }
  error = fmt::format("{} cannot be written: {}.", path, std::strerror(errno));
  return false;
}

}  // namespace rollcall::tools
