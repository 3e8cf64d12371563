#include "core/capture/segment_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/format/segment_layout.h"
#include "core/ring/ring_file.h"

namespace rollcall::capture {

namespace {

constexpr uint64_t kSegmentBytesMin = 64 * 1024;
constexpr uint64_t kCapturedBytesMin = 4 * 1024;  // they have a small part of the bound

bool write_all(int descriptor, const void* data, size_t bytes) noexcept {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t written = write(descriptor, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

// Names of segments that something else may have before it is tried again later.
constexpr uint32_t kNamesTakenMax = 64;

// A thread that ends the process may have little stack. One pass at a time is made.
constinit char path_room[ring::kPathBytes]{};

// Until the next call; null where it is longer than a path may be, with errno set.
const char* path_of(const SegmentWriter::Options& options, uint32_t index) noexcept {
  TextWriter path{std::span<char>(path_room)};
  path.text(options.directory).character('/');
  write_segment_name(path, {options.stem, options.kind, index});
  const char* text = path.c_str();
  if (path.cut_bytes() == 0) return text;
  errno = ENAMETOOLONG;
  return nullptr;
}

}  // namespace

bool SegmentWriter::begin(const Options& options) noexcept {
  *this = SegmentWriter{};
  options_ = options;
  // A small bound still wants several files, or dropping the oldest would drop everything.
  const bool is_captured = options.kind == SegmentKind::captured;
  segment_bytes_max_ = std::clamp(
      options.bytes_max / 4, is_captured ? kCapturedBytesMin : kSegmentBytesMin, kSegmentBytesMax);
  has_names_ = path_of(options_, UINT32_MAX) != nullptr;
  return has_names_;
}

SegmentHeader SegmentWriter::header_of(uint32_t index) const noexcept {
  SegmentHeader header{};
  header.magic = kSegmentMagic;
  header.version = kSegmentVersion;
  header.endian_mark = kEndianMark;
  header.pid = options_.pid;
  header.index = index;
  header.start_time_ticks = options_.start_time_ticks;
  header.run_id = options_.run_id;
  header.time_shift = options_.time_shift;
  return header;
}

// Made by this writer: nobody else has a reason to write this header.
bool SegmentWriter::is_ours(int descriptor, uint32_t index) const noexcept {
  const SegmentHeader wanted = header_of(index);
  SegmentHeader found_untrusted{};
  const ssize_t bytes = pread(descriptor, &found_untrusted, sizeof(found_untrusted), 0);
  return bytes == static_cast<ssize_t>(sizeof(wanted)) &&
         memcmp(&found_untrusted, &wanted, sizeof(wanted)) == 0;
}

// One of our segments that is there already: ENOENT where it is not, whatever else has its name.
int SegmentWriter::open_again(uint32_t index, int flags) noexcept {
  const char* path = path_of(options_, index);
  if (path == nullptr) return -1;
  const int descriptor = open_file(path, flags | O_NOFOLLOW | O_NONBLOCK);
  const bool is_no_file = descriptor < 0 && (errno == ELOOP || errno == ENXIO || errno == EISDIR);
  if (descriptor < 0 && !is_no_file) return -1;
  if (descriptor >= 0 && is_ours(descriptor, index)) return descriptor;
  if (descriptor >= 0) close(descriptor);
  ++foreign_files_;
  errno = ENOENT;
  return -1;
}

// Under the next name that nobody has taken.
int SegmentWriter::create_next() noexcept {
  for (uint32_t attempt = 0; attempt < kNamesTakenMax; ++attempt, ++next_index_) {
    const char* path = path_of(options_, next_index_);
    if (path == nullptr) return -1;
    const int descriptor = open_file(
        path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK, S_IRUSR | S_IWUSR);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
    ++foreign_files_;
  }
  return -1;
}

bool SegmentWriter::start_segment(int& descriptor) noexcept {
  descriptor = create_next();
  if (descriptor < 0) return false;
  const SegmentHeader header = header_of(next_index_);
  if (!write_all(descriptor, &header, sizeof(header))) {
    const int error = errno;
    close(descriptor);
    unlink(path_of(options_, next_index_));  // the next attempt makes it anew
    errno = error;
    return false;
  }
  ++next_index_;
  current_bytes_ = sizeof(header);
  held_bytes_ += sizeof(header);
  return true;
}

bool SegmentWriter::append(std::span<const uint8_t> block) noexcept {
  if (!ROLLCALL_CHECK(!block.empty())) return false;
  if (!has_names_) {
    errno = ENAMETOOLONG;
    return false;
  }
  if (current_bytes_ != 0 && current_bytes_ + block.size() > segment_bytes_max_) {
    current_bytes_ = 0;
  }
  int descriptor = -1;
  if (current_bytes_ == 0) {
    if (!start_segment(descriptor)) return false;
  } else {
    descriptor = open_again(next_index_ - 1, O_RDWR | O_APPEND);
    if (descriptor < 0 && errno == ENOENT) {
      // Somebody removed the file, or put something else in its place. What was in it is their
      // business; go on with the next one.
      held_bytes_ -= std::min(held_bytes_, current_bytes_);
      current_bytes_ = 0;
      if (!start_segment(descriptor)) return false;
    }
    if (descriptor < 0) return false;
  }
  const bool written = ring::leaves_room(descriptor, block.size(), kDiskKeptBesideHistory) &&
                       write_all(descriptor, block.data(), block.size());
  const int error = errno;
  if (!written && ftruncate(descriptor, static_cast<off_t>(current_bytes_)) != 0) {
    // Half a block stays behind, which readers see by its length; the file is left at that.
    current_bytes_ = 0;
  }
  close(descriptor);
  if (!written) {
    errno = error;
    return false;
  }
  current_bytes_ += block.size();
  held_bytes_ += block.size();
  keep_bound();
  return true;
}

void SegmentWriter::set_bytes_max(uint64_t bytes) noexcept {
  options_.bytes_max = bytes;
  keep_bound();
}

void SegmentWriter::keep_bound() noexcept {
  bool is_counted = false;
  while (held_bytes_ > options_.bytes_max && oldest_index_ + 1 < next_index_) {
    const Dropped dropped = drop_oldest();
    if (dropped == Dropped::refused) return;
    // Somebody else removed it, and perhaps others.
    if (dropped == Dropped::missing && !std::exchange(is_counted, true)) count_held();
  }
}

SegmentWriter::Dropped SegmentWriter::drop_oldest() noexcept {
  const int descriptor = open_again(oldest_index_, O_RDONLY);
  if (descriptor < 0 && errno != ENOENT) return Dropped::refused;
  if (descriptor < 0) {
    ++oldest_index_;
    return Dropped::missing;
  }
  const off_t bytes = lseek(descriptor, 0, SEEK_END);
  close(descriptor);
  if (unlink(path_of(options_, oldest_index_)) != 0) return Dropped::refused;
  ++oldest_index_;
  held_bytes_ -= std::min<uint64_t>(held_bytes_, bytes > 0 ? static_cast<uint64_t>(bytes) : 0);
  ++dropped_files_;
  return Dropped::done;
}

// What is still there.
void SegmentWriter::count_held() noexcept {
  held_bytes_ = 0;
  for (uint32_t index = oldest_index_; index < next_index_; ++index) {
    const int descriptor = open_again(index, O_RDONLY);
    if (descriptor < 0) continue;
    const off_t bytes = lseek(descriptor, 0, SEEK_END);
    close(descriptor);
    if (bytes > 0) held_bytes_ += static_cast<uint64_t>(bytes);
  }
}

}  // namespace rollcall::capture
