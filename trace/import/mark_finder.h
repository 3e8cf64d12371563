// Finds where the next of several words stands in a text, at about the speed of finding one.
//
// By Wu and Manber: a table says of each pair of bytes how far away from the end of a word's
// beginning it can stand at most, and so far the search jumps. A job's log is gigabytes in which
// few lines matter, so this is what reading one costs. Pairs share places of the table, which is
// as small as the processor's first cache wants it.
//
// Threads: finding is const, and may be done from several.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::trace {

class MarkFinder {
 public:
  // Two bytes each at least; there is one at least.
  explicit MarkFinder(std::vector<std::string> marks);
  // Where the first mark at or behind `from` begins; npos: there is none.
  size_t find(std::string_view text, size_t from) const;
  // Bytes of the longest mark.
  size_t longest() const { return longest_; }

 private:
  bool is_mark_at(std::string_view text, size_t at) const;

  std::vector<std::string> marks_;        // in their order
  std::array<uint16_t, 257> by_first_{};  // by their first byte: where those with it begin
  size_t shortest_ = 0;
  size_t longest_ = 0;
  std::array<uint8_t, 1 << 12> jumps_{};
};

}  // namespace rollcall::trace
