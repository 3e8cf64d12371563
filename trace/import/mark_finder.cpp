#include "trace/import/mark_finder.h"

#include <algorithm>

namespace rollcall::trace {
namespace {

size_t pair_at(std::string_view text, size_t at) {
  return static_cast<size_t>(static_cast<uint8_t>(text[at]) << 4 ^
                             static_cast<uint8_t>(text[at + 1]));
}

}  // namespace

MarkFinder::MarkFinder(std::vector<std::string> marks) : marks_(std::move(marks)) {
  const auto byte_of = [](const std::string& mark) { return static_cast<uint8_t>(mark[0]); };
  std::sort(marks_.begin(), marks_.end());
  for (const std::string& mark : marks_) ++by_first_[byte_of(mark) + 1U];
  for (size_t i = 1; i < by_first_.size(); ++i) {
    by_first_[i] = static_cast<uint16_t>(by_first_[i] + by_first_[i - 1]);
  }
  constexpr size_t kJumpMax = 255;
  shortest_ = kJumpMax;
  for (const std::string& mark : marks_) {
    shortest_ = std::min(shortest_, mark.size());
    longest_ = std::max(longest_, mark.size());
  }
  shortest_ = std::max<size_t>(shortest_, 2);
  jumps_.fill(static_cast<uint8_t>(shortest_ - 1));
  for (const std::string& mark : marks_) {
    for (size_t at = 0; at + 1 < shortest_; ++at) {
      uint8_t& jump = jumps_[pair_at(mark, at)];
      jump = std::min(jump, static_cast<uint8_t>(shortest_ - 2 - at));
    }
  }
}

bool MarkFinder::is_mark_at(std::string_view text, size_t at) const {
  const std::string_view rest = text.substr(at);
  const auto first = static_cast<uint8_t>(text[at]);
  return std::any_of(marks_.begin() + by_first_[first], marks_.begin() + by_first_[first + 1U],
                     [&](const std::string& mark) {
                       return rest.size() > 1 && rest[1] == mark[1] && rest.starts_with(mark);
                     });
}

size_t MarkFinder::find(std::string_view text, size_t from) const {
  // `at`: where the last pair of the first `shortest_` bytes of a mark would stand.
  for (size_t at = from + shortest_ - 2; at + 1 < text.size();) {
    const uint8_t jump = jumps_[pair_at(text, at)];
    if (jump != 0) {
      at += jump;
      continue;
    }
    const size_t begin = at + 2 - shortest_;
    if (is_mark_at(text, begin)) return begin;
    ++at;
  }
  return std::string_view::npos;
}

}  // namespace rollcall::trace
