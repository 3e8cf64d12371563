#include "tests/catch.h"
#include "tools/step_costs.h"

namespace test_step_costs {

using rollcall::tools::costs_in;
using rollcall::tools::StepCosts;
using rollcall::tools::StepCostsReader;
using rollcall::tools::window_of_steps;

TEST_CASE("each process has its share, and one of several GPUs the sum of theirs") {
  const auto costs = costs_in(
      R"({"sentence": "47 of 50 steps were compared", "ranks": [
          {"host": "a", "pid": 7, "charged_share": 0.0},
          {"host": "b", "pid": 7, "charged_share": 0.25},
          {"host": "b", "pid": 7, "charged_share": 0.125},
          {"host": null, "pid": 8, "charged_share": 0.5}]})");
  REQUIRE(costs);
  CHECK(costs->sentence == "47 of 50 steps were compared");
  CHECK(costs->charged == std::map<StepCosts::Process, double>{{{"a", 7}, 0.0}, {{"b", 7}, 0.375}});
}

TEST_CASE("where nothing was compared there is no share, whatever the rows say") {
  const auto costs =
      costs_in(R"({"sentence": null, "ranks": [{"host": "a", "pid": 7, "charged_share": 0.5}]})");
  REQUIRE(costs);
  CHECK(costs->sentence.empty());
  CHECK(costs->charged.empty());
}

TEST_CASE("what is no JSON object is no answer") {
  for (const char* text : {"", "{", "[1]", "rollcall slow: there is no run"}) {
    INFO(text);
    CHECK_FALSE(costs_in(text));
  }
}

TEST_CASE("an answer with something else in its fields costs nobody anything") {
  for (const char* text :
       {R"({"ranks": []})", R"({"sentence": 3, "ranks": [{"rank": 1}]})",
        R"({"sentence": "x", "ranks": {"rank": 1}})",
        R"({"sentence": "x", "ranks": [7, {"host": "a", "pid": "7", "charged_share": 0.5}]})",
        R"({"sentence": "x", "ranks": [{"host": "a", "pid": -7, "charged_share": 0.5}]})",
        R"({"sentence": "x", "ranks": [{"host": "a", "pid": 7, "charged_share": "all"}]})"}) {
    INFO(text);
    const auto costs = costs_in(text);
    REQUIRE(costs);
    CHECK(costs->charged.empty());
  }
}

TEST_CASE("262,144 calls are read of all ranks together, and 1,024 of each at least") {
  CHECK(window_of_steps(1) == 262'144);
  CHECK(window_of_steps(64) == 4'096);
  CHECK(window_of_steps(16'384) == 1'024);
  CHECK(window_of_steps(0) == 262'144);
}

TEST_CASE("of a directory without files nobody is asked") {
  StepCostsReader reader("/nonexistent");
  reader.wait(1);
  CHECK_FALSE(reader.is_waiting());
  reader.advance(0);
  CHECK_FALSE(reader.is_waiting());
  CHECK(reader.newest().sentence.empty());
}

}  // namespace test_step_costs
