#include <nlohmann/json.hpp>
#include <string>

#include "report/page/two_runs.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_page_two_runs {

using namespace rollcall;

constexpr const char* kHostile =
    "</script><script>alert('1')</script><!--\xe2\x80\xae\xe2\x80\xa8{{script}}&\"";

// Two runs of the same four ranks, of which nothing differs yet.
struct World {
  trace::Run before = test::missing_call_run();
  trace::Run after = test::missing_call_run();
  analysis::Report report = test::missing_call_report();
  report::TwoRunsReport answer{.before = "old", .after = "new", .settings = {}, .answer = {}};

  World() {
    before.directory = "runs/old";
    after.directory = "runs/new";
    answer.answer.is_compared = answer.answer.has_parts = true;
    answer.answer.before.step_ns = 40e6;
    answer.answer.after.step_ns = 40.2e6;
  }

  // Rank 0 of the new run, or all of them, makes so many other calls at its end.
  void call_more(trace::Process& process, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      trace::Op op = process.ops.back();
      op.seq += 1;
      op.ticket += 1;
      op.count = 4096 + i;
      process.ops.push_back(op);
    }
  }

  void be_slower() {
    answer.answer.steps_differ = true;
    answer.answer.after.step_ns = 44e6;
    slow::Difference difference;
    difference.part = slow::Part::transfer;
    difference.ranks = {0, 1};
    difference.share = 0.08;
    difference.saved_ns = 3.2e6;
    slow::PlaceChange place;
    place.call = 2;
    place.before_ns = 1e6;
    place.after_ns = 4.2e6;
    place.place.comm = "world";
    difference.places = {place};
    answer.answer.differences = {difference};
  }

  template <typename Use>
  auto with_source(Use use) const {
    const comparison::Comparison calls = comparison::compare_runs(before, after);
    return use(report::TwoRunsSource{{before, report}, {after, report}, calls, answer});
  }
  std::string page() const { return with_source(report::two_runs_page_html); }
  std::string headline() const { return with_source(report::two_runs_headline); }
};

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

nlohmann::json data_of(const std::string& page) {
  const std::string tag = "id=\"rollcall-data\">";
  const size_t begin = page.find(tag) + tag.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

// The tabs, in their order.
std::string tabs_of(const std::string& page) {
  std::string tabs;
  size_t end = page.find("</nav>");
  for (size_t at = page.find("<a href=\"#"); at < end; at = page.find("<a href=\"#", at + 1)) {
    const size_t name = at + 10;
    tabs += page.substr(name, page.find('"', name) - name) + " ";
  }
  return tabs;
}

TEST_CASE("a page of two runs leads with settings, calls and steps, in this order") {
  World world;
  world.answer.settings = {{"nccl_version", "22703", "22907"}, {"NCCL_ALGO", "", "Ring"}};
  world.call_more(world.after.processes[0], 2);
  world.be_slower();
  CHECK(world.headline() ==
        "2 settings differ, 1 of 4 ranks make other calls, and the steps take 10.0 % longer.");
  const std::string page = world.page();
  CHECK(has(page, "<h1>" + world.headline() + "</h1>"));
  CHECK(has(page, "old \xe2\x86\x92 new</p>"));
  CHECK(tabs_of(page) == "settings calls steps evidence ");
  CHECK(has(page, "<td>nccl_version</td><td>2.27.3</td><td>2.29.7</td>"));
  CHECK(has(page, "<td>NCCL_ALGO</td><td>(not set)</td><td>Ring</td>"));
  CHECK(has(page, "<h3>rank 0: 3 calls against 5</h3>"));
  CHECK(has(page, "<li class=\"added\"><span>+</span> AllReduce 4097 float32 sum"));
  CHECK(has(page, "<li>ranks 1,3: the same 3 calls"));
  CHECK(has(page, "The steps take 10.0 % longer: 40.00 ms -&gt; 44.00 ms."));
  CHECK(has(page,
            "<td>+8.0 %</td><td>+3.20 ms</td><td>transfers, when everybody had come</td>"
            "<td>ranks 0-1</td><td>call 2 of a step, "));
  // The verdict of each run, so that one that hung is not taken for one that is slow.
  CHECK(count_of(page, "<li>RC-MISSING-CALL") == 2);
}

TEST_CASE("what differs between two runs opens first") {
  World world;
  world.call_more(world.after.processes[0], 1);
  CHECK(tabs_of(world.page()) == "calls settings steps evidence ");
  world = World();
  world.be_slower();
  CHECK(tabs_of(world.page()) == "steps settings calls evidence ");
}

TEST_CASE("a page of two runs that do not differ says so, and of what") {
  const World world;
  CHECK(world.headline() ==
        "No setting differs, all ranks make the same calls, and the steps take as long as they "
        "did.");
  const std::string page = world.page();
  CHECK(has(page, "Versions, settings, ranks and hosts are the same"));
  CHECK(has(page, "no part differs that much"));
  CHECK_FALSE(has(page, "class=\"added\""));
  CHECK(data_of(page)["compare"]["equal"] == true);
}

TEST_CASE("ranks and steps of two runs that cannot be compared are said to be so") {
  World world;
  world.after.processes.pop_back();
  world.answer.answer = {};
  world.answer.answer.why_not = {"the new run has no times of GPUs"};
  CHECK(world.headline() ==
        "No setting differs, the ranks of both runs make the same calls, and the steps cannot be "
        "compared.");
  const std::string page = world.page();
  CHECK(has(page, "only in the old run: rank 3"));
  CHECK(has(page, "the new run has no times of GPUs"));
  world.after.processes.clear();
  CHECK(has(world.headline(), "no rank is in both runs"));
}

TEST_CASE("the evidence of two runs numbers the ranks of several GPUs as their verdicts do") {
  World world;
  world.before = world.after = test::several_gpus_run();
  world.before.processes[1].torn = 5;
  world.report.numbering = "ranks are those of the world";
  CHECK(has(world.page(), "5 records of ranks 2-3 were being written"));
}

TEST_CASE("a page of two runs holds the documents for programs") {
  World world;
  world.call_more(world.after.processes[0], 2);
  world.be_slower();
  const nlohmann::json data = data_of(world.page());
  CHECK(data["schema"] == "rollcall.page/1");
  CHECK(data["rolls"].empty());
  CHECK(data["compare"]["schema"] == "rollcall.compare/1");
  CHECK(data["compare"]["groups"].size() == 3);
  CHECK(data["against"]["differences"][0]["part"] == "transfer");
  CHECK(world.page() == world.page());
}

TEST_CASE("no name of two runs can be markup, end a script or turn a line around") {
  World world;
  const std::string clean = world.page();
  world.before.directory = world.after.directory = kHostile;
  world.answer.before = world.answer.after = kHostile;
  world.answer.settings = {{kHostile, kHostile, ""}};
  world.be_slower();
  world.answer.answer.differences[0].places[0].place.comm = kHostile;
  world.answer.answer.why_not = {kHostile};
  world.report.findings[0].summary = kHostile;
  for (trace::Process& process : world.after.processes) {
    process.host = kHostile;
    process.comms[0].name = kHostile;
  }
  world.call_more(world.after.processes[0], 2);
  world.after.issues.push_back({kHostile, kHostile, 0, false});
  const std::string page = world.page();
  CHECK(count_of(page, "</script>") == count_of(clean, "</script>"));
  CHECK(count_of(page, "<script") == count_of(clean, "<script"));
  CHECK(count_of(page, "<!--") == 0);
  CHECK(count_of(page, "\xe2\x80\xae") == 0);
  CHECK(count_of(page, "\xe2\x80\xa8") == 0);
  CHECK(count_of(page, "&lt;/script&gt;") > 5);
  CHECK(data_of(page)["against"]["dir"] == kHostile);
}

TEST_CASE("a page of two runs in which every rank makes its own calls is not a page of gigabytes") {
  World world;
  const trace::Process one = world.before.processes[0];
  world.before.processes.clear();
  world.after.processes.clear();
  for (int rank = 0; rank < 400; ++rank) {
    world.before.processes.push_back(one);
    world.before.processes.back().job_rank = rank;
    world.after.processes.push_back(world.before.processes.back());
    world.call_more(world.after.processes.back(), static_cast<uint64_t>(rank));
  }
  const std::string page = world.page();
  CHECK(page.size() < 600'000);
  CHECK(has(page, "`rollcall diff OLD NEW --all` shows them"));
  CHECK(data_of(page)["compare"].is_null());
}

}  // namespace test_page_two_runs
