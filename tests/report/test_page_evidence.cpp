// The tabs of communicators and evidence, and what was kept while the job ran.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "analysis/views/by_gpu.h"
#include "report/page/communicators.h"
#include "report/page/evidence.h"
#include "report/page/kept_stacks.h"
#include "report/page/page.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_page_evidence {

using namespace rollcall;

constexpr CommKey kChildKey{7, 7};
constexpr CommKey kOlderKey{9, 9};

bool says(const std::vector<std::string>& lines, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

std::vector<std::string> lines_of(const trace::Run& run) {
  const analysis::Index index(run);
  return report::not_seen(run, index);
}

analysis::CommSummary summary(const CommKey& key, const char* name, std::vector<int32_t> ranks) {
  analysis::CommSummary comm;
  comm.key = key;
  comm.name = name;
  comm.nranks = static_cast<int32_t>(ranks.size());
  comm.ranks = std::move(ranks);
  return comm;
}

void add_comm(trace::Run& run, const CommKey& key, int64_t created_ns) {
  for (trace::Process& process : run.processes) {
    trace::Comm comm = process.comms[0];
    comm.key = key;
    comm.created_ns = created_ns;
    comm.collectives = 0;
    process.comms.push_back(comm);
  }
}

TEST_CASE("communicators stand below that of which they were made, those out of step first") {
  trace::Run run = test::missing_call_run();
  add_comm(run, kChildKey, test::kStartNs + 5);
  add_comm(run, kOlderKey, test::kStartNs - 2'000'000);
  analysis::Report report = test::missing_call_report();
  report.comms.push_back(summary(kOlderKey, "older", {3, 1, 0, 2}));
  report.comms.push_back(summary(kChildKey, "child", {0, 1}));
  report.comms.back().parent = test::kWorldKey;
  const std::string html = report::communicators_html(analysis::Index(run), report);
  const size_t older = html.find("<tr class=\"depth0\"><td>older</td><td>00000000</td><td>1</td>");
  const size_t world = html.find("<tr class=\"depth0\"><td>world</td><td>11223344</td><td>2</td>");
  const size_t child = html.find("<tr class=\"depth1\"><td>child</td><td>00000000</td><td>3</td>");
  // The one that is out of step comes first, with what is below it.
  CHECK(world < child);
  CHECK(child < older);
  CHECK(older != std::string::npos);
  CHECK(html.find("<td>3, 1, 0, 2</td>") != std::string::npos);
  CHECK(html.find("<td>as in the job</td>") != std::string::npos);
}

TEST_CASE("communicators that a damaged file calls each other's parents are told once each") {
  const trace::Run run = test::missing_call_run();
  analysis::Report report;
  report.comms = {summary(kChildKey, "one", {0}), summary(kOlderKey, "two", {0}),
                  summary(test::kWorldKey, "own parent", {0})};
  report.comms[0].parent = kOlderKey;
  report.comms[1].parent = kChildKey;
  report.comms[2].parent = test::kWorldKey;
  const std::string html = report::communicators_html(analysis::Index(run), report);
  for (const char* name : {"<td>one</td>", "<td>two</td>", "<td>own parent</td>"}) {
    const size_t first = html.find(name);
    CHECK(first != std::string::npos);
    CHECK(html.find(name, first + 1) == std::string::npos);
  }
}

TEST_CASE("what was not seen is said, and nothing of what was") {
  const trace::Run whole = test::missing_call_run();
  const std::vector<std::string> plain = lines_of(whole);
  CHECK(says(plain, "The calls of all ranks have no GPU time"));
  CHECK(says(plain, "The calls of all ranks have no line of the script."));
  CHECK(says(plain, "Only calls of NCCL are recorded"));
  CHECK(plain.size() == 3);

  trace::Run run = whole;
  run.processes.erase(run.processes.begin() + 1);
  run.processes[0].first_complete_ticket = 2;
  run.processes[1].skipped = 12'345;
  run.processes[2].lost = trace::kUnspentMax + 1;
  run.processes[2].capture_off = true;
  run.processes[2].knowledge.tail = false;
  trace::Graph graph;
  graph.launches = 40;
  run.processes[0].graphs.push_back(graph);
  run.processes[0].host = "node1";
  const std::vector<std::string> lines = lines_of(run);
  CHECK(says(lines,
             "There is no file of rank 1 of world, by its number there: nothing is known "
             "of it."));
  CHECK(says(lines, "The oldest calls of rank 0 are no longer on file."));
  CHECK(says(lines, "12,345 calls of rank 2 are on disk and were not read"));
  CHECK(says(lines, "About 257 calls of rank 3 are on no file."));
  CHECK(says(lines, "The recorder of rank 3 switched itself off."));
  CHECK(says(lines, "Rank 3 may have made more calls than the last one on file"));
  CHECK(says(lines, "What 40 replays of CUDA graphs did is recorded once"));
  CHECK(says(lines, "How far the clocks of these hosts are off is not known: node0, node1."));
}

TEST_CASE("calls that were not read are not said to be on file no longer") {
  trace::Run run = test::missing_call_run();
  run.processes[0].first_complete_ticket = 2;
  run.processes[0].skipped = 12;
  CHECK_FALSE(says(lines_of(run), "no longer on file"));
  run.processes[0].skipped = 0;
  CHECK(says(lines_of(run), "The oldest calls of rank 0 are no longer on file."));
}

TEST_CASE("one record is not said to be several, and several recorders not to be one") {
  trace::Run run = test::missing_call_run();
  run.processes[0].torn = 1;
  run.processes[1].damaged = 1;
  run.processes[2].skipped = 1;
  run.processes[3].graphs.emplace_back().launches = 1;
  for (trace::Process& process : run.processes) {
    process.capture_off = process.capture_paused = true;
  }
  const std::vector<std::string> lines = lines_of(run);
  CHECK(says(lines, "1 record of rank 0 was being written when the process ended."));
  CHECK(says(lines, "1 record of rank 1 holds what no recorder writes, and was left out."));
  CHECK(says(lines, "1 call of rank 2 is on disk and was not read"));
  CHECK(says(lines, "What 1 replay of a CUDA graph did is recorded once"));
  CHECK(says(lines, "The recorders of all ranks switched themselves off."));
  CHECK(says(lines, "The recorders of all ranks were paused"));
}

TEST_CASE("what was counted of a process is said once, whatever number of GPUs it drives") {
  trace::Run run = test::several_gpus_run();
  run.processes[0].torn = 3;
  run.processes[1].lost = 1'000;
  const std::optional<analysis::Parts> parts = analysis::take_apart(run);
  REQUIRE(parts.has_value());
  const analysis::Index index(parts->run);
  const std::vector<std::string> lines = report::not_seen(run, index);
  CHECK(says(lines, "3 records of ranks 0-1 were being written"));
  CHECK(says(lines, "About 1,000 calls of ranks 2-3 are on no file."));
  // Each row is of a process, whose number is not that of a rank above.
  const std::string html = report::evidence_html(run, index);
  CHECK(html.find("process</th>") != std::string::npos);
  CHECK(html.find("rank</th>") == std::string::npos);
  CHECK(report::evidence_html(run, analysis::Index(run)).find("rank</th>") != std::string::npos);
}

TEST_CASE("the time at which a watchdog saw that a call was through is no GPU time") {
  trace::Run run = test::missing_call_run();
  for (trace::Op& op : run.processes[1].ops) op.finished_ns = op.called_ns + 1'000'000;
  CHECK(says(lines_of(run), "The calls of all ranks have no GPU time"));
  for (trace::Op& op : run.processes[1].ops) op.started_ns = op.called_ns + 1'000;
  CHECK(says(lines_of(run), "The calls of ranks 0,2-3 have no GPU time"));
}

TEST_CASE("numbers that threads drew and did not spend are no lost calls") {
  trace::Run run = test::missing_call_run();
  run.processes[0].lost = trace::kUnspentMax;
  CHECK_FALSE(says(lines_of(run), "on no file"));
}

TEST_CASE("the bounds of clocks stand with the files") {
  trace::Run run = test::missing_call_run();
  run.processes[0].clock_bound_ns = 12'000;
  run.processes[1].clock_doubt_ns = 3'000'000;
  const std::string html = report::evidence_html(run, analysis::Index(run));
  CHECK(html.find("<td>12 us</td>") != std::string::npos);
  CHECK(html.find("<td>moved, 3 ms</td>") != std::string::npos);
  CHECK(report::evidence_html({}, analysis::Index(trace::Run())).empty());
}

TEST_CASE("of more processes than there is room for those that are in trouble are told") {
  trace::Run run = test::missing_call_run();
  const trace::Process well = run.processes[0];
  while (run.processes.size() < 2000) {
    run.processes.push_back(well);
    run.processes.back().job_rank = static_cast<int32_t>(run.processes.size()) - 1;
  }
  run.processes[1500].liveness = trace::Liveness::dead;
  run.processes[1600].lost = 9'999;
  const std::string html = report::evidence_html(run, analysis::Index(run));
  const size_t dead = html.find("<td>1500</td>");
  const size_t lossy = html.find("<td>1600</td>");
  CHECK(dead < lossy);
  CHECK(lossy < html.find("<td>0</td><td>node0</td>"));
  CHECK(lossy != std::string::npos);
  CHECK(html.find("<td>1700</td>") == std::string::npos);
}

TEST_CASE("stacks that were not read to their end are said to go on") {
  report::KeptStacks stacks{"incidents/x", "Python, ranks 0-3:\n"};
  const std::string more = "and more lines in stacks.txt";
  CHECK(report::stacks_html(stacks).find(more) == std::string::npos);
  stacks.text += std::string(report::kStacksBytesMax - stacks.text.size(), 'x');
  CHECK(report::stacks_html(stacks).find(more) != std::string::npos);
}

TEST_CASE("verdicts that were kept while the job ran stand below the one of the page") {
  const trace::Run run = test::missing_call_run();
  const analysis::Report report = test::missing_call_report();
  const std::string without = report::page_html(run, report);
  CHECK(without.find("kept while it ran") == std::string::npos);
  report::Kept kept;
  kept.verdicts = {"incidents/20261121-021404-RC-STALLED: <b>nothing has changed</b>"};
  const std::string with = report::page_html(run, report, kept);
  CHECK(with.find("<dt>kept while it ran</dt>") != std::string::npos);
  CHECK(with.find("RC-STALLED: &lt;b&gt;nothing has changed&lt;/b&gt;") != std::string::npos);
  kept.is_of_incident = true;
  CHECK(report::page_html(run, report, kept).find("<dt>this incident</dt>") != std::string::npos);
}

}  // namespace test_page_evidence
