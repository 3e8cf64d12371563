#include <nlohmann/json.hpp>
#include <string>

#include "comparison/settings.h"
#include "report/slow.h"
#include "report/slow_two_runs.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace rollcall {
namespace test_slow {

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

report::TwoRunsReport two_runs() {
  report::TwoRunsReport report{.before = "old", .after = "new", .settings = {}, .answer = {}};
  slow::TwoRuns& answer = report.answer;
  answer.is_compared = answer.has_parts = answer.steps_differ = true;
  answer.before = {.found = 60, .compared = 55, .calls = 3, .step_ns = 40e6, .error_ns = 1e5};
  answer.after = {.found = 60, .compared = 54, .calls = 3, .step_ns = 44e6, .error_ns = 1e5};
  answer.floor = 0.012;
  answer.smallest = 0.016;
  slow::Difference difference;
  difference.part = slow::Part::transfer;
  difference.ranks = {0, 1};
  difference.is_of_all = true;
  difference.share = 0.08;
  difference.saved_ns = 3.2e6;
  slow::PlaceChange place;
  place.call = 2;
  place.before_ns = 1e6;
  place.after_ns = 4.2e6;
  place.place.comm = "world";
  difference.places = {place};
  answer.differences = {difference};
  return report;
}

TEST_CASE("of two runs the text has what else differs, the step times, and what they are due to") {
  report::TwoRunsReport report = two_runs();
  report.settings = {{"nccl_version", "22703", "22807"}, {"NCCL_ALGO", "", "Ring"}};
  const std::string text = report::two_runs_text(report);
  CHECK(text.find("  nccl_version: 2.27.3 -> 2.28.7\n  NCCL_ALGO: (not set) -> Ring\n") !=
        std::string::npos);
  CHECK(text.find("The steps take 10.0 % longer: 40.00 ms -> 44.00 ms.") != std::string::npos);
  CHECK(text.find("A change of 1.6 % would have been reported 9 times out of 10") !=
        std::string::npos);
  CHECK(text.find("+8.0 %  (+3.20 ms)  transfers, when everybody had come, of all ranks") !=
        std::string::npos);
  CHECK(text.find("    call 2 of a step, AllReduce") != std::string::npos);
  CHECK(text.find("on world: 1.00 ms -> 4.20 ms") != std::string::npos);
}

TEST_CASE("of two runs that do not differ the text names nothing") {
  report::TwoRunsReport report = two_runs();
  report.answer.steps_differ = false;
  report.answer.differences.clear();
  report.answer.after.step_ns = 40.2e6;
  const std::string text = report::two_runs_text(report);
  CHECK(
      text.find("The steps do not differ by more than they vary: 40.00 ms -> 40.20 ms (+0.5 %).") !=
      std::string::npos);
  CHECK(text.find("Versions, settings, ranks and hosts are the same") != std::string::npos);
  CHECK(text.find("no part differs that much") != std::string::npos);
  CHECK(text.find("call 2") == std::string::npos);
}

TEST_CASE("the JSON of two runs is that of the new one, with what differs in a field of its own") {
  const trace::Run run = test::missing_call_run();
  const std::string of_new = report::slow_json(run, answer_of(run), {});
  const auto json = nlohmann::json::parse(report::two_runs_json(of_new, two_runs()));
  CHECK(json["schema"] == "rollcall.slow/1");
  CHECK(json["steps"]["compared"] == 55);
  CHECK(json["against"]["dir"] == "old");
  CHECK(json["against"]["steps_differ"] == true);
  REQUIRE(json["against"]["differences"].size() == 1);
  CHECK(json["against"]["differences"][0]["part"] == "transfer");
  CHECK(json["against"]["differences"][0]["places"][0]["call_of_step"] == 2);
}

TEST_CASE("settings of two runs are compared without what is never the same in two of them") {
  trace::Run before = test::missing_call_run();
  for (trace::Process& process : before.processes) {
    process.meta = {{"nccl_version", "22703"},    {"env.NCCL_ALGO", "Tree"},
                    {"env.RANK", process.file},   {"env.ROLLCALL_DIR", "/runs/1"},
                    {"env.MASTER_PORT", "29500"}, {"cmdline", process.file}};
  }
  trace::Run after = before;
  CHECK(comparison::compare_settings(before, after).empty());
  for (trace::Process& process : after.processes) {
    process.meta["env.ROLLCALL_DIR"] = "/runs/2";
    process.meta["env.MASTER_PORT"] = "29501";
    process.meta["nccl_version"] = "22807";
    process.meta.erase("env.NCCL_ALGO");
  }
  after.processes.front().meta["env.CUDA_LAUNCH_BLOCKING"] = "1";
  after.processes.pop_back();
  const auto list = comparison::compare_settings(before, after);
  REQUIRE(list.size() == 4);
  CHECK(list[0].name == "nccl_version");
  CHECK(list[0].before == "22703");
  CHECK(list[0].after == "22807");
  CHECK(list[1].name == "CUDA_LAUNCH_BLOCKING");
  CHECK(list[1].before.empty());
  CHECK(list[2].name == "NCCL_ALGO");
  CHECK(list[2].after.empty());
  CHECK(list[3].name == "ranks");
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

}  // namespace test_slow
}  // namespace rollcall
