// Text of anybody's, made safe for a page: nothing in it can be markup, end a script, or turn the
// rest of a line around.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::report {

// A name that is longer is cut, and ends in an ellipsis.
inline constexpr size_t kNameBytesMax = 240;
inline constexpr size_t kSentenceBytesMax = 4000;

// Printable, and cut to about so many bytes, never inside a character.
std::string shown(std::string_view text, size_t bytes_max = kNameBytesMax);
// The same, with &, <, >, " and ' as references: for an element's text or a quoted attribute.
std::string escaped(std::string_view text, size_t bytes_max = kSentenceBytesMax);
// A JSON document as the text of a script element: no "<", no line separator, all ASCII if it was.
std::string inside_script(std::string_view json);

// A table, row by row. Rows behind `rows_max` are counted in a last line.
class HtmlTable {
 public:
  HtmlTable(std::vector<std::string> head, size_t rows_max);
  void add(const std::vector<std::string>& cells, std::string_view row_class = {});
  bool empty() const { return rows_ == 0; }
  size_t rows() const { return rows_; }
  std::string html() const;

 private:
  std::vector<std::string> head_;
  std::string body_;
  size_t rows_ = 0;
  size_t rows_max_;
};

}  // namespace rollcall::report
