// What happens to logs on their way: lines are lost, cut, doubled, torn, and written into each
// other. One seed, one damage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace rollcall::trace {

// A log with `changes` of its lines, or its head or end, changed.
inline std::string damaged(std::vector<std::string> lines, uint32_t seed, int changes = 3) {
  std::mt19937 random(seed);
  for (int change = 0; change < changes; ++change) {
    const size_t at = random() % lines.size();
    const size_t cut = random() % std::max<size_t>(lines[at].size(), 1);
    const auto here = lines.begin() + static_cast<ptrdiff_t>(at);
    switch (random() % 7) {
      case 0:  // lost
        lines.erase(here);
        break;
      case 1:  // cut, and the rest lost
        lines[at] = lines[at].substr(0, cut) + "\n";
        break;
      case 2:  // torn in two
        lines[at].insert(cut, "\n");
        break;
      case 3:  // written into another
        lines[at].insert(cut, lines[(at + 1) % lines.size()]);
        break;
      case 4:  // later than it was made, as what a pipe held back
        if (at + 1 < lines.size()) std::swap(lines[at], lines[at + 1]);
        break;
      case 5:  // there twice
        lines.insert(here, std::string(lines[at]));
        break;
      default:  // the head, or the end, of the file
        if (random() % 2 == 0) {
          lines.erase(lines.begin(), here);
        } else {
          lines.resize(at + 1);
        }
    }
    if (lines.empty()) lines.push_back("\n");
  }
  std::string log;
  for (const std::string& line : lines) log += line;
  return log;
}

// With their ends.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return lines;
}

}  // namespace rollcall::trace
