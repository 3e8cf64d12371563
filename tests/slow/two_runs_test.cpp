// One run of a virtual job held against another one: a planted change is named where it is, and
// two runs of the same job have nothing to tell.
#include "slow/two_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "slow/levels.h"
#include "slow/slot_match.h"
#include "tests/catch.h"
#include "tests/slow/timed_training.h"

namespace rollcall::slow {
namespace two_runs_test {

using timed::Family;
using timed::Planted;
using timed::Training;

constexpr int kSkipped = 5;

// Pairs of healthy runs. Of each planted change there are a twentieth as many.
uint64_t healthy_pairs() {
  const char* given = std::getenv("ROLLCALL_SIM_PAIRS");
  return given == nullptr ? 200 : std::strtoull(given, nullptr, 10);
}

Training job_of(uint64_t seed, Family family = Family::clean_clocks) {
  Training training = timed::random_training(family, seed);
  training.shape.dp = std::min(training.shape.dp, 4);
  training.shape.tp = std::min(training.shape.tp, 2);
  training.shape.pp = std::min(training.shape.pp, 2);
  training.shape.layers = 2;
  training.shape.microbatches = std::min(training.shape.microbatches, 2);
  training.shape.steps = 60;
  return training;
}

timed::Timed run_of(Training training, uint64_t draw) {
  training.draw = draw;
  return timed::execute(timed::make_job(training));
}

double step_ns(const timed::Timed& timed) { return timed.mean_step_ns(kSkipped); }

struct PlantedPair {
  timed::Timed before;
  timed::Timed after;
  Training training;
  double truth = 0;  // by which the steps are longer, of a step
};

// Two runs of a job, of which the second has something that makes its steps longer by `share`.
PlantedPair plant(Training training, Planted planted, double share) {
  PlantedPair pair{.before = run_of(training, 1), .after = {}, .training = training, .truth = 0};
  Training same = training;
  same.planted = planted;
  const double least_ns = step_ns(run_of(training, 2));
  // The size that costs so much, between one that costs less and one that costs more.
  double low = 0;
  double high = planted == Planted::slower_launches ? 400 : 4;
  for (int i = 0; i < 9; ++i) {
    same.planted_size = (low + high) / 2;
    const double cost = step_ns(run_of(same, 2)) / least_ns - 1;
    (cost < share ? low : high) = same.planted_size;
  }
  same.planted_size = high;
  pair.after = run_of(same, 2);
  pair.training = same;
  pair.truth = step_ns(pair.after) / least_ns - 1;
  return pair;
}

// Whether the most expensive difference is what was planted.
bool is_named(const PlantedPair& pair, const TwoRuns& answer) {
  if (answer.differences.empty()) return false;
  const Difference& first = answer.differences.front();
  if (first.share <= 0 || first.places.empty()) return false;
  switch (pair.training.planted) {
    case Planted::slower_rank:
      return first.part == Part::gpu &&
             first.ranks == std::vector<int32_t>{timed::planted_rank(pair.training)};
    case Planted::slower_links:
      return first.part == Part::transfer;
    case Planted::extra_call:
      return first.part == Part::added && first.is_of_all &&
             first.places.front().place.op.kind == OpKind::AllReduce &&
             first.places.front().place.comm == "comm0";
    case Planted::slower_launches:
      return first.part == Part::launch && first.is_of_all;
    case Planted::nothing:
      return false;
  }
  return false;
}

std::string described(const PlantedPair& pair, const TwoRuns& answer) {
  const timed::Shape& shape = pair.training.shape;
  std::string text = "planted " + std::to_string(static_cast<int>(pair.training.planted)) +
                     " truth " + std::to_string(pair.truth) + " rank " +
                     std::to_string(timed::planted_rank(pair.training)) + " dp " +
                     std::to_string(shape.dp) + " tp " + std::to_string(shape.tp) + " pp " +
                     std::to_string(shape.pp) + " step " +
                     std::to_string(answer.after.step_ns / answer.before.step_ns - 1);
  for (const std::string& reason : answer.why_not) text += "\n  " + reason;
  for (const Difference& one : answer.differences) {
    text += "\n  part " + std::to_string(static_cast<int>(one.part)) + " share " +
            std::to_string(one.share) + " floor " + std::to_string(one.floor) + " ranks";
    for (const int32_t rank : one.ranks) text += " " + std::to_string(rank);
    for (const PlaceChange& place : one.places) {
      text += "\n    call " + std::to_string(place.call) + " " +
              std::to_string(place.before_ns / 1e6) + " -> " + std::to_string(place.after_ns / 1e6);
    }
  }
  return text;
}

TEST_CASE("of forty pairs of runs the planted change is what is named first") {
  constexpr Planted kKinds[] = {Planted::slower_rank, Planted::slower_links, Planted::extra_call,
                                Planted::slower_launches};
  size_t named = 0;
  size_t silent = 0;
  std::string texts;
  const uint64_t seeds = std::max<uint64_t>(1, healthy_pairs() / 20);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    for (const Planted planted : kKinds) {
      Training training = job_of(seed);
      training.waits_at_end = training.waits_at_end || planted == Planted::slower_launches;
      const double share = 0.025 + 0.008 * static_cast<double>(seed);
      const PlantedPair pair = plant(training, planted, share);
      const TwoRuns answer = compare(pair.before.run, pair.after.run);
      INFO("seed " << seed << " " << described(pair, answer));
      CHECK(answer.steps_differ);
      if (is_named(pair, answer)) {
        ++named;
        CHECK(std::fabs(answer.differences.front().share - pair.truth) < 0.02);
      } else {
        silent += answer.differences.empty() ? 1 : 0;
        texts += "\nseed " + std::to_string(seed) + " " + described(pair, answer);
      }
    }
  }
  INFO(texts);
  CHECK(silent <= seeds / 10);
  CHECK(named + silent == seeds * std::size(kKinds));
}

TEST_CASE("runs of other ranks have their step times compared, and no parts") {
  Training training = job_of(3);
  training.shape.tp = training.shape.pp = 1;
  const timed::Timed before = run_of(training, 1);
  training.shape.dp = 2;
  const TwoRuns answer = compare(before.run, run_of(training, 1).run);
  CHECK(answer.is_compared);
  CHECK(answer.is_other_size);
  CHECK_FALSE(answer.has_parts);
  CHECK(answer.differences.empty());
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("only the step times were compared") != std::string::npos);
}

TEST_CASE("a run without steps is compared with nothing, and the answer says which it is") {
  const timed::Timed before = run_of(job_of(3), 1);
  const TwoRuns answer = compare(before.run, {});
  CHECK_FALSE(answer.is_compared);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("of the new run: ") == 0);
}

TEST_CASE("a call that the new step has not is told as a gain") {
  const PlantedPair pair = plant(job_of(0), Planted::extra_call, 0.05);
  const TwoRuns answer = compare(pair.after.run, pair.before.run);
  REQUIRE(answer.differences.size() == 1);
  CHECK(answer.differences[0].part == Part::removed);
  CHECK(answer.differences[0].share < -0.03);
  CHECK(answer.differences[0].is_of_all);
}

TEST_CASE("the same runs have the same answer") {
  const PlantedPair pair = plant(job_of(1), Planted::slower_rank, 0.05);
  const TwoRuns one = compare(pair.before.run, pair.after.run);
  const TwoRuns other = compare(pair.before.run, pair.after.run);
  REQUIRE(one.differences.size() == other.differences.size());
  for (size_t i = 0; i < one.differences.size(); ++i) {
    CHECK(one.differences[i].share == other.differences[i].share);
    CHECK(one.differences[i].ranks == other.differences[i].ranks);
  }
}

TEST_CASE("the error of a level is larger where neighbouring steps are alike") {
  std::vector<double> steady;
  std::vector<double> drifting;
  for (int i = 0; i < 120; ++i) {
    const double noise = timed::normal(1, 2, static_cast<uint64_t>(i), 3);
    steady.push_back(100 + noise);
    drifting.push_back(100 + noise + (i / 30 % 2 == 0 ? 5 : 0));
  }
  CHECK(level_error(steady) < 0.5);
  CHECK(level_error(drifting) > 2 * level_error(steady));
  CHECK(level_error({}) == 0);
}

TEST_CASE("steps are matched call by call, from wherever they begin") {
  const auto step = [](std::initializer_list<uint64_t> looks) {
    std::vector<CallLook> calls;
    for (const uint64_t look : looks) calls.push_back({.look = look, .sizeless = look / 10});
    return calls;
  };
  const SlotMatch added = match_slots(step({10, 20, 30}), step({10, 20, 40, 30}));
  CHECK(added.pairs == decltype(added.pairs){{0, 0}, {1, 1}, {2, 3}});
  CHECK(added.added == std::vector<uint32_t>{2});
  CHECK(added.removed.empty());
  const SlotMatch rotated = match_slots(step({10, 20, 30}), step({30, 10, 20}));
  CHECK(rotated.pairs == decltype(rotated.pairs){{0, 1}, {1, 2}, {2, 0}});
  const SlotMatch resized = match_slots(step({10, 20, 30}), step({11, 21, 31}));
  CHECK(resized.pairs.size() == 3);
  CHECK(resized.sizes_differ);
  CHECK_FALSE(match_slots(step({10, 20, 30}), step({70, 80, 90})).is_alike());
  CHECK_FALSE(match_slots({}, step({10})).is_alike());
}

TEST_CASE("of two hundred pairs of runs of one job at most one has a difference") {
  constexpr Family kFamilies[] = {Family::clean,      Family::clean_clocks,     Family::clean_noisy,
                                  Family::clean_pair, Family::clean_overlapped, Family::busy_links,
                                  Family::gpu_slow,   Family::stage_imbalance};
  size_t named = 0;
  std::string texts;
  const uint64_t pairs = healthy_pairs();
  for (uint64_t i = 0; i < pairs; ++i) {
    const Training training = job_of(i, kFamilies[i % std::size(kFamilies)]);
    const PlantedPair pair{.before = run_of(training, 1),
                           .after = run_of(training, 2),
                           .training = training,
                           .truth = 0};
    const TwoRuns answer = compare(pair.before.run, pair.after.run);
    if (answer.differences.empty() && !answer.steps_differ) continue;
    ++named;
    texts += "\n" + std::to_string(i) + " " + described(pair, answer);
  }
  INFO(texts);
  CHECK(named <= 1);
}

}  // namespace two_runs_test
}  // namespace rollcall::slow
