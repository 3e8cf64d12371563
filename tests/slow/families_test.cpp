// A few jobs of each family; docs/measurements has many.
#include <string>

#include "tests/catch.h"
#include "tests/slow/score.h"

namespace rollcall::timed {
namespace families_test {

constexpr uint64_t kSeeds = 4;
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSeedsOfAll = 1;  // each takes ten times as long
#else
constexpr uint64_t kSeedsOfAll = kSeeds;
#endif
constexpr uint64_t kFirstSeed = 1'000'000;  // not among those that thresholds were found on

std::string described(const Scored& scored) {
  const Shape& shape = scored.training.shape;
  return std::string(name_of(scored.training.family)) + " seed " +
         std::to_string(scored.training.seed) + ": dp " + std::to_string(shape.dp) + " tp " +
         std::to_string(shape.tp) + " pp " + std::to_string(shape.pp) + ", " + scored.verdict +
         " " + scored.why_not;
}

TEST_CASE("no job of any family has a rank named that is not at fault") {
  for (uint8_t f = 0; f < static_cast<uint8_t>(Family::Count); ++f) {
    for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeedsOfAll; ++seed) {
      const Scored scored = score(random_training(static_cast<Family>(f), seed));
      INFO(described(scored));
      CHECK(scored.ours != Outcome::wrong);
    }
  }
}

TEST_CASE("a rank that costs the steps three per cent is named") {
  size_t right = 0;
  size_t all = 0;
  for (const Family family :
       {Family::gpu_slow, Family::gpu_slow_pair, Family::loader_slow, Family::host_slow}) {
    for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
      const Scored scored = score(random_training(family, seed));
      if (!is_worth(scored.truth, 0.03)) continue;
      INFO(described(scored));
      CHECK(scored.ours == Outcome::right);
      ++all;
      if (scored.ours == Outcome::right) ++right;
    }
  }
  CHECK(all >= 4);
  CHECK(right == all);
}

}  // namespace families_test
}  // namespace rollcall::timed
