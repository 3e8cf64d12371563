// The copy, in the run directory, of a ring that lives elsewhere (core/format/ring_copy.h).
//
// Invariants
//   * Nothing of the file is ever mapped: whatever its file system answers is a return code.
//   * A slot of the copy is whole, torn as the ring's own was, or empty. The copy shows the moment
//     at which the header was read, before all else: slots with later tickets are empty in it.
//   * The header is written last, so the first copy is not a ring file before it is whole. A reader
//     that comes in the middle of a later copying sees an old header and some newer records, as of
//     a file that is mapped.
//   * FileHeader::capture_switch is written by readers only (`rollcall ctl`): what changes there is
//     taken over into the ring.
//
// Only pages that changed are written: a digest of 64 bits is kept of each. Two pages of one
// digest, 1 in 2^64, cost that page's news until it changes again. No descriptor is kept between
// copies (core/capture/segment_writer.h says why); the file's identity tells whether it is still
// ours.
//
// Threads: one at a time. Reads the ring while others write it. May block on the file system.
#pragma once

#include <cstdint>

#include "core/ring/ring_file.h"

namespace rollcall::ring {

class Mirror {
 public:
  // False, and counted by nobody: no memory.
  bool begin(const RingFile& live) noexcept;
  bool is_begun() const noexcept { return digests_ != nullptr; }

  // Makes the file, in a directory that exists; `stem` receives the stem used. False with errno
  // set.
  bool create(const char* directory, const Incarnation& incarnation, TextWriter& stem) noexcept;
  bool is_created() const noexcept { return path_[0] != '\0'; }

  // Brings the file up to date. False with errno set: what is missing is written the next time.
  bool copy(uint64_t now_ticks) noexcept;

 private:
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t kRunPagesMax = 16;  // neighbours that are written at once

  int open_file() const noexcept;
  bool copy_into(int descriptor, uint64_t now_ticks) noexcept;
  void take_switch(int descriptor) noexcept;
  bool copy_pages(int descriptor, const FileHeader& moment) noexcept;
  void read_page(uint64_t page, const FileHeader& moment, char* to) const noexcept;
  bool write_run(int descriptor, uint64_t first_page, uint64_t pages) noexcept;
  bool write_header(int descriptor, uint64_t now_ticks) noexcept;

  RingFile live_{};
  FileIdentity identity_{};
  uint64_t* digests_ = nullptr;  // of each page as it is on file
  uint64_t pages_ = 0;
  uint32_t switch_seen_ = 0;
  bool is_whole_ = false;  // the file has a header
  char path_[kPathBytes]{};
  alignas(64) char header_[kPageBytes]{};
  alignas(64) char run_[kRunPagesMax * kPageBytes]{};
  uint64_t run_digests_[kRunPagesMax]{};
};

}  // namespace rollcall::ring
