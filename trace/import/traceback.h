// Python's tracebacks in a log that all ranks write to: which line ends one.
//
// "Traceback (most recent call last):", lines that are indented, and then the exception: anybody
// may print a line like that one, and only behind the others it tells what somebody raised. Of
// several processes the lines may be mixed, and of several that are open the oldest one ends first.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/import/line_parser.h"
#include "trace/import/line_writer.h"

namespace rollcall::trace {

class Tracebacks {
 public:
  // `line` may be the first of one. One that names its rank is none of these: what it raised is
  // known by that.
  void begin(const TextLine& line);
  bool are_open() const { return !open_.empty(); }
  // Whether `line`, each one behind the first, is the exception that ends one. `has_form` says
  // whether it has the form.
  bool is_end(const TextLine& line, bool has_form);

 private:
  struct Open {
    LineWriter writer;
    uint64_t line = 0;
  };
  std::vector<Open> open_;
};

// The name of the exception that `text` may be the last line of a traceback about; empty: it is
// none, or one that no rank raised: launchers have some of their own.
std::string_view raised_exception(std::string_view text);

}  // namespace rollcall::trace
