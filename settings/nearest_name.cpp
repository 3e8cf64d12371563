#include "settings/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace rollcall::settings {
namespace {

constexpr size_t kSlipsMax = 2;

size_t slips_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  size_t least = kSlipsMax + 1;
  std::string_view found;
  for (const std::string_view candidate : known) {
    const auto [less, more] = std::minmax({name.size(), candidate.size()});
    if (more - less > kSlipsMax) continue;
    const size_t here = slips_between(name, candidate);
    if (here >= least) continue;
    least = here;
    found = candidate;
  }
  return found;
}

}  // namespace rollcall::settings
