// Segment files as their writer sees them: append a block, start the next file when one is full,
// remove the oldest when the history bound is reached.
//
// No descriptor is kept between blocks: a job that closes every descriptor it does not know (as
// daemons do) could otherwise make the flusher write into one of the job's own files.
//
// Whoever else may write to the directory may put something under a segment's name: a pipe, a link,
// a file of his own. A segment is made where there was nothing, and is opened again, or removed,
// only as what it was made: by its header. Nothing that is opened can hold the caller.
//
// Threads: one at a time, as the flusher's passes. Every function may block on the disk.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "core/format/file_name.h"
#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"

namespace rollcall::capture {

class SegmentWriter {
 public:
  struct Options {
    const char* directory;  // outlive the writer
    const char* stem;
    SegmentKind kind;
    uint32_t pid;
    uint64_t start_time_ticks;
    uint64_t run_id;
    uint32_t time_shift;
    uint64_t bytes_max;
  };
  // False where the names of segments would be longer than a path may be (errno says so): then
  // nothing can be appended.
  bool begin(const Options& options) noexcept;
  // Another bound, from now on.
  void set_bytes_max(uint64_t bytes) noexcept;

  // Appends header and body of one block. False: nothing of it is on disk (errno says why), the
  // same block may be offered again later.
  bool append(std::span<const uint8_t> block) noexcept;

  // Segments started; bytes on disk; files removed for the bound.
  uint32_t segment_count() const noexcept { return next_index_; }
  uint64_t held_bytes() const noexcept { return held_bytes_; }
  uint64_t dropped_files() const noexcept { return dropped_files_; }
  // Names that were somebody else's, since the last question.
  uint64_t take_foreign_files() noexcept { return std::exchange(foreign_files_, 0); }

 private:
  SegmentHeader header_of(uint32_t index) const noexcept;
  bool is_ours(int descriptor, uint32_t index) const noexcept;
  int create_next() noexcept;
  bool start_segment(int& descriptor) noexcept;
  int open_again(uint32_t index, int flags) noexcept;
  enum class Dropped : uint8_t { done, missing, refused };
  void keep_bound() noexcept;
  Dropped drop_oldest() noexcept;
  void count_held() noexcept;

  Options options_{};
  bool has_names_ = false;
  uint64_t segment_bytes_max_ = 0;
  uint32_t next_index_ = 0;     // of the segment to start next
  uint32_t oldest_index_ = 0;   // of the oldest one still on disk
  uint64_t current_bytes_ = 0;  // of the open segment; 0: none
  uint64_t held_bytes_ = 0;
  uint64_t dropped_files_ = 0;
  uint64_t foreign_files_ = 0;
};

}  // namespace rollcall::capture
