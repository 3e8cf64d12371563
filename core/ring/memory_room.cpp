#include "core/ring/memory_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <span>
#include <string_view>

#include "core/base/open_file.h"
#include "core/base/small_file.h"
#include "core/base/text.h"

namespace rollcall::ring {

namespace {

constexpr size_t kLineBytesMax = 4096;  // a mount's line holds paths and the options of overlays
constexpr size_t kGroupPathBytes = 1024;
using FilePath = TextBuffer<2 * kGroupPathBytes>;

// The lines of a file of any length. Those that are longer than the buffer are left out.
class LineReader {
 public:
  LineReader(const char* path, std::span<char> buffer) noexcept
      : buffer_(buffer), descriptor_(open_file(path, O_RDONLY)) {}
  ~LineReader() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool next(std::string_view& line) noexcept {
    for (;;) {
      const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
      const size_t length = rest.find('\n');
      if (length != std::string_view::npos) {
        begin_ += length + 1;
        line = part_of(rest, 0, length);
        if (!is_cut_) return true;
        is_cut_ = false;
        continue;
      }
      if (begin_ == 0 && end_ == buffer_.size()) {
        is_cut_ = true;
        end_ = 0;
      }
      std::copy(buffer_.data() + begin_, buffer_.data() + end_, buffer_.data());
      end_ -= begin_;
      begin_ = 0;
      if (!fill()) return false;
    }
  }

 private:
  bool fill() noexcept {
    if (descriptor_ < 0) return false;
    ssize_t bytes = 0;
    do {
      bytes = read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
    } while (bytes < 0 && errno == EINTR);
    if (bytes <= 0) return false;
    end_ += static_cast<size_t>(bytes);
    return true;
  }

  const std::span<char> buffer_;
  const int descriptor_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool is_cut_ = false;
};

// Takes the next word off the front; empty at the end.
std::string_view take_word(std::string_view& text, char separator = ' ') noexcept {
  const size_t end = text.find(separator);
  const std::string_view word = part_of(text, 0, end);
  text = end == std::string_view::npos ? std::string_view{} : part_of(text, end + 1);
  return word;
}

bool lists(std::string_view comma_list, std::string_view wanted) noexcept {
  while (!comma_list.empty()) {
    if (take_word(comma_list, ',') == wanted) return true;
  }
  return false;
}

enum class Version : uint8_t { one, two };

// Where the process is in one hierarchy.
struct GroupPath {
  TextBuffer<kGroupPathBytes> path;
  bool is_known = false;
};

// Everything long: a thread of the job may have little stack (core/base/limits.h).
struct Workspace {
  char line[kLineBytesMax];       // of a file of /proc
  char stat_line[kLineBytesMax];  // of a memory.stat, while a mount's line is in use
  GroupPath one, two;
  TextBuffer<kGroupPathBytes> file;
  TextBuffer<kGroupPathBytes> mount_point, mount_root;
  FilePath directory;
  FilePath file_of_group;
};

// /proc/self/cgroup: "NUMBER:CONTROLLERS:PATH", of version 2 "0::PATH".
void read_group_paths(const char* root, Workspace& space) noexcept {
  GroupPath& one = space.one;
  GroupPath& two = space.two;
  space.file.clear();
  LineReader lines(space.file.text(root).text("/proc/self/cgroup").c_str(), space.line);
  std::string_view line;
  while (lines.next(line)) {
    const std::string_view number = take_word(line, ':');
    const std::string_view controllers = take_word(line, ':');
    if (number == "0" && controllers.empty()) {
      two.path.text(line);
      two.is_known = two.path.cut_bytes() == 0;
    } else if (lists(controllers, "memory")) {
      one.path.text(line);
      one.is_known = one.path.cut_bytes() == 0;
    }
  }
}

// A word of /proc/self/mountinfo, where blanks and the like are written \ooo.
void unescape(TextWriter& out, std::string_view word) noexcept {
  for (size_t at = 0; at < word.size(); ++at) {
    const std::string_view digits = part_of(word, at + 1, 3);
    if (word[at] != '\\' || digits.size() != 3) {
      out.character(word[at]);
      continue;
    }
    out.character(
        static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0')));
    at += 3;
  }
}

// Mounted in a container without a namespace of its own, the mount begins further down in the
// hierarchy, at `mount_root`. What is not below it (the process was moved, or the mount is another
// namespace's) cannot be seen; the mount itself is the nearest that can.
std::string_view below_mount(std::string_view group, std::string_view mount_root) noexcept {
  if (mount_root == "/") return group == "/" ? std::string_view{} : group;
  if (part_of(group, 0, mount_root.size()) != mount_root) return {};
  const std::string_view rest = part_of(group, mount_root.size());
  return rest.empty() || rest[0] == '/' ? rest : std::string_view{};
}

bool read_number(std::string_view directory, std::string_view name, uint64_t& value,
                 Workspace& space) noexcept {
  FilePath& path = space.file_of_group;
  path.clear();
  path.text(directory).character('/').text(name);
  char content[64];
  std::string_view text(content, read_small_file(path.c_str(), content));
  return path.cut_bytes() == 0 && parse_decimal(take_word(text, '\n'), value);
}

// The value of a line "NAME VALUE" of the memory.stat of a group; 0 where there is none.
struct FilePages {
  uint64_t inactive = 0;
  uint64_t active = 0;
};
FilePages read_file_pages(std::string_view directory, Version version, Workspace& space) noexcept {
  FilePath& path = space.file_of_group;
  path.clear();
  LineReader lines(path.text(directory).text("/memory.stat").c_str(), space.stat_line);
  const std::string_view prefix = version == Version::one ? "total_" : "";
  FilePages pages;
  std::string_view line;
  while (lines.next(line)) {
    std::string_view name = take_word(line);
    if (part_of(name, 0, prefix.size()) != prefix) continue;
    name = part_of(name, prefix.size());
    if (name == "inactive_file") parse_decimal(line, pages.inactive);
    if (name == "active_file") parse_decimal(line, pages.active);
  }
  return pages;
}

void take_group(std::string_view directory, Version version, MemoryRoom& room,
                Workspace& space) noexcept {
  const bool is_one = version == Version::one;
  uint64_t limit = 0;
  uint64_t used = 0;
  // "max", and of version 1 a number that no machine has, is no limit.
  if (!read_number(directory, is_one ? "memory.limit_in_bytes" : "memory.max", limit, space)) {
    return;
  }
  if (limit >= UINT64_MAX / 4) return;
  if (!read_number(directory, is_one ? "memory.usage_in_bytes" : "memory.current", used, space)) {
    return;
  }
  const FilePages pages = read_file_pages(directory, version, space);
  const uint64_t reclaimable = pages.inactive + pages.active / 2;
  const uint64_t held = used - std::min(used, reclaimable);
  room.available_bytes = std::min(room.available_bytes, limit - std::min(limit, held));
  room.limit_bytes = std::min(room.limit_bytes, limit);
}

// The group and those that it is in, up to the mount point.
void take_groups(std::string_view mount_point, std::string_view group, Version version,
                 MemoryRoom& room, Workspace& space) noexcept {
  FilePath& directory = space.directory;
  directory.clear();
  directory.text(mount_point).text(group);
  if (directory.cut_bytes() != 0) return;
  std::string_view at = directory.view();
  while (at.size() >= mount_point.size()) {
    take_group(at, version, room, space);
    const size_t slash = at.rfind('/');
    if (slash == std::string_view::npos || at.size() == mount_point.size()) break;
    at = part_of(at, 0, slash);
  }
}

// /proc/self/mountinfo: "id parent device ROOT POINT options fields... - TYPE source OPTIONS".
void take_mount(std::string_view line, const char* root, MemoryRoom& room,
                Workspace& space) noexcept {
  for (int field = 0; field < 3; ++field) take_word(line);
  const std::string_view mount_root = take_word(line);
  const std::string_view mount_point = take_word(line);
  while (!line.empty() && take_word(line) != "-") {
  }
  const std::string_view type = take_word(line);
  const bool is_two = type == "cgroup2";
  take_word(line);
  if (!is_two && (type != "cgroup" || !lists(line, "memory"))) return;
  const GroupPath& group = is_two ? space.two : space.one;
  if (!group.is_known) return;
  TextWriter& point = space.mount_point;
  TextWriter& beginning = space.mount_root;
  point.clear();
  beginning.clear();
  point.text(root);
  unescape(point, mount_point);
  unescape(beginning, mount_root);
  if (point.cut_bytes() + beginning.cut_bytes() != 0) return;
  take_groups(point.view(), below_mount(group.path.view(), beginning.view()),
              is_two ? Version::two : Version::one, room, space);
}

// /proc/meminfo: "NAME:   VALUE kB".
void take_machine(const char* root, MemoryRoom& room, Workspace& space) noexcept {
  space.file.clear();
  LineReader lines(space.file.text(root).text("/proc/meminfo").c_str(), space.line);
  std::string_view line;
  while (lines.next(line)) {
    const std::string_view name = take_word(line, ':');
    if (name != "MemTotal" && name != "MemAvailable") continue;
    while (!line.empty() && line[0] == ' ') line.remove_prefix(1);
    uint64_t kilobytes = 0;
    if (!parse_decimal(take_word(line), kilobytes) || kilobytes > UINT64_MAX / 1024) continue;
    uint64_t& value = name == "MemTotal" ? room.limit_bytes : room.available_bytes;
    value = std::min(value, kilobytes * 1024);
  }
}

}  // namespace

MemoryRoom read_memory_room(const char* root) noexcept {
  MemoryRoom room;
  void* memory =
      mmap(nullptr, sizeof(Workspace), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {.available_bytes = 0};
  Workspace& space = *new (memory) Workspace;
  take_machine(root, room, space);
  read_group_paths(root, space);
  if (space.one.is_known || space.two.is_known) {
    space.file.clear();
    LineReader lines(space.file.text(root).text("/proc/self/mountinfo").c_str(), space.line);
    std::string_view line;
    while (lines.next(line)) take_mount(line, root, room, space);
  }
  munmap(memory, sizeof(Workspace));
  return room;
}

uint64_t history_bytes_in_memory(const MemoryRoom& room) noexcept {
  return std::min(kHistoryBytesInMemory, room.limit_bytes / kHistoryShareOfMemory);
}

}  // namespace rollcall::ring
