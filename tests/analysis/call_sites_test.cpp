// Calls that look alike and come from different lines of the script.
#include <algorithm>
#include <array>
#include <map>

#include "analysis/slips/script_lines.h"
#include "analysis/words/label.h"
#include "core/format/call_site.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace call_sites_test {

using Lines = std::vector<uint32_t>;

std::optional<SiteSlip> slip(const Lines& mine, const Lines& theirs) {
  return slip_of_sites(mine, theirs);
}

TEST_CASE("a call site is told with the two lines that led to it, and no more") {
  trace::Process process;
  trace::Op op;
  CHECK(call_site_text(process, op).empty());
  op.frames = 1;
  process.meta["frame.1"] = "m.py:11 ar < m.py:13 eval < m.py:25 main < m.py:31 <module>";
  CHECK(call_site_text(process, op) == ", called at m.py:11 ar < m.py:13 eval < m.py:25 main");
  process.meta["frame.1"] = "m.py:11 ar < m.py:31 <module>";
  CHECK(call_site_text(process, op) == ", called at m.py:11 ar < m.py:31 <module>");
  process.meta["frame.1"] = "m.py:31 <module>";
  CHECK(call_site_text(process, op) == ", called at m.py:31 <module>");
}

TEST_CASE("sites that are the same as far as both go are no slip") {
  CHECK_FALSE(slip({1, 2, 3, 1, 2, 3}, {1, 2, 3, 1, 2, 3}));
  CHECK_FALSE(slip({1, 2, 3, 1}, {1, 2, 3, 1, 2, 3}));
  CHECK_FALSE(slip({}, {1, 2}));
}

TEST_CASE("a branch for one rank is no slip, however often it is taken") {
  CHECK_FALSE(slip({1, 9, 3, 1, 9, 3, 1, 9}, {1, 2, 3, 1, 2, 3, 1, 2}));
  CHECK_FALSE(slip({9, 9, 9}, {1, 2, 3}));
}

TEST_CASE("a call left out and a call too many are found where they began") {
  CHECK(slip({1, 2, 3, 1, 3, 1, 2}, {1, 2, 3, 1, 2, 3, 1, 2}) ==
        SiteSlip{.slip = Slip::missing, .begin = 4, .length = 1, .matched = 3});
  CHECK(slip({1, 2, 3, 1, 2, 2, 3, 1}, {1, 2, 3, 1, 2, 3, 1}) ==
        SiteSlip{.slip = Slip::extra, .begin = 5, .length = 1, .matched = 2});
  CHECK(slip({1, 2, 3, 4, 1, 4, 1}, {1, 2, 3, 4, 1, 2, 3, 4, 1}) ==
        SiteSlip{.slip = Slip::missing, .begin = 5, .length = 2, .matched = 2});
}

TEST_CASE("a slip beside a branch for one rank is found") {
  CHECK(slip({1, 9, 3, 1, 9, 3, 1, 3, 1, 9}, {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2}) ==
        SiteSlip{.slip = Slip::missing, .begin = 7, .length = 1, .matched = 2});
}

TEST_CASE("calls that changed places are found, once and in every step") {
  CHECK(slip({1, 2, 3, 1, 3, 2, 1, 2, 3}, {1, 2, 3, 1, 2, 3, 1, 2, 3}) ==
        SiteSlip{.slip = Slip::order, .begin = 4, .length = 2, .matched = 3});
  CHECK(slip({1, 3, 2, 1, 3, 2, 1, 3}, {1, 2, 3, 1, 2, 3, 1, 2}) ==
        SiteSlip{.slip = Slip::order, .begin = 1, .length = 2, .matched = 2});
}

TEST_CASE("of two calls in turns the numbers tell whether one is missing or one too many") {
  CHECK(slip({1, 2, 2, 1, 2, 1}, {1, 2, 1, 2, 1, 2, 1})->slip == Slip::missing);
  CHECK(slip({1, 2, 2, 1, 2, 1, 2, 1}, {1, 2, 1, 2, 1, 2, 1})->slip == Slip::extra);
}

TEST_CASE("a difference that the rest does not bear out is no slip") {
  CHECK_FALSE(slip({1, 3, 7, 1}, {1, 2, 3, 1}));
  CHECK_FALSE(slip({1, 3}, {1, 2}));
}

TEST_CASE("calls from no script are no evidence, and stand in the way of none") {
  CHECK_FALSE(slip({1, kNoSite, kNoSite}, {1, 2, kNoSite, kNoSite}));
  CHECK(slip({1, kNoSite, 2, 1, kNoSite}, {1, kNoSite, kNoSite, 2, 1, kNoSite}) ==
        SiteSlip{.slip = Slip::missing, .begin = 2, .length = 1, .matched = 2});
}

// --- jobs ----------------------------------------------------------------------------------------

// A step: the loss at line 10, the gradients at 20, the norm at 30; all of one float.
constexpr int kSteps = 4;
constexpr std::array<uint32_t, 3> kLines = {10, 20, 30};

std::vector<Lines> lines_of(int ranks) {
  std::vector<Lines> lines(static_cast<size_t>(ranks));
  for (Lines& rank : lines) {
    for (int step = 0; step < kSteps; ++step) rank.insert(rank.end(), kLines.begin(), kLines.end());
  }
  return lines;
}

// Every rank makes one AllReduce after the other, which only their lines tell apart. `other`: line
// of a Broadcast.
trace::Run job_of(const std::vector<Lines>& lines, uint32_t other = 0) {
  Program program;
  program.comms.emplace_back();
  for (const Lines& rank : lines) {
    program.comms[0].ranks.push_back(static_cast<int>(program.comms[0].ranks.size()));
    Steps& steps = program.ranks.emplace_back();
    for (const uint32_t line : rank) {
      steps.push_back(line == other ? call(OpKind::Broadcast, 8, 0) : call(OpKind::AllReduce, 1));
    }
    steps.push_back({.act = Act::sync});
  }
  trace::Run run = execute(program).run;
  for (trace::Process& process : run.processes) {
    // Numbers are each process's own.
    std::map<uint32_t, uint16_t> numbers;
    const Lines& rank = lines[static_cast<size_t>(process.job_rank)];
    for (size_t i = 0; i < process.ops.size() && i < rank.size(); ++i) {
      const auto next = static_cast<uint16_t>(numbers.size() + 1 + process.job_rank % 2);
      const uint16_t number = numbers.try_emplace(rank[i], next).first->second;
      process.ops[i].frames = number;
      process.meta[fmt::format("frame.{}", number)] = fmt::format("train.py:{} step", rank[i]);
    }
    if (process.job_rank % 2 == 1) process.meta["frame.1"] = "warm_up.py:1 warm_up";
  }
  return run;
}

TEST_CASE("a call left out that looks like the next one is named by its line, where it began") {
  std::vector<Lines> lines = lines_of(4);
  lines[2].erase(lines[2].begin() + 4);
  const trace::Run run = job_of(lines);
  const Report report = analyse(run);
  const Culprit& culprit = check_blames(report, Verdict::missing_call, 2);
  INFO(lead(report).summary);
  CHECK(culprit.seq == 4u);
  CHECK(lead(report).severity == Severity::hang);
  CHECK(
      lead(report).summary.starts_with("rank 2 left out AllReduce of 1 float32 (sum) "
                                       "(train.py:20 step) at seq 4 of world, "
                                       "which ranks 0-1,3 made; "));
  CHECK(lead(report).summary.find("it shows only at seq 11,") != std::string::npos);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3});
  REQUIRE_FALSE(lead(report).consequences.empty());
  CHECK(lead(report).consequences[0].verdict == Verdict::missing_call);
  CHECK(lead(report).consequences[0].culprits.at(0).seq == 11u);
}

TEST_CASE("without lines the same job is named where it shows") {
  std::vector<Lines> lines = lines_of(4);
  lines[2].erase(lines[2].begin() + 4);
  trace::Run run = job_of(lines);
  for (trace::Process& process : run.processes) {
    std::erase_if(process.meta, [](const auto& line) { return line.first.starts_with("frame."); });
  }
  CHECK(check_blames(analyse(run), Verdict::missing_call, 2).seq == 11u);
}

TEST_CASE("a call too many that looks like the next one is the caller's, not the others'") {
  std::vector<Lines> lines = lines_of(4);
  lines[1].insert(lines[1].begin() + 4, 40);
  const Report report = analyse(job_of(lines));
  const Culprit& culprit = check_blames(report, Verdict::missing_call, 1);
  INFO(lead(report).summary);
  CHECK(culprit.seq == 4u);
  CHECK(lead(report).misstep == Misstep::made_more);
  CHECK(lead(report).summary.starts_with(
      "rank 1 made AllReduce of 1 float32 (sum) (train.py:40 step) at seq 4 of world, "
      "which ranks 0,2-3 did not; "));
}

TEST_CASE("a slip that shows at another operation is told from where it began") {
  std::vector<Lines> lines = lines_of(4);
  for (Lines& rank : lines) rank.insert(rank.end(), {50, 10, 20, 30});
  lines[3].erase(lines[3].begin() + 3);
  const Report report = analyse(job_of(lines, 50));
  const Culprit& culprit = check_blames(report, Verdict::missing_call, 3);
  INFO(lead(report).summary);
  CHECK(culprit.seq == 3u);
  CHECK(lead(report).summary.find("it shows only at seq 11,") != std::string::npos);
}

// All ranks make their steps, then ranks 0-2 call from the first of these lines, rank 3 from the
// second ones; line 50 is a Broadcast.
trace::Run parted_job(std::vector<Lines> lines, const Lines& others, const Lines& odd) {
  for (size_t r = 0; r < 4; ++r) {
    const Lines& more = r == 3 ? odd : others;
    lines[r].insert(lines[r].end(), more.begin(), more.end());
  }
  return job_of(lines, 50);
}

bool says(const Report& report, std::string_view words) {
  return lead(report).summary.find(words) != std::string::npos;
}

TEST_CASE("where lines part before calls differ that is told, though no later call agrees") {
  const Report report = analyse(parted_job(lines_of(4), {60, 61, 50}, {70, 71, 72}));
  const Culprit& culprit = check_blames(report, Verdict::op_mismatch, 3);
  INFO(lead(report).summary);
  CHECK(culprit.seq == 12u);
  CHECK(says(report, "at seq 14 of world where ranks 0-2 called Broadcast"));
  CHECK(says(report,
             "; the lines part at seq 12: rank 0 called from train.py:60 step, rank 3 from "
             "train.py:70 step"));
}

TEST_CASE("lines that one rank has in every step are not where it parted from the others") {
  std::vector<Lines> lines = lines_of(4);
  std::replace(lines[3].begin(), lines[3].end(), 30u, 31u);
  const Report report = analyse(parted_job(lines, {50}, {72}));
  CHECK(check_blames(report, Verdict::op_mismatch, 3).seq == 12u);
  CHECK_FALSE(says(report, "part"));
  CHECK_FALSE(says(report, "no line"));
}

TEST_CASE("of a call that no line made the last line is told from which its rank called") {
  trace::Run run = parted_job(lines_of(4), {50}, {72});
  for (trace::Process& process : run.processes) {
    if (process.job_rank != 3) process.ops.back().frames = 0;
  }
  const Report report = analyse(run);
  CHECK(check_blames(report, Verdict::op_mismatch, 3).seq == 12u);
  CHECK(
      says(report,
           "; at seq 12 rank 0 called from no line of the script itself, behind train.py:30 step, "
           "rank 3 from train.py:72 step"));
}

TEST_CASE("calls in another order that nobody waits for are wrong results, once and always") {
  for (const bool always : {false, true}) {
    std::vector<Lines> lines = lines_of(4);
    for (size_t step = 1; step < (always ? kSteps : 2); ++step) {
      std::swap(lines[1][3 * step + 1], lines[1][3 * step + 2]);
    }
    const Report report = analyse(job_of(lines));
    const Culprit& culprit = check_blames(report, Verdict::order_mismatch, 1);
    INFO(lead(report).summary);
    CHECK(culprit.seq == 4u);
    CHECK(lead(report).severity == Severity::corruption);
    CHECK(report.status == 1);
    CHECK(lead(report).summary.find("; first AllReduce of 1 float32 (sum) (train.py:30 step), "
                                    "not AllReduce of 1 float32 (sum) (train.py:20 step)") !=
          std::string::npos);
  }
}

TEST_CASE("of two ranks the steps before tell which left a call out") {
  for (const size_t rank : {0u, 1u}) {
    std::vector<Lines> lines = lines_of(2);
    lines[rank].erase(lines[rank].begin() + 7);
    const Report report = analyse(job_of(lines));
    CHECK(check_blames(report, Verdict::missing_call, static_cast<int>(rank)).seq == 7u);
  }
}

TEST_CASE("of two ranks in another order from the beginning both are named") {
  std::vector<Lines> lines = lines_of(2);
  std::swap(lines[1][1], lines[1][2]);
  const Report report = analyse(job_of(lines));
  INFO(lead(report).summary);
  CHECK(lead(report).verdict == Verdict::order_mismatch);
  CHECK(lead(report).culprits.size() == 2);
  CHECK(lead(report).summary.find("nothing on file tells which side is right") !=
        std::string::npos);
}

TEST_CASE("a healthy job whose root has lines of its own is in lockstep") {
  std::vector<Lines> lines = lines_of(4);
  for (uint32_t& line : lines[0]) line = line == 20 ? 21 : line;
  const Report report = analyse(job_of(lines));
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("ranks without call sites are left alone beside ranks that have them") {
  std::vector<Lines> lines = lines_of(4);
  trace::Run run = job_of(lines);
  // The last two ranks have a communicator of their own, and no sites.
  for (trace::Process& process : run.processes) {
    if (process.job_rank < 2) continue;
    std::erase_if(process.meta, [](const auto& line) { return line.first.starts_with("frame."); });
    process.comms[0].key = {7, 7};
    process.comms[0].rank -= 2;
  }
  for (trace::Process& process : run.processes) process.comms[0].nranks = 2;
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

TEST_CASE("a rank of which some calls have no line by our own doing is not judged by them") {
  std::vector<Lines> lines = lines_of(4);
  std::swap(lines[1][4], lines[1][5]);
  trace::Run run = job_of(lines);
  REQUIRE(lead(analyse(run)).verdict == Verdict::order_mismatch);
  run.processes[1].meta[kFramesLeftOutKey] = "to keep the overhead budget";
  CHECK(lead(analyse(run)).verdict == Verdict::in_lockstep);
}

}  // namespace call_sites_test
}  // namespace rollcall::analysis
