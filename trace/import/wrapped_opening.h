// The opening of a line of PyTorch's watchdog that a terminal or a logger wrapped.
//
// Such a line is known by the words behind its header: "[rank6]:[E429 13:55:49.3
// ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 6] ProcessGroupNCCL's watchdog got
// stuck for". Where it was wrapped within them, the first piece holds no mark, and a later one does
// not name the rank. Joined is only what can be nothing else: each piece goes on exactly where the
// last one ended, in the middle of a word or behind it.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/line_parser.h"
#include "trace/import/line_writer.h"

namespace rollcall::trace {

// Every line that may be the first piece holds one of these.
inline constexpr std::string_view kHeaderMarks[] = {"ProcessGroupNCCL.cpp:", "WorkNCCL.cpp:"};

class WrappedOpening {
 public:
  bool is_begun() const { return !ends_.empty(); }
  // Keeps `line` where it ends within such an opening; false: it does not.
  bool begin(const TextLine& line);
  // Joins `next` to what is kept; false: that is no piece of it, and nothing is kept any more.
  bool join(const TextLine& next);
  // The opening is complete.
  bool is_whole() const;
  // What is kept, as one line. Valid until the object changes.
  TextLine line() const;
  void drop() { ends_.clear(); }

 private:
  void put_together();

  // The first piece, and what may come behind it: whether a blank stood where the line was wrapped
  // shows further on.
  std::string first_text_;
  std::string first_whole_;
  std::vector<std::string> ends_;
  // With the first of these.
  std::string text_;
  std::string whole_;
  uint64_t number_ = 0;
  LinePrefix prefix_;  // its views are empty
  LineWriter writer_;
};

}  // namespace rollcall::trace
