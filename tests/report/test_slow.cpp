#include <nlohmann/json.hpp>
#include <string>

#include "report/slow.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace rollcall {
namespace {

slow::Answer answer_of(const trace::Run& run) {
  slow::Answer answer;
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    slow::GpuRow row;
    row.process = p;
    row.rank = static_cast<int32_t>(p);
    row.role = 0;
    row.peers = static_cast<uint32_t>(run.processes.size() - 1);
    row.own_ns = 30e6;
    answer.gpus.push_back(row);
  }
  answer.comms.push_back({.name = "world", .nranks = 4, .key = test::kWorldKey, .charged = 0.2});
  answer.is_compared = true;
  answer.steps = 60;
  answer.compared = 55;
  answer.first_step = 5;
  answer.last_step = 59;
  answer.units = 3;
  answer.step_ns = 40e6;
  answer.variation = 0.012;
  answer.floor = 0.01;
  return answer;
}

slow::Finding straggler() {
  slow::Finding finding;
  finding.confidence = analysis::Confidence::certain;
  finding.gpus = {1};
  finding.recovered = 0.15;
  finding.recovered_ns = 6e6;
  finding.floor = 0.01;
  finding.positive = 1;
  finding.excess_ns = 6.5e6;
  finding.first_step = 5;
  finding.last_step = 59;
  finding.compared = 55;
  return finding;
}

TEST_CASE("of a straggler the text says who, how much faster the steps would be, and over which") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  answer.finding = straggler();
  const std::string text = report::slow_text(run, answer, {});
  CHECK(text.find("RC-STRAGGLER (certain): rank 1 (") == 0);
  CHECK(text.find("15.0 % shorter (6.00 ms of 40.00 ms)") != std::string::npos);
  CHECK(text.find("Steps 5-59 were compared (55 of 60)") != std::string::npos);
  CHECK(text.find("Nobody") == std::string::npos);
}

TEST_CASE("where nobody is named the text says how much the steps vary, and what would be said") {
  const trace::Run run = test::missing_call_run();
  const std::string text = report::slow_text(run, answer_of(run), {});
  CHECK(text.find("Nobody is named: the steps vary by ±1.2 % around 40.00 ms, and nothing above "
                  "1.0 %") == 0);
  CHECK(text.find("RC-") == std::string::npos);
}

TEST_CASE("the sentence of a run has the steps, their variation and what costs most, or nobody") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  CHECK(report::slow_sentence(run, answer) ==
        "55 of 60 steps were compared: 40.00 ms in the median, ±1.2 %; nothing above 1.0 % of a "
        "step is charged to one cause");
  answer.finding = straggler();
  const std::string named = report::slow_sentence(run, answer);
  CHECK(named.find("±1.2 %; RC-STRAGGLER (certain): rank 1 (") != std::string::npos);
  CHECK(named.find(") costs 15.0 % of a step") == named.size() - 24);
  answer.finding->gpus.clear();
  answer.finding->verdict = analysis::Verdict::imbalance;
  const std::string unnamed = report::slow_sentence(run, answer);
  CHECK(unnamed.find("RC-IMBALANCE (certain): unevenly dealt work costs 15.0 % of a step") !=
        std::string::npos);
  CHECK(unnamed.find("rank") == std::string::npos);
}

TEST_CASE("where nothing could be compared there is no sentence") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  answer.is_compared = false;
  CHECK(report::slow_sentence(run, answer).empty());
}

TEST_CASE("where nothing could be compared the text gives the reason and no table") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  answer.is_compared = false;
  answer.why_not = {"no call has a GPU time"};
  CHECK(report::slow_text(run, answer, {}) ==
        "Nothing can be said of this run.\n  no call has a GPU time.\n");
}

TEST_CASE("only the ranks that were asked for are in the table") {
  const trace::Run run = test::missing_call_run();
  slow::Question question;
  question.ranks = {2};
  const auto json = nlohmann::json::parse(report::slow_json(run, answer_of(run), question));
  REQUIRE(json["ranks"].size() == 1);
  CHECK(json["ranks"][0]["rank"] == 2);
}

TEST_CASE("a slow communicator and an imbalance are told without a rank") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  answer.finding = straggler();
  answer.finding->gpus.clear();
  answer.finding->ratio = 2.5;
  answer.finding->verdict = analysis::Verdict::slow_transfer;
  answer.finding->comm = 0;
  std::string text = report::slow_text(run, answer, {});
  CHECK(text.find("RC-SLOW-TRANSFER (certain): the transfers on world (4 ranks)") == 0);
  CHECK(text.find("Up to 2.5 times as long") != std::string::npos);
  answer.finding->verdict = analysis::Verdict::imbalance;
  answer.finding->role = 0;
  text = report::slow_text(run, answer, {});
  CHECK(text.find("RC-IMBALANCE (certain)") == 0);
  CHECK(text.find("The role of ranks 0-3 has 2.50 times the mean") != std::string::npos);
  const auto json = nlohmann::json::parse(report::slow_json(run, answer, {}));
  CHECK(json["finding"]["culprits"].empty());
  CHECK(json["finding"]["bound_by"].is_null());
}

slow::Finding jitter() {
  slow::Finding finding = straggler();
  finding.gpus.clear();
  finding.verdict = analysis::Verdict::jitter;
  finding.jitter.slow_steps = 9;
  finding.jitter.cause_share = 0.9;
  finding.jitter.of_one = 8;
  finding.jitter.gpus = 3;
  finding.jitter.most = 1;
  finding.jitter.most_steps = 4;
  return finding;
}

TEST_CASE("of jitter the text tells how often, by what, how it wanders, and its period") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  answer.finding = jitter();
  std::string text = report::slow_text(run, answer, {});
  CHECK(text.find("RC-JITTER (certain): 9 of 55 steps are slow") == 0);
  CHECK(text.find("90 % of that is lost by what processes do") != std::string::npos);
  CHECK(text.find("3 ranks made 8 of them by themselves; rank 1 made most, 4") !=
        std::string::npos);
  CHECK(text.find("They keep no distance") != std::string::npos);
  answer.finding->jitter.period = 11;
  text = report::slow_text(run, answer, {});
  CHECK(text.find("One comes every 11 steps.") != std::string::npos);
  answer.finding->jitter.gpus = 1;
  answer.finding->jitter.of_one = 4;
  text = report::slow_text(run, answer, {});
  CHECK(text.find("  Rank 1 made 4 of them by itself.\n") != std::string::npos);
  const auto json = nlohmann::json::parse(report::slow_json(run, answer, {}));
  CHECK(json["finding"]["jitter"]["slow_steps"] == 9);
  CHECK(json["finding"]["jitter"]["period_steps"] == 11);
  CHECK(json["finding"]["jitter"]["period_of_rank_steps"].is_null());
  CHECK(json["finding"]["culprits"].empty());
}

TEST_CASE("a rank that is slow now and then is told with the number of its steps") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  answer.finding = jitter();
  answer.finding->verdict = analysis::Verdict::straggler;
  answer.finding->gpus = {1};
  answer.finding->positive = 8.0 / 55;
  const std::string text = report::slow_text(run, answer, {});
  CHECK(text.find("RC-STRAGGLER (certain): rank 1 (") == 0);
  CHECK(text.find("in 8 of 55 steps") != std::string::npos);
  CHECK(text.find("8 of 9 slow steps are its own") != std::string::npos);
  CHECK(text.find("90 % of what it takes longer is lost by what") != std::string::npos);
}

TEST_CASE("of a slow launch the text tells how much longer the calls take the host") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  answer.finding = straggler();
  answer.finding->verdict = analysis::Verdict::slow_launch;
  answer.finding->call_ratio = 6.25;
  const std::string text = report::slow_text(run, answer, {});
  CHECK(text.find("RC-SLOW-LAUNCH (certain): rank 1 (") == 0);
  CHECK(text.find("take 6.2 times as long as its peers'") != std::string::npos);
  CHECK(text.find("In front of") == std::string::npos);
}

TEST_CASE("the document for programs has a schema, the finding, and null for what is not known") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer = answer_of(run);
  auto json = nlohmann::json::parse(report::slow_json(run, answer, {}));
  CHECK(json["schema"] == "rollcall.slow/1");
  CHECK(json["finding"].is_null());
  answer.finding = straggler();
  json = nlohmann::json::parse(report::slow_json(run, answer, {}));
  CHECK(json["finding"]["code"] == "RC-STRAGGLER");
  CHECK(json["finding"]["culprits"][0]["rank"] == 1);
  CHECK(json["finding"]["recovered_share"] == 0.15);
  answer.is_compared = false;
  json = nlohmann::json::parse(report::slow_json(run, answer, {}));
  CHECK(json["steps"]["median_ns"].is_null());
}

}  // namespace
}  // namespace rollcall
