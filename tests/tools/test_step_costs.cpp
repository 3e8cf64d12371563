#include "tests/catch.h"
#include "tools/step_costs.h"

namespace test_step_costs {

using rollcall::tools::costs_in;
using rollcall::tools::StepCosts;
using rollcall::tools::StepCostsReader;
using rollcall::tools::window_of_steps;

TEST_CASE("each rank has its share, and one of several GPUs the sum of theirs") {
  const StepCosts costs = costs_in(
      R"({"sentence": "47 of 50 steps were compared", "ranks": [
          {"rank": 0, "charged_share": 0.0}, {"rank": 1, "charged_share": 0.25},
          {"rank": 1, "charged_share": 0.125}, {"rank": null, "charged_share": 0.5}]})");
  CHECK(costs.sentence == "47 of 50 steps were compared");
  CHECK(costs.charged == std::map<int32_t, double>{{0, 0.0}, {1, 0.375}});
}

TEST_CASE("where nothing was compared there is no share, whatever the rows say") {
  const StepCosts costs =
      costs_in(R"({"sentence": null, "ranks": [{"rank": 0, "charged_share": 0.5}]})");
  CHECK(costs.sentence.empty());
  CHECK(costs.charged.empty());
}

TEST_CASE("what is no answer of `rollcall slow` costs nobody anything") {
  for (const char* text : {"", "{", "[1]", "rollcall slow: there is no run", "{\"ranks\": []}",
                           "{\"sentence\": 3, \"ranks\": [{\"rank\": 1}]}",
                           "{\"sentence\": \"x\", \"ranks\": {\"rank\": 1}}",
                           "{\"sentence\": \"x\", \"ranks\": [7, {\"rank\": \"1\", "
                           "\"charged_share\": 0.5}, {\"rank\": 2, \"charged_share\": \"all\"}]}"}) {
    INFO(text);
    CHECK(costs_in(text).charged.empty());
  }
}

TEST_CASE("all ranks together are read as far as half a second goes, each of them a while back") {
  CHECK(window_of_steps(1) == 262'144);
  CHECK(window_of_steps(64) == 4'096);
  CHECK(window_of_steps(16'384) == 1'024);
  CHECK(window_of_steps(0) == 262'144);
}

TEST_CASE("of a directory without files nobody is asked") {
  StepCostsReader reader("/nonexistent");
  reader.wait(1);
  CHECK_FALSE(reader.is_waiting());
  CHECK(reader.newest().sentence.empty());
}

}  // namespace test_step_costs
