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
  // Calls `take` with the number of each mark, in marks(), wherever it stands.
  template <typename Take>
  void for_each(std::string_view text, Take&& take) const {
    for (size_t at = 0; (at = find(text, at)) != std::string_view::npos; ++at) {
      const auto first = static_cast<uint8_t>(text[at]);
      for (size_t i = by_first_[first]; i < by_first_[first + 1U]; ++i) {
        if (text.substr(at).starts_with(marks_[i])) take(i);
      }
    }
  }
  const std::vector<std::string>& marks() const { return marks_; }
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
