// How often `rollcall slow` is right on random jobs of the virtual cluster, beside what is done
// today: the tables of docs/measurements, as text.
//
//   slow_accuracy FIRST SEEDS [FAMILY]   seeds from FIRST on, SEEDS for each family
//
// ROLLCALL_SLOW_CASES=1 prints a line for each job that was not judged right, on stderr.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/slow/score.h"

namespace rollcall::timed {
namespace {

constexpr size_t kOutcomes = 3;
using Counts = std::array<size_t, kOutcomes>;  // right, wrong, abstained

struct Row {
  size_t jobs = 0;
  Counts ours{};
  Counts last_arrivals{};
  Counts dixon_votes{};
  size_t class_right = 0;
  size_t class_due = 0;
  size_t without_cause = 0;  // something was said, and nothing is due

  void add(const Scored& scored) {
    ++jobs;
    ++ours[static_cast<size_t>(scored.ours)];
    ++last_arrivals[static_cast<size_t>(scored.last_arrivals)];
    ++dixon_votes[static_cast<size_t>(scored.dixon_votes)];
    if (scored.truth.verdict.empty() && !scored.verdict.empty()) ++without_cause;
    if (scored.truth.verdict.empty() || scored.verdict.empty()) return;
    if (!is_worth(scored.truth, 0.01)) return;
    ++class_due;
    if (scored.verdict == scored.truth.verdict) ++class_right;
  }
};

std::string counts_text(const Counts& counts) {
  return std::to_string(counts[0]) + " / " + std::to_string(counts[1]) + " / " +
         std::to_string(counts[2]);
}

// A wrong name costs as much as ten abstentions.
size_t cost_of(const Counts& counts) { return 10 * counts[1] + counts[2]; }

void print_table(const char* first, const std::vector<std::pair<std::string, Row>>& rows) {
  std::printf(
      "| %s | jobs | ours | last arrivals | Dixon votes | cost | right class | said without cause "
      "|\n",
      first);
  std::printf("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [name, row] : rows) {
    if (row.jobs == 0) continue;
    std::printf("| %s | %zu | %s | %s | %s | %zu / %zu / %zu | %zu of %zu | %zu |\n", name.c_str(),
                row.jobs, counts_text(row.ours).c_str(), counts_text(row.last_arrivals).c_str(),
                counts_text(row.dixon_votes).c_str(), cost_of(row.ours), cost_of(row.last_arrivals),
                cost_of(row.dixon_votes), row.class_right, row.class_due, row.without_cause);
  }
  std::printf("\n");
}

struct Bin {
  double least;
  const char* name;
};
constexpr Bin kSeverities[] = {{0.10, "10 % and more"},
                               {0.05, "5 to 10 %"},
                               {0.02, "2 to 5 %"},
                               {0.01, "1 to 2 %"},
                               {-1, "below 1 %"}};
constexpr Bin kSizes[] = {
    {33, "33 to 128 ranks"}, {9, "9 to 32 ranks"}, {3, "4 to 8 ranks"}, {0, "2 ranks"}};

template <size_t kBins>
size_t bin_of(const Bin (&bins)[kBins], double value) {
  size_t i = 0;
  while (i + 1 < kBins && value < bins[i].least) ++i;
  return i;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto place = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  return values[place];
}

struct Tables {
  std::vector<std::pair<std::string, Row>> families;
  std::vector<std::pair<std::string, Row>> severities;
  std::vector<std::pair<std::string, Row>> sizes;
  std::vector<double> errors;  // of the recovered share, where the right ones were named

  Tables() {
    for (uint8_t f = 0; f < static_cast<uint8_t>(Family::Count); ++f) {
      families.emplace_back(name_of(static_cast<Family>(f)), Row());
    }
    for (const Bin& bin : kSeverities) severities.emplace_back(bin.name, Row());
    for (const Bin& bin : kSizes) sizes.emplace_back(bin.name, Row());
  }

  void add(const Scored& scored) {
    families[static_cast<size_t>(scored.training.family)].second.add(scored);
    if (!names_ranks(scored.training.family)) return;
    severities[bin_of(kSeverities, scored.truth.recovered)].second.add(scored);
    if (is_worth(scored.truth, 0.02)) {
      sizes[bin_of(kSizes, scored.training.shape.ranks())].second.add(scored);
    }
    if (scored.ours == Outcome::right) {
      errors.push_back(std::fabs(scored.recovered - scored.truth.recovered));
    }
  }
};

void print_case(const Scored& scored) {
  const Shape& shape = scored.training.shape;
  std::fprintf(stderr, "%s seed %lu dp %d tp %d pp %d layers %d mb %d steps %d noise %.4f",
               name_of(scored.training.family).data(), scored.training.seed / 64, shape.dp,
               shape.tp, shape.pp, shape.layers, shape.microbatches, shape.steps,
               scored.training.noise);
  std::fprintf(stderr, " truth %.4f: outcome %d, %s %.4f, %s\n", scored.truth.recovered,
               static_cast<int>(scored.ours), scored.verdict.c_str(), scored.recovered,
               scored.why_not.c_str());
}

bool is_remarkable(const Scored& scored) {
  if (scored.ours == Outcome::wrong) return true;
  if (scored.truth.verdict.empty()) return !scored.verdict.empty();
  if (!scored.verdict.empty() && is_worth(scored.truth, 0.01)) {
    return scored.verdict != scored.truth.verdict;
  }
  return !scored.truth.verdict.empty() && is_worth(scored.truth, 0.02);
}

int measure(uint64_t first, uint64_t seeds, std::string_view only) {
  Tables tables;
  const bool prints_cases = std::getenv("ROLLCALL_SLOW_CASES") != nullptr;
  for (uint8_t f = 0; f < static_cast<uint8_t>(Family::Count); ++f) {
    const auto family = static_cast<Family>(f);
    if (!only.empty() && only != name_of(family)) continue;
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
      const Scored scored = score(random_training(family, seed));
      tables.add(scored);
      if (prints_cases && is_remarkable(scored)) print_case(scored);
    }
  }
  std::printf("Right / wrong / abstained; the cost counts a wrong name as ten abstentions.\n\n");
  print_table("family", tables.families);
  print_table("what the fault costs", tables.severities);
  print_table("size, at 2 % and more", tables.sizes);
  std::printf(
      "Error of the recovered share where the right ranks were named: median %.2f, "
      "p90 %.2f points of a step (%zu jobs).\n",
      100 * quantile(tables.errors, 0.5), 100 * quantile(tables.errors, 0.9), tables.errors.size());
  return 0;
}

}  // namespace
}  // namespace rollcall::timed

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "slow_accuracy FIRST SEEDS [FAMILY]\n");
    return 2;
  }
  return rollcall::timed::measure(std::strtoull(argv[1], nullptr, 10),
                                  std::strtoull(argv[2], nullptr, 10), argc > 3 ? argv[3] : "");
}
