#include "tests/sim/known_wrong.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace rollcall::sim {

KnownWrong::KnownWrong(std::istream& list) {
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line.front() == '#') continue;
    uint64_t seed = 0;
    const char* const end = line.data() + line.size();
    const auto [parsed_to, error] = std::from_chars(line.data(), end, seed);
    const bool is_seed = error == std::errc() && parsed_to == end;
    if (is_seed) {
      seeds_.insert(seed);
    } else {
      errors_ += fmt::format("\"{}\" is no seed\n", line);
    }
  }
}

void KnownWrong::judged(uint64_t seed, bool is_wrong) {
  seen_.insert(seed);
  if (is_wrong && !contains(seed)) errors_ += fmt::format("seed {} is judged wrong\n", seed);
  if (!is_wrong && contains(seed)) {
    errors_ += fmt::format("seed {} is not judged wrong any more: remove it from the list\n", seed);
  }
}

void KnownWrong::judged_all(uint64_t first, uint64_t last) {
  for (const uint64_t seed : seeds_) {
    if (seed < first || seed > last || seen_.count(seed) != 0) continue;
    errors_ += fmt::format("seed {} makes no job: remove it from the list\n", seed);
  }
}

}  // namespace rollcall::sim
