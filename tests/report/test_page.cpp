#include <nlohmann/json.hpp>
#include <string>

#include "report/page/data.h"
#include "report/page/environment.h"
#include "report/page/kept_stacks.h"
#include "report/page/last_calls.h"
#include "report/page/lateness.h"
#include "report/page/markup.h"
#include "report/page/page.h"
#include "report/page/roll.h"
#include "report/page/steps.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_page {

using namespace rollcall;

constexpr const char* kHostile =
    "</script><script>alert('1')</script><!--\xe2\x80\xae\xe2\x80\xa8{{script}}&\"";

std::string page_of_missing_call() {
  return report::page_html(test::missing_call_run(), test::missing_call_report());
}

// What stands between a tag that begins so and its end.
std::string between(const std::string& page, const std::string& begin, const std::string& end) {
  const size_t from = page.find(begin);
  REQUIRE(from != std::string::npos);
  const size_t behind = page.find(end, from + begin.size());
  REQUIRE(behind != std::string::npos);
  return page.substr(from + begin.size(), behind - from - begin.size());
}

nlohmann::json data_of(const std::string& page) {
  return nlohmann::json::parse(
      between(page, "<script type=\"application/json\" id=\"rollcall-data\">", "</script>"));
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// So many ranks of which the last did not make the last call.
trace::Run large_run(int ranks) {
  trace::Run run = test::missing_call_run();
  const trace::Process waiting = run.processes[0];
  const trace::Process absent = run.processes[2];
  run.processes.clear();
  for (int rank = 0; rank < ranks; ++rank) {
    run.processes.push_back(rank + 1 == ranks ? absent : waiting);
    run.processes.back().job_rank = rank;
    run.processes.back().comms[0].rank = rank;
    run.processes.back().comms[0].nranks = ranks;
  }
  return run;
}

TEST_CASE("a page says what the verdict for a terminal says, and holds the verdict's JSON") {
  const std::string page = page_of_missing_call();
  CHECK(page.find("<h1>Rank 2 never called AllReduce seq 2 on world; 3 ranks wait in it.</h1>") !=
        std::string::npos);
  CHECK(page.find("RC-MISSING-CALL, hang, certain") != std::string::npos);
  CHECK(page.find("rank 2 on node0, pid 102: world rank 2 seq 2 AllReduce") != std::string::npos);
  CHECK(page.find("py-spy dump --pid 102 on node0") != std::string::npos);
  const nlohmann::json data = data_of(page);
  CHECK(data["schema"] == "rollcall.page/1");
  CHECK(data["diff"]["schema"] == "rollcall.diff/2");
  CHECK(data["diff"]["findings"][0]["code"] == "RC-MISSING-CALL");
}

TEST_CASE("a page of the same run and report is the same bytes") {
  CHECK(page_of_missing_call() == page_of_missing_call());
}

TEST_CASE("the roll has a row for each of few ranks, and a letter for each call that it made") {
  const nlohmann::json roll = data_of(page_of_missing_call())["rolls"][0];
  CHECK(roll["name"] == "world");
  CHECK(roll["stretches"] == nlohmann::json::parse("[[0,3]]"));
  CHECK(roll["seq"] == 2);
  CHECK(roll["rows"]["ranks"] == nlohmann::json({"0", "1", "2", "3"}));
  CHECK(roll["rows"]["states"] == nlohmann::json({"r2c", "r2c", "r2a", "r2c"}));
  CHECK(roll["rows"]["culprit"] == nlohmann::json({0, 0, 1, 0}));
  CHECK(roll["rows"]["says"][0] == "waits inside for 42.0 s");
  CHECK(roll["rows"]["says"][2] == "never called");
}

TEST_CASE("of many ranks those that are alike share a row, and the culprit stands alone in front") {
  const trace::Run run = large_run(100);
  analysis::Report report = test::missing_call_report();
  report.findings[0].culprits[0].comm_rank = 99;
  const analysis::Index index(run);
  const report::Roll roll = report::roll_of(index, 0, report);
  REQUIRE(roll.rows.size() == 2);
  CHECK(roll.rows[0].is_culprit);
  CHECK(roll.rows[0].ranks == std::vector<int32_t>{99});
  CHECK(roll.rows[0].states == "rra");
  CHECK(roll.rows[1].ranks.size() == 99);
  CHECK(roll.rows[1].states == "rrc");
}

TEST_CASE("a call that is not the usual one is told with its row, and the blamed are not usual") {
  trace::Run run = test::missing_call_run();
  run.processes.resize(2);
  for (trace::Process& process : run.processes) process.comms[0].nranks = 2;
  run.processes[0].ops[2].kind = OpKind::AllGather;  // one against one
  analysis::Report report = test::missing_call_report();
  report.findings[0].culprits[0].comm_rank = 0;
  const analysis::Index index(run);
  const report::Roll roll = report::roll_of(index, 0, report);
  REQUIRE(roll.rows.size() == 2);
  REQUIRE(roll.rows[0].others.size() == 1);
  CHECK(roll.rows[0].others[0].first == 2);
  CHECK(roll.calls[roll.rows[0].others[0].second].call.find("AllGather") == 0);
  CHECK(roll.rows[1].others.empty());
}

TEST_CASE("ranks without a file are a row of the roll, of which nothing is known") {
  trace::Run run = test::missing_call_run();
  run.processes.erase(run.processes.begin() + 1);
  const analysis::Index index(run);
  const report::Roll roll = report::roll_of(index, 0, test::missing_call_report());
  REQUIRE(roll.rows.size() == 4);
  CHECK(roll.rows[3].ranks == std::vector<int32_t>{1});
  CHECK(roll.rows[3].processes.empty());
  CHECK(roll.rows[3].states == "nnn");
}

TEST_CASE("what a recorder cannot see is no call that was never made") {
  trace::Run run = test::missing_call_run();
  run.processes[2].knowledge.tail = false;
  const analysis::Index index(run);
  CHECK(report::roll_of(index, 0, test::missing_call_report()).rows[2].states == "rrl");
}

TEST_CASE("a roll of a long run has its newest calls and those around the difference") {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) {
    const trace::Op first = process.ops[0];
    process.ops.clear();
    for (uint64_t seq = 0; seq < 20'000; ++seq) {
      process.ops.push_back(first);
      process.ops.back().seq = seq;
      process.ops.back().ticket = seq + 1;
    }
    process.comms[0].collectives = 20'000;
  }
  analysis::Report report = test::missing_call_report();
  report.findings[0].culprits[0].seq = 5'000;
  const analysis::Index index(run);
  const report::Roll roll = report::roll_of(index, 0, report);
  CHECK(roll.positions == 20'000);
  REQUIRE(roll.stretches.size() == 2);
  CHECK(roll.columns == 2 * report::kColumnsMax);
  CHECK(roll.column_of(5'000).has_value());
  CHECK(roll.column_of(19'999) == roll.columns - 1);
  CHECK_FALSE(roll.column_of(10'000).has_value());
}

TEST_CASE("no name can be markup, end a script or turn a line around") {
  trace::Run run = test::missing_call_run();
  analysis::Report report = test::missing_call_report();
  run.directory = kHostile;
  report.findings[0].summary = kHostile;
  report.findings[0].next = kHostile;
  report.findings[0].culprits[0].host = kHostile;
  report.findings[0].culprits[0].comm_name = kHostile;
  report.findings[0].evidence[0].file = kHostile;
  report.findings[0].evidence[0].text = kHostile;
  report.comms[0].name = kHostile;
  for (analysis::RankRow& row : report.table) row.comm_name = row.state = row.here = kHostile;
  for (trace::Process& process : run.processes) {
    process.host = kHostile;
    process.comms[0].name = kHostile;
    process.meta["frame.1"] = kHostile;
    process.ops[0].frames = 1;
  }
  run.processes[0].meta["env.NCCL_ALGO"] = kHostile;
  run.issues.push_back({kHostile, kHostile, 0, false});
  const std::string page = report::page_html(run, report);
  const std::string clean = page_of_missing_call();
  CHECK(count_of(page, "</script>") == count_of(clean, "</script>"));
  CHECK(count_of(page, "<script") == count_of(clean, "<script"));
  CHECK(count_of(page, "<!--") == 0);
  CHECK(count_of(page, "\xe2\x80\xae") == 0);
  CHECK(count_of(page, "\xe2\x80\xa8") == 0);
  CHECK(data_of(page)["diff"]["findings"][0]["next"] == kHostile);
}

TEST_CASE("a name of a mebibyte does not make a page of a mebibyte a row") {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) process.host = std::string(1 << 20, 'h');
  const std::string page = report::page_html(run, test::missing_call_report());
  CHECK(page.size() < page_of_missing_call().size() + 4096);
  CHECK(report::shown("1234567890", 5) == "12345\xe2\x80\xa6");
  // Never inside a character.
  CHECK(report::shown("ab\xc3\xa4\xc3\xa4", 3) == "ab\xe2\x80\xa6");
}

TEST_CASE("a page of a run without records says so, and has no roll") {
  const std::string page = report::page_html({}, {});
  CHECK(page.find("There is nothing to compare: no usable record was found.") != std::string::npos);
  CHECK(data_of(page)["rolls"].empty());
}

TEST_CASE("the last calls are those of the culprit first, newest first, its own call marked") {
  trace::Run run = test::missing_call_run();
  analysis::Report report = test::missing_call_report();
  report.findings[0].culprits[0].seq = 1;
  const analysis::Index index(run);
  const std::string html = report::last_calls_html(index, report);
  const size_t culprit = html.find("<h3 class=\"culprit\">rank 2 on node0</h3>");
  CHECK(culprit != std::string::npos);
  CHECK(culprit < html.find("<h3>rank 0 on node0</h3>"));
  CHECK(html.find("seq 1") < html.find("seq 0"));
  CHECK(count_of(html, "class=\"blamed\"") == 1);
  CHECK_FALSE(report::is_about_transfer(report));
  report.findings[0].culprits[0].seq.reset();
  report.findings[0].culprits[0].p2p_seq = 4;
  CHECK(report::is_about_transfer(report));
  for (trace::Process& process : run.processes) process.ops.clear();
  CHECK(report::last_calls_html(analysis::Index(run), report).empty());
}

TEST_CASE("who came last is told of calls that all ranks made") {
  const trace::Run run = test::missing_call_run();
  const analysis::Index index(run);
  const report::Lateness lateness = report::lateness_of(index, 0);
  CHECK(lateness.calls == 2);
  REQUIRE(lateness.ranks.size() == 1);
  CHECK(lateness.ranks[0].member == 3);
  CHECK(lateness.ranks[0].times_last == 2);
  CHECK(lateness.ranks[0].behind_ns == 20'000);
  CHECK(lateness.ranks[0].median_ns == 30'000);
  REQUIRE(lateness.latest.size() == 2);
  CHECK(lateness.latest[0].spread_ns == 30'000);
  CHECK_FALSE(lateness.across_hosts);
}

TEST_CASE("nobody came last where no times are on file") {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) {
    for (trace::Op& op : process.ops) op.called_ns = 0;
  }
  const analysis::Index index(run);
  CHECK(report::lateness_of(index, 0).calls == 0);
}

TEST_CASE("settings that differ are told with the few who have them first, and ranks are not") {
  trace::Run run = test::missing_call_run();
  for (size_t at = 0; at < run.processes.size(); ++at) {
    run.processes[at].meta["env.RANK"] = std::to_string(at);
    run.processes[at].meta["env.SOME_PORT"] = std::to_string(9000 + at);
  }
  run.processes[1].meta["env.NCCL_ALGO"] = "Ring";
  const std::vector<report::EnvironmentDifference> differences =
      report::environment_differences(run);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].name == "NCCL_ALGO");
  REQUIRE(differences[0].values.size() == 2);
  CHECK(differences[0].values[0].first == "Ring");
  CHECK(differences[0].values[0].second == std::vector<int32_t>{1});
  CHECK(differences[0].values[1].first == "(not set)");
}

TEST_CASE("what the steps cost is a tab where they could be compared, and none where not") {
  const trace::Run run = test::missing_call_run();
  slow::Answer answer;
  answer.why_not = {"no call has a GPU time"};
  CHECK(report::steps_html(run, answer).empty());
  CHECK(page_of_missing_call().find("href=\"#steps\"") == std::string::npos);
  answer.why_not.clear();
  answer.is_compared = true;
  answer.steps = 60;
  answer.compared = 55;
  answer.step_ns = 40e6;
  answer.gpus.push_back({.process = 1,
                         .rank = 1,
                         .role = 0,
                         .peers = 3,
                         .own_ns = 30e6,
                         .excess_ns = 6.5e6,
                         .charged = 0.5});
  answer.comms.push_back({.name = kHostile, .nranks = 4, .key = test::kWorldKey, .charged = 0.2});
  CHECK(report::steps_html(run, answer).find("<h3>Nobody is named: ") == 0);
  slow::Finding finding;
  finding.gpus = {0};
  finding.recovered = 0.15;
  finding.recovered_ns = 6e6;
  finding.doubts = {kHostile};
  answer.finding = finding;
  const std::string html = report::steps_html(run, answer);
  CHECK(html.find("<h3>RC-STRAGGLER (likely): rank 1 (node0, pid 101) takes longer than its peers "
                  "by itself, and the steps wait for it.</h3>") == 0);
  // A sentence that takes two lines of a terminal is one here.
  CHECK(
      html.find("<li>The steps would be 15.0 % shorter (6.00 ms of 40.00 ms) with it as fast as a "
                "median peer.</li>") != std::string::npos);
  CHECK(html.find("<td>transfers, when everybody had come</td><td>20.0 %</td>") !=
        std::string::npos);
  CHECK(html.find("<tr><td>1</td><td>node0</td><td>0</td><td>3</td><td>30.00 ms</td>"
                  "<td>+6.50 ms</td>") != std::string::npos);
  CHECK(html.find("the step time has no lasting change") != std::string::npos);
  CHECK(html.find("<script") == std::string::npos);
  CHECK(html.find("Of the newest calls") == std::string::npos);
  trace::Run cut = run;
  cut.processes[0].first_complete_ticket = 2;
  CHECK(report::steps_html(cut, answer).find("Of the newest calls") != std::string::npos);
}

TEST_CASE(
    "stacks that an incident kept are a tab, line by line, with the ranks of a branch set off") {
  CHECK(report::stacks_html({}).empty());
  report::Kept kept;
  kept.stacks = {"incidents/20261121-021404-RC-STUCK-OUTSIDE",
                 "Python, ranks 0-3:\n  train.py:9 main\n    loader.py:7 load   "
                 "[rank 2; not ranks 0-1,3]\n" +
                     std::string(kHostile) + "\n"};
  const std::string page =
      report::page_html(test::missing_call_run(), test::missing_call_report(), kept);
  CHECK(page.find("href=\"#stacks\"") != std::string::npos);
  CHECK(page_of_missing_call().find("href=\"#stacks\"") == std::string::npos);
  CHECK(page.find("Python, ranks 0-3:\n  train.py:9 main\n    loader.py:7 load   <b>[rank 2; not "
                  "ranks 0-1,3]</b>\n") != std::string::npos);
  CHECK(page.find("20261121-021404-RC-STUCK-OUTSIDE") != std::string::npos);
  CHECK(count_of(page, "<script") == count_of(page_of_missing_call(), "<script"));
  CHECK(count_of(page, "\xe2\x80\xae") == 0);
  const std::string many(1 << 20, '\n');
  CHECK(report::stacks_html({"incidents/x", many}).size() < 10'000);
  const std::string wide(1 << 20, 'x');
  CHECK(report::stacks_html({"incidents/x", wide}).size() < 10'000);
}

TEST_CASE("a page numbers the ranks of a process that drives several GPUs as the verdict does") {
  const trace::Run run = test::several_gpus_run();
  analysis::Report report = test::missing_call_report();
  report.numbering = "ranks are those of the world";
  const nlohmann::json data = data_of(report::page_html(run, report));
  CHECK(data["rolls"][0]["rows"]["ranks"].size() == 4);
  CHECK(data["ranks"]["label"].size() == 4);
}

}  // namespace test_page
