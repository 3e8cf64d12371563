// The tabs of communicators and evidence, and what was kept while the job ran.
#include <algorithm>
#include <string>
#include <vector>

#include "report/page/communicators.h"
#include "report/page/evidence.h"
#include "report/page/page.h"
#include "tests/catch.h"
#include "tests/report/world.h"

using namespace rollcall;

namespace {

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

}  // namespace

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
  CHECK(says(lines, "There is no file of rank 1 of world"));
  CHECK(says(lines, "The oldest calls of rank 0 are no longer on file."));
  CHECK(says(lines, "12,345 calls of rank 2 are on disk and were not read"));
  CHECK(says(lines, "About 257 calls of rank 3 are on no file."));
  CHECK(says(lines, "The recorder of rank 3 switched itself off."));
  CHECK(says(lines, "rank 3 may have made more calls than the last one on file"));
  CHECK(says(lines, "What 40 replays of CUDA graphs did is recorded once"));
  CHECK(says(lines, "How far the clocks of these hosts are off is not known: node0, node1."));
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
