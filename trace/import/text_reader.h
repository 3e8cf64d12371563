// Reads a text of any size, once, and gives each parser the lines that it asked for.
//
// What a text may be: bytes of any kind. Lines end with "\n", "\r\n" or a lone "\r" (progress
// bars); colours and other escapes of terminals are taken out; NUL bytes at a line's begin or end
// are what a log is full of after it was cut while open, and are passed over, those within a line
// damage it (TextLine::is_damaged). A line longer than kLineBytesMax is cut and counted. Where the
// text was copied from a terminal that broke its lines, these are joined again.
//
// Memory: two blocks of kBlockBytes, whatever the text.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/byte_stream.h"
#include "trace/import/line_parser.h"
#include "trace/import/mark_finder.h"

namespace rollcall::trace {

inline constexpr size_t kLineBytesMax = 1 << 16;

// What was read, whatever the parsers made of it.
struct TextCounts {
  uint64_t bytes = 0;
  uint64_t lines = 0;
  uint64_t last_line = 0;  // number of the last that is not empty; 0: all are
  uint64_t given = 0;      // lines that parsers were given
  uint64_t cut = 0;        // of these, or of what may have been these, longer than kLineBytesMax
  uint64_t damaged = 0;    // of these, with NUL bytes within
  uint64_t joined = 0;     // line ends that a terminal had put in
};

class TextReader {
 public:
  // Both outlive the object.
  TextReader(ByteStream& stream, const std::vector<std::unique_ptr<LineParser>>& parsers);
  TextCounts read();

 private:
  size_t fill();
  void skip_long_line();
  void take_block(std::string_view block);
  std::string_view cleaned(std::string_view block);
  std::string_view unwrapped_lines(std::string_view block);
  bool goes_on(std::string_view line, std::string_view next);
  void renew_marks();
  void give_lines(std::string_view block);
  void count_last_line(std::string_view block);
  uint64_t lines_within(std::string_view block, size_t from, size_t to);
  size_t read_plain_lines(std::string_view text);
  bool is_passed_over(std::string_view line, size_t mark);
  void give(std::string_view line, uint64_t number);

  ByteStream& stream_;
  const std::vector<std::unique_ptr<LineParser>>& parsers_;
  MarkFinder marks_;
  size_t marks_count_ = 0;  // of all parsers, when `marks_` was made
  PrefixTaker prefixes_;
  std::vector<char> block_;
  size_t held_ = 0;  // bytes of `block_`
  std::string clean_;
  std::string joined_;
  std::vector<size_t> joints_;  // of the block: where a line end was taken out
  size_t joints_counted_ = 0;
  std::string message_;
  size_t width_ = 0;  // of the terminal that broke the lines; 0: none did
  bool is_first_ = true;
  bool has_ended_ = false;
  bool wants_next_ = false;
  LineParser* plain_ = nullptr;  // the parser that has plain lines
  LineParser* noisy_ = nullptr;  // the parser that has a noisy mark
  std::string_view noisy_mark_;
  std::vector<std::string_view> short_marks_;  // of all parsers
  bool is_alone_ = true;                       // no other one wants the next line
  TextCounts counts_;
};

}  // namespace rollcall::trace
