// Random jobs, one random fault each: is the leading finding the truth?
//
//   ROLLCALL_SIM_SEEDS=N   seeds to run (600)
//   ROLLCALL_SIM_SEED=N    only this one, with its program printed
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/sim/training.h"

namespace rollcall::sim {
namespace {

using analysis::Finding;
using analysis::Report;
using analysis::Verdict;

struct Scenario {
  TrainingOptions training;
  Program program;
  Truth truth;
};

Scenario make_scenario(uint64_t seed) {
  constexpr int kLayouts[][3] = {{2, 1, 1}, {4, 1, 1}, {2, 2, 1}, {2, 1, 2}, {2, 2, 2},
                                 {4, 2, 2}, {8, 1, 1}, {1, 2, 4}, {4, 4, 1}};
  Scenario scenario;
  const auto& layout = kLayouts[seed % std::size(kLayouts)];
  scenario.training = {.dp = layout[0], .tp = layout[1], .pp = layout[2], .steps = 4, .seed = seed};
  scenario.program = make_training(scenario.training);
  const auto fault = static_cast<Fault>((seed / 3) % static_cast<uint64_t>(Fault::Count));
  scenario.truth = plant(scenario.program, fault, seed * 77 + 5);
  return scenario;
}

std::vector<Verdict> accepted(Fault fault) {
  switch (fault) {
    case Fault::missing:
    case Fault::stick:
      return {Verdict::missing_call};
    case Fault::extra:
      return {Verdict::op_mismatch, Verdict::count_mismatch, Verdict::dtype_mismatch,
              Verdict::missing_call};
    case Fault::op:
      return {Verdict::op_mismatch};
    case Fault::count:
      return {Verdict::count_mismatch};
    case Fault::dtype:
      return {Verdict::dtype_mismatch};
    case Fault::redop:
      return {Verdict::redop_mismatch};
    case Fault::root:
      return {Verdict::root_mismatch};
    case Fault::order:
      return {Verdict::order_mismatch};
    case Fault::die:
    case Fault::exit:
      return {Verdict::rank_dead};
    case Fault::stop:
      return {Verdict::rank_stopped};
    case Fault::comm_order:
      return {Verdict::deadlock_comms};
    case Fault::p2p_unmatched:
      return {Verdict::p2p_unmatched};
    case Fault::p2p_count:
      return {Verdict::p2p_mismatch};
    default:
      return {Verdict::in_lockstep};
  }
}

// Empty when the report says the truth.
std::string wrong(const Scenario& scenario, const Outcome& outcome, const Report& report) {
  const Truth& truth = scenario.truth;
  const Finding& lead = report.findings.front();
  std::vector<Verdict> allowed = accepted(truth.fault);
  // A left-out send shows at the last transfer of the channel where all are of one size; nothing on
  // file tells then whether that one is only late.
  const bool at_the_end =
      !lead.culprits.empty() && lead.culprits[0].p2p_seq && *lead.culprits[0].p2p_seq > truth.seq;
  if (truth.fault == Fault::p2p_unmatched && (truth.is_last || at_the_end)) {
    allowed.push_back(Verdict::missing_call);
  }
  if (std::find(allowed.begin(), allowed.end(), lead.verdict) == allowed.end()) {
    return "verdict";
  }
  if (truth.fault == Fault::none) {
    return report.findings.size() == 1 && report.status == 0 ? "" : "more than in lockstep";
  }
  if (!outcome.hung && report.status != 1) return "status";
  bool named = false;
  for (const analysis::Culprit& culprit : lead.culprits) {
    named = named || culprit.rank == truth.rank;
  }
  if (truth.fault == Fault::p2p_unmatched || truth.fault == Fault::p2p_count) {
    return named ? "" : "culprit";
  }
  if (!named) return "culprit";
  // Of two ranks, each calls in another order than the other.
  const bool is_tie = truth.fault == Fault::comm_order && scenario.program.ranks.size() == 2;
  if (is_tie && lead.culprits.size() == 2 && lead.verdict == Verdict::deadlock_comms) return "";
  if (lead.culprits.size() != 1) return "more than one culprit";
  const bool positional = truth.fault != Fault::comm_order && truth.fault != Fault::die &&
                          truth.fault != Fault::stop && truth.fault != Fault::exit &&
                          truth.fault != Fault::stick;
  if (!positional) return "";
  const analysis::Culprit& culprit = lead.culprits.front();
  const CommKey key{static_cast<uint64_t>(truth.comm) + 1, 7};
  if (!culprit.comm || !(*culprit.comm == key)) return "communicator";
  return culprit.seq && *culprit.seq == truth.seq ? "" : "position";
}

uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

TEST_CASE("the leading finding of a random job is the fault that was planted in it") {
  const uint64_t only = from_environment("ROLLCALL_SIM_SEED", 0);
  const uint64_t first = only ? only : 1;
  const uint64_t last = only ? only : from_environment("ROLLCALL_SIM_SEEDS", 600);
  uint64_t judged = 0;
  std::map<std::string, std::pair<int, int>> by_fault;  // right, all
  std::string failures;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const Scenario scenario = make_scenario(seed);
    if (!scenario.truth.is_planted) continue;
    const bool live = scenario.truth.fault == Fault::stop;
    const Outcome outcome =
        execute(scenario.program, {.seed = seed, .stall_ns = 60'000'000'000, .live = live});
    const Report report = analysis::analyse(outcome.run, {});
    const std::string what = wrong(scenario, outcome, report);
    auto& [right, all] = by_fault[std::string(name_of(scenario.truth.fault))];
    ++all;
    right += what.empty();
    ++judged;
    if (what.empty() && !only) continue;
    const Finding& lead = report.findings.front();
    failures += fmt::format("seed {}: wrong {}; {}\n  {} {}\n", seed, what, scenario.truth.where,
                            analysis::code_of(lead.verdict), lead.summary);
    if (only) failures += describe(scenario.program);
  }
  for (const auto& [fault, score] : by_fault) {
    if (score.first != score.second) {
      failures += fmt::format("{}: {} of {} right\n", fault, score.first, score.second);
    }
  }
  INFO(failures);
  CHECK(failures.empty());
  CHECK(judged * 10 >= (last - first + 1) * 5);
}

}  // namespace
}  // namespace rollcall::sim
