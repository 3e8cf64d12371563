// Words that the GPU itself writes: the areas `graphs` and `progress` of the ring file, registered
// with the driver, so that a write on a stream (cuStreamWriteValue64), or a mark in a graph
// (marks.h), ends in the file. What they say is seen from outside also when the process is
// stopped or gone.
//
// Only of a file in memory (tmpfs). A driver that pins pages of a file on disk marks them dirty
// when it lets go of them, behind the file system's back, which Linux calls broken and refuses on
// most file systems since 6.5; an older one may lose data over it, or stop. On disk, and where the
// driver refuses, the words are in memory of the process, and copy() brings the positions of graphs
// to the file.
//
// A mark is tried out before one is put beside a stream of the job's, beside a stream of our own. A
// call that a capture does not allow would break it.
//
// Registering does not wait for a kernel that runs, but letting go does, and holds up all launches
// of the process meanwhile (seen with driver 580): what was registered stays so.
//
// Threads: prepare() and copy() from one at a time; address_of() after prepare().
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"
#include "core/gpu/driver.h"

namespace rollcall::gpu {

class Words {
 public:
  // Zeroes are its initial state. `memory` starts on a page; null: there are no words.
  // `may_register`: it is of no file on a disk.
  void begin(const Driver& driver, char* memory, uint64_t bytes, bool may_register) noexcept {
    driver_ = &driver;
    memory_ = memory;
    bytes_ = bytes;
    may_register_ = may_register;
  }

  // In the context that is current, in the relaxed capture mode. True when words can be written by
  // graphs and by streams. [cold]
  bool prepare() noexcept;
  // What came of it, for the meta area.
  const char* text() const noexcept { return text_; }
  // The GPU writes into the file itself.
  bool is_direct() const noexcept { return shadow_ == nullptr; }

  // Of a word in the file, for the driver.
  uint64_t address_of(const uint64_t& word) const noexcept {
    return device_address_ + static_cast<uint64_t>(reinterpret_cast<const char*>(&word) - memory_);
  }
  // The newest positions of the first `count` graphs, where the GPU cannot write them.
  void copy(GraphEntry* entries, uint32_t count) const noexcept;

 private:
  bool give_up(const char* reason) noexcept;
  bool device_can() const noexcept;
  bool register_memory(void* memory) noexcept;
  bool register_shadow() noexcept;
  bool survives_capture() noexcept;

  const Driver* driver_;
  char* memory_;
  uint64_t bytes_;
  bool may_register_;
  char* shadow_;  // null: the file itself
  uint64_t device_address_;
  const char* text_;
  int refusal_;  // the CUresult of the newest refusal
  char reason_[96];
};

}  // namespace rollcall::gpu
