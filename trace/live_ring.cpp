#include "trace/live_ring.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "core/format/header_check.h"
#include "core/format/ring_copy.h"
#include "trace/field_text.h"
#include "trace/regular_file.h"

namespace rollcall::trace {
namespace {

struct RingHead {
  FileHeader header{};
  RingCopyNote note{};
  uid_t owner = 0;
};

std::optional<RingHead> read_head(const std::string& path) {
  const int descriptor = open_regular(AT_FDCWD, path, O_RDONLY, Links::refused);
  if (descriptor < 0) return std::nullopt;
  RingHead head;
  struct stat status {};
  std::array<std::byte, kHeaderBytes> page{};
  const bool is_read = ::fstat(descriptor, &status) == 0 &&
                       ::pread(descriptor, page.data(), page.size(), 0) == ssize_t{kHeaderBytes};
  ::close(descriptor);
  if (!is_read || judge_header(page, static_cast<uint64_t>(status.st_size), head.header) !=
                      HeaderVerdict::fine) {
    return std::nullopt;
  }
  std::memcpy(&head.note, page.data() + kRingCopyNoteOffset, sizeof head.note);
  head.owner = status.st_uid;
  return head;
}

bool is_of_this_boot(const FileHeader& header) {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  return !boot_id.empty() && boot_id == field_text(header.boot_id);
}

bool are_of_one_process(const FileHeader& a, const FileHeader& b) {
  return a.pid == b.pid && a.start_time_ticks == b.start_time_ticks && a.run_id == b.run_id &&
         a.pid_namespace == b.pid_namespace && field_text(a.boot_id) == field_text(b.boot_id) &&
         field_text(a.host) == field_text(b.host) &&
         std::memcmp(&a.first_anchor, &b.first_anchor, sizeof a.first_anchor) == 0;
}

}  // namespace

LiveRing find_live_ring(const std::string& path) {
  LiveRing found;
  const std::optional<RingHead> copy = read_head(path);
  if (!copy || copy->note.is_copy != 1) return found;
  found.is_copy = true;
  found.copied_ticks = copy->note.copied_ticks;
  const std::string live_path = field_text(copy->note.live_path);
  if (!live_path.starts_with('/') || !is_of_this_boot(copy->header)) return found;
  const std::optional<RingHead> live = read_head(live_path);
  if (live && live->note.is_copy == 0 && live->owner == copy->owner &&
      are_of_one_process(live->header, copy->header)) {
    found.path = live_path;
  }
  return found;
}

}  // namespace rollcall::trace
