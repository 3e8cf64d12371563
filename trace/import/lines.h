// Text files line by line.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rollcall::trace {

// Calls `take` for each line of `bytes`, without its "\n" or "\r\n"; the last line needs none.
template <typename Take>
void for_each_line(std::span<const uint8_t> bytes, Take&& take) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take(line);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace rollcall::trace
