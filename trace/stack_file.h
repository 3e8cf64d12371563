// What every thread of a process did at one moment: a <stem>.stacks file, read back
// (core/capture/stack_file.h writes it, docs/FORMAT.md has its grammar).
//
// Threads: plain functions. The text may be anybody's: it is bounded, and nothing in it is trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::trace {

struct StackThread {
  uint64_t number = 0;  // the kernel's, as the process sees it
  std::string name;     // empty, as the next three: the kernel did not tell
  std::string state;    // one letter, as in /proc/<pid>/stat
  std::string wait_channel;
  std::string system_call;  // number and arguments; "running"
  bool holds_gil = false;
  bool is_moving = false;           // its frames changed while they were read
  bool is_cut = false;              // outer frames are missing
  std::vector<std::string> frames;  // FILE:LINE FUNCTION, innermost first
};

struct StackFile {
  uint64_t pid = 0;
  int64_t realtime_ns = 0;  // when it was written
  bool is_from_outside = false;
  bool is_whole = false;      // it has its end, and nothing was left out
  std::string python;         // version; empty: not a Python program, or seen from outside
  std::string python_unread;  // why frames are missing
  std::vector<StackThread> threads;
};

// nullopt: not a text of stacks.
std::optional<StackFile> parse_stacks(std::string_view text_untrusted);
// The same of a file; no link is followed.
std::optional<StackFile> read_stack_file(const std::string& path);

}  // namespace rollcall::trace
