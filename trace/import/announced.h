// Whom the next lines are about, where a line in front of them says so: the rank in front of its
// traceback, the GPU in front of what became of it, the block in which Ray describes an actor.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/import/line_parser.h"
#include "trace/import/line_writer.h"
#include "trace/testimony.h"

namespace rollcall::trace {

class Announced {
 public:
  // `line` names `who`.
  void read(const TextLine& line, std::string who);
  // Whom `line` is about, where the writer of `line` named one, and no other since, in the few
  // lines in front of it; else empty. It is asked once.
  std::string take(const TextLine& line);

 private:
  static constexpr uint64_t kReach = 3;  // lines
  LineWriter writer_;
  std::string who_;
  uint64_t line_ = 0;
  bool is_one_ = true;  // not so where several were named, and none was asked for between
};

// "pid: 4711", "name: Worker_0:0", "ip: 10.0.0.7" on lines of their own.
class RayActor {
 public:
  // `line` is in front of the block.
  void begin(uint64_t line);
  bool is_open() const { return begin_ != 0; }
  // Asked of each line behind it.
  void read(std::string_view text, uint64_t line);
  // Whose end it is, where the block stands right in front of it.
  void give_to(Saying& saying);

 private:
  static constexpr uint64_t kReach = 10;  // lines
  uint64_t begin_ = 0;                    // 0: none is open
  std::string pid_;
  std::string name_;
  std::string host_;
};

}  // namespace rollcall::trace
