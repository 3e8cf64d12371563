#include "trace/import/torn_line.h"

#include <string_view>

#include "trace/import/line_words.h"

namespace rollcall::trace {

std::optional<TornLine> line_within(const TextLine& line) {
  constexpr std::string_view kBegin = "[rank";
  if (line.prefix.rank < 0) return {};
  // A text that was taken out of JSON lies elsewhere.
  const bool is_tail = line.text.data() + line.text.size() == line.whole.data() + line.whole.size();
  for (size_t at = line.text.find(kBegin); at != line.text.npos;
       at = line.text.find(kBegin, at + 1)) {
    const std::string_view behind = line.text.substr(at);
    const size_t end = behind.find_first_not_of("0123456789", kBegin.size());
    if (end == behind.npos || !behind.substr(end).starts_with("]:[")) continue;
    TornLine torn{line, line};
    torn.front.text = line.text.substr(0, at);
    torn.front.whole =
        is_tail ? line.whole.substr(0, line.whole.size() - behind.size()) : torn.front.text;
    torn.behind.whole = behind;
    torn.behind.text = behind.substr(end + 2);
    torn.behind.prefix.rank = rank_between(behind, kBegin, "]");
    return torn;
  }
  return {};
}

}  // namespace rollcall::trace
