// Jobs as people write them, with one rank that leaves something out or makes it once more: is it
// named, and for that?
//
// Fails on every job that is judged wrong and is not in known_wrong_workloads.txt, and on every one
// in it that is not.
//
//   ROLLCALL_SIM_SEEDS=N     seeds to run (2000), of each kind
//   ROLLCALL_SIM_FIRST=N     the first of them (1); ROLLCALL_SIM_SEEDS is the last
//   ROLLCALL_SIM_SEED=N      only this one, with its programs printed
//   ROLLCALL_SIM_WORKLOAD=N  of one kind alone
//   ROLLCALL_SIM_WORKLOADS=FILE  writes rows for the table of docs/ACCURACY.md
#include "tests/sim/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/sim/known_wrong.h"

namespace rollcall::sim {
namespace {

using analysis::Finding;
using analysis::Misstep;
using analysis::Verdict;

enum class Score : uint8_t { right, insufficient, wrong };

// A finding that is about what ranks call, in whatever order.
bool is_about_calls(Verdict verdict) {
  constexpr Verdict kAboutCalls[] = {
      Verdict::missing_call,    Verdict::op_mismatch,    Verdict::count_mismatch,
      Verdict::order_mismatch,  Verdict::dtype_mismatch, Verdict::deadlock_comms,
      Verdict::deadlock_p2p,    Verdict::p2p_unmatched,  Verdict::p2p_mismatch,
      Verdict::init_incomplete, Verdict::split_mismatch, Verdict::graph_diverged,
      Verdict::rank_dead};
  return std::count(std::begin(kAboutCalls), std::end(kAboutCalls), verdict) != 0;
}

bool names(const Finding& finding, int rank) {
  return std::any_of(finding.culprits.begin(), finding.culprits.end(),
                     [&](const analysis::Culprit& culprit) { return culprit.rank == rank; });
}

// Certain of the opposite of what it did.
bool is_contrary(const Finding& finding, Deviation deviation) {
  const Misstep contrary =
      deviation == Deviation::repeated ? Misstep::left_out : Misstep::made_more;
  return finding.misstep == contrary && finding.confidence == analysis::Confidence::certain;
}

Score judge(const WorkloadJob& job, Deviation deviation, const Outcome& outcome,
            const analysis::Report& report, std::string& what) {
  const Finding& lead = report.findings.front();
  if (deviation == Deviation::none) {
    const bool is_quiet = lead.verdict == Verdict::in_lockstep && report.findings.size() == 1;
    what = is_quiet ? "" : "healthy";
    return is_quiet ? Score::right : Score::wrong;
  }
  what = "verdict";
  if (lead.verdict == Verdict::insufficient) return Score::insufficient;
  if (lead.verdict == Verdict::in_lockstep) {
    return outcome.hung ? Score::wrong : Score::insufficient;
  }
  if (!is_about_calls(lead.verdict)) return Score::wrong;
  what = "culprit";
  if (!names(lead, job.rank)) return Score::wrong;
  what = "misstep";
  if (is_contrary(lead, deviation)) return Score::wrong;
  what = "";
  return lead.culprits.size() == 1 ? Score::right : Score::insufficient;
}

// The list has a job as its seed times this, and the number of its workload.
constexpr uint64_t kWorkloadsMax = 100;
static_assert(static_cast<uint64_t>(Workload::Count) <= kWorkloadsMax);

constexpr std::string_view kDone[] = {"as all do it", "left out", "made once more"};

uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

using Scores = std::array<uint64_t, 3>;

void write_rows(const std::map<std::string, Scores>& rows) {
  const char* path = std::getenv("ROLLCALL_SIM_WORKLOADS");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  for (const auto& [row, score] : rows) {
    fmt::print(file, "| {} | {} | {} | {} | {} |\n", row, score[0] + score[1] + score[2], score[0],
               score[1], score[2]);
  }
  std::fclose(file);
}

struct Judged {
  Score score;
  std::string row;
  std::string text;  // what is wrong, and what was said
};

Judged judge_job(Workload workload, uint64_t seed, bool is_described) {
  const auto deviation = static_cast<Deviation>(seed % 3);
  const WorkloadJob job = make_workload(workload, deviation, seed);
  const Outcome outcome = execute(job.program, {.seed = seed,
                                                .stall_ns = 60'000'000'000,
                                                .live = seed % 2 == 0,
                                                .watched = workload == Workload::batch_sizes});
  const analysis::Report report = analysis::analyse(outcome.run, {});
  std::string what;
  Judged judged{
      judge(job, deviation, outcome, report, what),
      fmt::format("{}, {} | {}", words_of(workload), kDone[static_cast<size_t>(deviation)],
                  deviation == Deviation::none ? "RC-IN-LOCKSTEP" : "any on calls"),
      ""};
  if (judged.score != Score::wrong && !is_described) return judged;
  const Finding& lead = report.findings.front();
  judged.text = fmt::format("seed {}, workload {}: wrong {}: {}; {}\n  {} {}\n  {}\n{}", seed,
                            static_cast<int>(workload), what, judged.row, job.where,
                            analysis::code_of(lead.verdict), lead.summary, lead.next,
                            is_described ? describe(job.program) : "");
  return judged;
}

TEST_CASE("who leaves out or repeats a part of its job is named, and nobody where none does") {
  const uint64_t only = from_environment("ROLLCALL_SIM_SEED", 0);
  const uint64_t first = only ? only : from_environment("ROLLCALL_SIM_FIRST", 1);
  const uint64_t last = only ? only : from_environment("ROLLCALL_SIM_SEEDS", 2000);
  // Whoever asks for the reports of the random jobs waits for those alone.
  for (const char* reports : {"ROLLCALL_SIM_DIGESTS", "ROLLCALL_SIM_REPORTS"}) {
    if (std::getenv(reports) != nullptr) return;
  }
  constexpr auto kAll = static_cast<uint64_t>(Workload::Count);
  const uint64_t only_workload = from_environment("ROLLCALL_SIM_WORKLOAD", kAll);
  std::ifstream list(ROLLCALL_SIM_KNOWN_WRONG_WORKLOADS);
  REQUIRE(list);
  KnownWrong known(list);
  std::map<std::string, Scores> rows;
  std::string failures;
  for (uint64_t seed = first; seed <= last; ++seed) {
    for (uint64_t workload = 0; workload < kAll; ++workload) {
      if (only_workload != kAll && workload != only_workload) continue;
      const Judged judged = judge_job(static_cast<Workload>(workload), seed, only != 0);
      ++rows[judged.row][static_cast<size_t>(judged.score)];
      if (only) WARN(judged.text);
      const uint64_t id = seed * kWorkloadsMax + workload;
      known.judged(id, judged.score == Score::wrong);
      if (judged.score == Score::wrong && !known.contains(id)) failures += judged.text;
    }
  }
  write_rows(rows);
  INFO(failures << known.errors());
  CHECK(known.errors().empty());
}

}  // namespace
}  // namespace rollcall::sim
