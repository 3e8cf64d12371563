// Python's tracebacks in a log that all ranks write to: which line ends one.
//
// "Traceback (most recent call last):", lines that are indented, and then the exception: anybody
// may print a line like that one, and only behind the others it tells what somebody raised. Of
// several processes the lines may be mixed, and of several that are open the oldest one ends first.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/line_parser.h"
#include "trace/import/line_writer.h"
#include "trace/testimony.h"

namespace rollcall::trace {

class Tracebacks {
 public:
  // `line` may be the first of one, by `who` as a line in front of it tells, if any does. Where it
  // names its rank, only lines of that rank are of it.
  void begin(const TextLine& line, std::string who);
  bool are_open() const { return !open_.empty(); }
  // Asked of each line behind the first: where it is the exception that ends one, whose it is,
  // which may be empty: `who`, or the place that the first line named ("SGLang's TP3"). `has_form`
  // says whether it has the form of an exception.
  std::optional<std::string> end(const TextLine& line, bool has_form);

 private:
  struct Open {
    LineWriter writer;
    int32_t rank = -1;
    std::string who;
    uint64_t line = 0;
  };
  std::vector<Open> open_;
};

// The name of the exception that `text` may be the last line of a traceback about; empty: it is
// none, or one that no rank raised: launchers have some of their own.
std::string_view raised_exception(std::string_view text);

// A log that tells of errors, which a program may have got over, and of nothing else. Results of
// NCCL on their way up stand in healthy logs.
bool is_of_errors(const JobLog& log);

}  // namespace rollcall::trace
