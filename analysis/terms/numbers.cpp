#include "analysis/terms/numbers.h"

#include <fmt/format.h>

#include <algorithm>

namespace rollcall::analysis {

std::string number_list(std::vector<int32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  constexpr size_t kSteppedMin = 5;
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    const int64_t step = i + 1 < numbers.size() ? int64_t{numbers[i + 1]} - numbers[i] : 1;
    size_t last = i;
    while (last + 1 < numbers.size() && int64_t{numbers[last + 1]} - numbers[last] == step) ++last;
    if (step != 1 && last - i + 1 < kSteppedMin) last = i;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", numbers[i]);
    if (last != i) text += fmt::format("-{}", numbers[last]);
    if (last != i && step != 1) text += fmt::format(" step {}", step);
    i = last + 1;
  }
  return text;
}

std::string number_text(uint64_t number, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", number, number == 1 ? one : several);
}

std::string times_text(uint64_t times) { return number_text(times, "time", "times"); }

std::string span_text(int64_t span_ns) {
  const double seconds = static_cast<double>(std::max<int64_t>(span_ns, 0)) / 1e9;
  if (seconds >= 7200) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.0f} us", seconds * 1e6);
}

}  // namespace rollcall::analysis
