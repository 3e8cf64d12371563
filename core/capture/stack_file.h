// <stem>.stacks: what every thread of the process does at one moment, for `rollcall stacks`
// (docs/FORMAT.md has the text's grammar).
//
// Written by the flusher when a reader asks for it (core/format/stack_request.h), without the help
// of any other thread: the kernel tells what the threads wait for, and whoever knows the job's
// language adds the frames. The file gets its name once it is whole; it replaces an older one.
//
// Threads: the flusher's alone, but for set_frame_source().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/text.h"
#include "core/format/stack_request.h"

namespace rollcall::capture {

// A file that grows line by line, up to kStackFileBytesMax.
class StackFile {
 public:
  StackFile() noexcept : buffer_(std::span<char>(storage_)) {}
  ~StackFile();
  StackFile(const StackFile&) = delete;
  StackFile& operator=(const StackFile&) = delete;

  bool create(const char* directory, std::string_view stem) noexcept;
  // "<key> <value>", the value escaped as in the meta area. From the first line on that is beyond
  // the bound all are left out: a shorter one behind it would be read as the next thread's.
  void line(std::string_view key, std::string_view value) noexcept;
  void line(std::string_view key, uint64_t value) noexcept;
  // Something was left out for another reason than the bound.
  void note_cut() noexcept { is_cut_ = true; }
  // Says whether something was left out, ends the text and gives the file its name.
  bool finish() noexcept;

 private:
  void flush() noexcept;

  char path_[4096] = {};
  char temporary_[4096] = {};
  char storage_[16 * 1024];
  TextWriter buffer_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
  bool is_cut_ = false;
  bool is_full_ = false;
  bool has_failed_ = false;
};

// Everything, with the frames where set_frame_source() was told of somebody who knows them.
bool write_stacks(const char* directory, std::string_view stem) noexcept;

}  // namespace rollcall::capture
