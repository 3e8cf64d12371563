#include "core/capture/segment_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"
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

}  // namespace

void SegmentWriter::begin(const Options& options) noexcept {
  *this = SegmentWriter{};
  options_ = options;
  // A small bound still wants several files, or dropping the oldest would drop everything.
  const bool is_captured = options.kind == SegmentKind::captured;
  segment_bytes_max_ = std::clamp(
      options.bytes_max / 4, is_captured ? kCapturedBytesMin : kSegmentBytesMin, kSegmentBytesMax);
}

int SegmentWriter::open_segment(uint32_t index, int flags) const noexcept {
  TextBuffer<ring::kPathBytes> path;
  path.text(options_.directory).character('/');
  write_segment_name(path, {options_.stem, options_.kind, index});
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags,
              S_IRUSR | S_IWUSR);
}

bool SegmentWriter::start_segment(int& descriptor) noexcept {
  descriptor = open_segment(next_index_, O_CREAT | O_TRUNC);
  if (descriptor < 0) return false;
  SegmentHeader header{};
  header.magic = kSegmentMagic;
  header.version = kSegmentVersion;
  header.endian_mark = kEndianMark;
  header.pid = options_.pid;
  header.index = next_index_;
  header.start_time_ticks = options_.start_time_ticks;
  header.run_id = options_.run_id;
  header.time_shift = options_.time_shift;
  if (!write_all(descriptor, &header, sizeof(header))) {
    const int error = errno;
    close(descriptor);
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
  if (current_bytes_ != 0 && current_bytes_ + block.size() > segment_bytes_max_) {
    current_bytes_ = 0;
  }
  int descriptor = -1;
  if (current_bytes_ == 0) {
    if (!start_segment(descriptor)) return false;
  } else {
    descriptor = open_segment(next_index_ - 1, 0);
    if (descriptor < 0 && errno == ENOENT) {
      // Somebody removed the file. What was in it is their business; go on with the next one.
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
  TextBuffer<ring::kPathBytes> path;
  path.text(options_.directory).character('/');
  write_segment_name(path, {options_.stem, options_.kind, oldest_index_});
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0 && errno != ENOENT) return Dropped::refused;
  if (descriptor < 0) {
    ++oldest_index_;
    return Dropped::missing;
  }
  const off_t bytes = lseek(descriptor, 0, SEEK_END);
  close(descriptor);
  if (unlink(path.c_str()) != 0) return Dropped::refused;
  ++oldest_index_;
  held_bytes_ -= std::min<uint64_t>(held_bytes_, bytes > 0 ? static_cast<uint64_t>(bytes) : 0);
  ++dropped_files_;
  return Dropped::done;
}

// What is still there.
void SegmentWriter::count_held() noexcept {
  held_bytes_ = 0;
  for (uint32_t index = oldest_index_; index < next_index_; ++index) {
    const int descriptor = open_segment(index, 0);
    if (descriptor < 0) continue;
    const off_t bytes = lseek(descriptor, 0, SEEK_END);
    close(descriptor);
    if (bytes > 0) held_bytes_ += static_cast<uint64_t>(bytes);
  }
}

}  // namespace rollcall::capture
