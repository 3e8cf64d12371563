// Random jobs with random faults and losses: is the leading finding the truth?
//
//   ROLLCALL_SIM_SEEDS=N     seeds to run (2000)
//   ROLLCALL_SIM_FIRST=N     the first of them (1); ROLLCALL_SIM_SEEDS is the last
//   ROLLCALL_SIM_SEED=N      only this one, with its program printed
//   ROLLCALL_SIM_TABLE=FILE  writes the table of docs/ACCURACY.md
//   ROLLCALL_SIM_DIGESTS=FILE  writes for each job its seed, the digest of everything that is
//                            reported of it, and its kind: scripts/compare_verdicts.py
//   ROLLCALL_SIM_REPORTS=FILE  writes the reports themselves
//
// Fails on every job that is judged wrong and is not in known_wrong.txt, and on every one in it
// that is not.
//
// A third of the seeds has one fault and nothing else; a third is nested, grouped and on two
// streams; a third has up to three faults, or loses records.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include "analysis/analysis.h"
#include "report/json.h"
#include "report/text.h"
#include "tests/catch.h"
#include "tests/sim/known_wrong.h"
#include "tests/sim/loss.h"
#include "tests/sim/together.h"
#include "tests/sim/training.h"

namespace rollcall::sim {
namespace {

using analysis::Finding;
using analysis::Report;
using analysis::Verdict;

// What to generate, so that it can be generated smaller.
struct Plan {
  uint64_t seed = 1;
  TrainingOptions training;
  std::vector<Fault> faults;
  LossKind loss = LossKind::none;
  size_t gpus = 1;       // that a process drives
  bool watched = false;  // what the GPUs did is on file
};

struct Scenario {
  Program program;
  std::vector<Truth> truths;
  Outcome outcome;
  Loss loss;
  Report report;
};

// What happens to a process with all its GPUs, or is on file once for all of them.
bool is_of_process(Fault fault) {
  return fault == Fault::die || fault == Fault::stop || fault == Fault::exit ||
         fault == Fault::abort || is_blemish(fault);
}

bool shows_on_gpus(Fault fault) { return static_cast<uint64_t>(fault) >= kFaultsOfCalls; }

// What was captured mostly stays on file.
void capture(std::mt19937_64& random, Plan& plan) {
  plan.training.graphs = true;
  plan.training.asides = plan.training.streams = plan.training.chained = false;
  plan.training.dp = std::max(plan.training.dp, 4);
  if (random() % 2 == 0) {
    constexpr auto kAll = static_cast<uint64_t>(Fault::Count);
    plan.faults[0] = static_cast<Fault>(kFaultsOfStreams + random() % (kAll - kFaultsOfStreams));
  }
  const uint64_t loss = plan.gpus == 1 ? random() % 8 : 7;
  plan.loss = loss < 2 ? LossKind::middle : loss == 2 ? LossKind::captures : LossKind::none;
  plan.training.branches = random() % 2 == 0;
  plan.training.chained = random() % 2 == 0;
  plan.training.apart = random() % 2 == 0;
}

// Drawn, not counted through: what is counted in step with the seed meets the same few partners.
Plan make_plan(uint64_t seed) {
  constexpr int kLayouts[][3] = {{2, 1, 1}, {4, 1, 1}, {2, 2, 1}, {2, 1, 2}, {2, 2, 2},
                                 {4, 2, 2}, {8, 1, 1}, {1, 2, 4}, {4, 4, 1}};
  constexpr uint64_t kFaults = kFaultsOfCalls;
  std::mt19937_64 random(seed);
  Plan plan;
  plan.seed = seed;
  const auto& layout = kLayouts[random() % std::size(kLayouts)];
  plan.training = {.dp = layout[0], .tp = layout[1], .pp = layout[2], .steps = 4, .seed = seed};
  plan.faults = {static_cast<Fault>(random() % kFaults)};
  plan.training.asides = random() % 4 == 0 || plan.faults[0] == Fault::signal_missing;
  plan.training.batches = random() % 4 == 0 || plan.faults[0] == Fault::part_missing ||
                          plan.faults[0] == Fault::batch_missing ||
                          plan.faults[0] == Fault::part_count;
  plan.training.creations = random() % 5 == 0 || is_creation(plan.faults[0]);
  const uint64_t third = random() % 3;
  if (third == 1) {
    plan.training.nested = true;
    plan.training.groups = true;
    plan.training.streams = random() % 2 == 0;
  }
  if (third == 2) {
    const uint64_t more = random() % 3;
    for (uint64_t i = 0; i < more && plan.faults[0] != Fault::none; ++i) {
      plan.faults.push_back(static_cast<Fault>(1 + random() % (kFaults - 1)));
    }
    if (more == 0) {
      plan.loss = static_cast<LossKind>(random() % static_cast<uint64_t>(LossKind::middle));
    }
  }
  plan.training.chained = random() % 4 == 0;
  plan.training.varied = random() % 4 == 0;
  const bool may_share = plan.loss == LossKind::none &&
                         std::none_of(plan.faults.begin(), plan.faults.end(), is_of_process);
  if (may_share && random() % 4 == 0) plan.gpus = random() % 2 == 0 ? 2 : 4;
  plan.watched = random() % 3 == 0;
  if (plan.watched && random() % 4 == 0) {
    plan.faults[0] = random() % 2 == 0 ? Fault::block : Fault::lame;
  }
  if (plan.watched && random() % 3 == 0) capture(random, plan);
  return plan;
}

// False: the program has no place for the fault.
bool realise(const Plan& plan, Scenario& scenario) {
  scenario.program = make_training(plan.training);
  std::vector<int> spared;
  for (size_t i = 0; i < plan.faults.size(); ++i) {
    const Truth truth =
        plant(scenario.program, plan.faults[i], plan.seed * 77 + 5 + i * 1000, spared);
    if (!truth.is_planted) continue;
    spared.push_back(truth.rank);
    scenario.truths.push_back(truth);
  }
  if (scenario.truths.empty()) return false;
  const bool live = std::any_of(scenario.truths.begin(), scenario.truths.end(),
                                [](const Truth& truth) { return truth.fault == Fault::stop; });
  scenario.outcome = execute(
      scenario.program,
      {.seed = plan.seed, .stall_ns = 60'000'000'000, .live = live, .watched = plan.watched});
  for (const Truth& truth : scenario.truths) blemish(truth, scenario.outcome);
  scenario.loss = lose(scenario.outcome, plan.loss, plan.seed * 31 + 7);
  if (plan.gpus > 1) run_together(scenario.outcome, plan.gpus);
  scenario.report = analysis::analyse(scenario.outcome.run, {});
  return true;
}

// To leave out a replay, or to make it early, is to do so with the calls of its graph.
constexpr Verdict kOfReplays[] = {
    Verdict::graph_diverged, Verdict::missing_call,   Verdict::order_mismatch,
    Verdict::op_mismatch,    Verdict::count_mismatch, Verdict::dtype_mismatch,
    Verdict::redop_mismatch, Verdict::root_mismatch,  Verdict::p2p_unmatched,
    Verdict::p2p_mismatch,   Verdict::deadlock_comms, Verdict::deadlock_p2p};

std::vector<Verdict> accepted_on_gpus(Fault fault) {
  switch (fault) {
    case Fault::block:
    case Fault::replay_block:
      return {Verdict::stream_blocked};
    case Fault::lame:
    case Fault::replay_lame:
      return {Verdict::stuck_on_gpu};
    case Fault::replay_missing:
    case Fault::replay_order:
      return {std::begin(kOfReplays), std::end(kOfReplays)};
    default:
      return {Verdict::in_lockstep};
  }
}

std::vector<Verdict> accepted(Fault fault) {
  switch (fault) {
    case Fault::missing:
    case Fault::stick:
    case Fault::alone:
    case Fault::detour:
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
    // The same as to leave out what comes between two of its kind, or to make the later one early.
    case Fault::again:
      return {Verdict::missing_call, Verdict::p2p_unmatched, Verdict::deadlock_comms,
              Verdict::deadlock_p2p};
    case Fault::p2p_extra:
      return {Verdict::p2p_unmatched, Verdict::p2p_mismatch, Verdict::deadlock_p2p,
              Verdict::deadlock_comms, Verdict::missing_call};
    case Fault::p2p_unmatched:
    case Fault::signal_missing:
      return {Verdict::p2p_unmatched};
    case Fault::p2p_count:
    case Fault::part_count:
      return {Verdict::p2p_mismatch};
    case Fault::part_missing:
    case Fault::batch_missing:
      return {Verdict::p2p_unmatched, Verdict::missing_call, Verdict::deadlock_comms,
              Verdict::deadlock_p2p};
    case Fault::p2p_cycle:
      return {Verdict::deadlock_p2p};
    case Fault::abort:
      return {Verdict::abort_cascade};
    case Fault::split_missing:
    case Fault::shrink_missing:
    case Fault::grow_missing:
      return {Verdict::split_mismatch};
    case Fault::hold:
      return {Verdict::stuck_in_call};
    case Fault::refuse:
      return {Verdict::cuda_error};
    case Fault::init_missing:
      return {Verdict::init_incomplete};
    default:
      return accepted_on_gpus(fault);
  }
}

// Where the fault has one position, is it the one that is named?
std::string wrong_place(const Scenario& scenario, const Truth& truth, const Finding& lead) {
  // Of two ranks, each calls in another order than the other.
  const bool is_tie = truth.fault == Fault::comm_order && scenario.program.ranks.size() == 2;
  if (is_tie && lead.culprits.size() == 2 && lead.verdict == Verdict::deadlock_comms) return "";
  // Nor do sizes that always change tell which of two is right.
  const bool tells_nothing = truth.is_varied || truth.is_captured;
  const bool is_untold =
      tells_nothing && scenario.program.comms[static_cast<size_t>(truth.comm)].ranks.size() == 2;
  if (is_untold && lead.culprits.size() == 2) return "";
  // Whose kernel comes to no end the others' do not tell.
  const bool is_of_all = truth.fault == Fault::lame || truth.fault == Fault::replay_lame;
  if (lead.culprits.size() != 1 && !is_of_all) return "more than one culprit";
  // Positions count what was called, or what was replayed.
  if (scenario.program.replays()) return "";
  constexpr Fault kPlaceless[] = {Fault::comm_order,   Fault::again,          Fault::p2p_extra,
                                  Fault::die,          Fault::stop,           Fault::exit,
                                  Fault::stick,        Fault::abort,          Fault::hold,
                                  Fault::refuse,       Fault::p2p_cycle,      Fault::split_missing,
                                  Fault::init_missing, Fault::shrink_missing, Fault::grow_missing};
  if (std::count(std::begin(kPlaceless), std::end(kPlaceless), truth.fault) != 0) return "";
  const analysis::Culprit& culprit = lead.culprits.front();
  const CommKey key{static_cast<uint64_t>(truth.comm) + 1, 7};
  if (!culprit.comm || !(*culprit.comm == key)) return "communicator";
  const std::optional<uint64_t>& seq = truth.is_p2p ? culprit.p2p_seq : culprit.seq;
  return seq && *seq == truth.seq ? "" : "position";
}

Verdict verdict_beside(Fault fault) {
  if (fault == Fault::leak) return Verdict::comm_leak;
  return fault == Fault::version ? Verdict::version_mismatch : Verdict::env_mismatch;
}

// What no call shows stands beside the verdict, which it leaves as it is.
std::string wrong_beside(const Scenario& scenario, const Truth& truth) {
  const auto& findings = scenario.report.findings;
  if (findings.front().verdict != Verdict::in_lockstep) return "verdict";
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.verdict == verdict_beside(truth.fault);
  });
  if (found == findings.end()) return "finding beside";
  const bool is_it = found->culprits.size() == 1 && found->culprits[0].rank == truth.rank;
  return is_it ? "" : "culprit";
}

// All who would wait for the call that the abort comes before: nobody does.
bool all_have_aborted(const Scenario& scenario, const Truth& abort) {
  if (abort.fault != Fault::abort) return false;
  const std::vector<int>& ranks = scenario.program.comms[abort.comm].ranks;
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return std::any_of(scenario.truths.begin(), scenario.truths.end(), [&](const Truth& truth) {
      return truth.fault == Fault::abort && truth.rank == rank;
    });
  });
}

// Of two ranks of which one replayed a graph once more than the other either may be wrong.
bool is_other_of_two(const Scenario& scenario, const Truth& truth,
                     const analysis::Culprit& culprit) {
  const bool may_be = truth.fault == Fault::replay_missing || truth.fault == Fault::replay_order;
  const std::vector<CommSpec>& comms = scenario.program.comms;
  return may_be && std::any_of(comms.begin(), comms.end(), [&](const CommSpec& comm) {
           return comm.ranks.size() == 2 && rank_in(comm, truth.rank) >= 0 &&
                  rank_in(comm, culprit.rank) >= 0;
         });
}

// Empty when the leading finding is this fault.
std::string wrong(const Scenario& scenario, const Truth& truth) {
  if (is_blemish(truth.fault)) return wrong_beside(scenario, truth);
  const Finding& lead = scenario.report.findings.front();
  if (lead.verdict == Verdict::in_lockstep && all_have_aborted(scenario, truth)) return "";
  std::vector<Verdict> allowed = accepted(truth.fault);
  // A left-out send shows at the last transfer of the channel where all are of one size; nothing on
  // file tells then whether that one is only late.
  const bool at_the_end =
      !lead.culprits.empty() && lead.culprits[0].p2p_seq && *lead.culprits[0].p2p_seq > truth.seq;
  const bool is_left_out =
      truth.fault == Fault::p2p_unmatched || truth.fault == Fault::signal_missing;
  if (is_left_out && (truth.is_last || at_the_end)) {
    allowed.push_back(Verdict::missing_call);
  }
  if (is_left_out && truth.may_be_order) {
    allowed.insert(allowed.end(), {Verdict::deadlock_comms, Verdict::deadlock_p2p});
  }
  if (truth.is_twin) allowed.push_back(Verdict::missing_call);
  // Where nobody waits for that, graphs may be replayed as one likes.
  const bool is_of_replays =
      truth.fault == Fault::replay_order || truth.fault == Fault::replay_missing;
  if (is_of_replays && !scenario.outcome.hung) return "";
  // Without what came before it, or where that has other sizes, a transfer that meets the wrong
  // partner is one of a wrong size.
  const bool is_part = truth.fault == Fault::part_missing || truth.fault == Fault::batch_missing;
  const bool tells_nothing = truth.is_varied || scenario.loss.kind != LossKind::none;
  if ((is_part && tells_nothing) || (is_left_out && truth.is_varied)) {
    allowed.push_back(Verdict::p2p_mismatch);
  }
  // Without later calls a call left out looks like one of a wrong size: that leads then.
  if (truth.fault == Fault::missing && truth.is_size_twin) {
    allowed.push_back(Verdict::count_mismatch);
  }
  // The wrong size is that of another transfer: leaving one out would look the same.
  if (truth.is_other_size) allowed.push_back(Verdict::p2p_unmatched);
  const bool may_be_left_out = truth.is_twin || truth.fault == Fault::missing;
  const bool is_replayed = truth.is_captured && scenario.program.replays();
  const bool is_silent = truth.fault == Fault::stick && scenario.program.replays();
  // Nor does it come to the next replay who waits in a call that nobody else makes.
  const bool is_alone =
      (truth.fault == Fault::detour || truth.fault == Fault::again) && scenario.program.replays();
  if (is_replayed || is_silent || is_alone) allowed.push_back(Verdict::graph_diverged);
  if (truth.is_captured && may_be_left_out) allowed.push_back(Verdict::graph_diverged);
  if (std::find(allowed.begin(), allowed.end(), lead.verdict) == allowed.end()) return "verdict";
  if (truth.fault == Fault::none) {
    const auto& findings = scenario.report.findings;
    const bool only_gaps = std::all_of(findings.begin() + 1, findings.end(), [](const Finding& f) {
      return f.verdict == Verdict::record_gap;
    });
    const bool is_quiet = scenario.loss.kind == LossKind::none ? findings.size() == 1 : only_gaps;
    return is_quiet ? "" : "more than in lockstep";
  }
  if (!scenario.outcome.hung && scenario.report.status != 1) return "status";
  // Two ranks that create different communicators: nothing tells which of them is wrong.
  const bool is_tie = is_creation(truth.fault) && truth.fault != Fault::init_missing &&
                      scenario.program.ranks.size() == 2;
  if (is_tie) return "";
  const bool named = std::any_of(
      lead.culprits.begin(), lead.culprits.end(), [&](const analysis::Culprit& culprit) {
        return culprit.rank == truth.rank || is_other_of_two(scenario, truth, culprit);
      });
  if (!named) return "culprit";
  const bool pair =
      is_left_out || is_part || truth.fault == Fault::p2p_count || truth.fault == Fault::part_count;
  return pair ? "" : wrong_place(scenario, truth, lead);
}

enum class Score : uint8_t { right, insufficient, wrong };

// A rank is blamed that has no fault, and none that has one.
bool blames_the_innocent(const Scenario& scenario) {
  const Finding& lead = scenario.report.findings.front();
  const bool blames =
      lead.severity == analysis::Severity::hang || lead.severity == analysis::Severity::corruption;
  if (!blames) return false;
  return std::none_of(lead.culprits.begin(), lead.culprits.end(), [&](const auto& culprit) {
    return culprit.rank < 0 || culprit.rank == scenario.loss.rank ||
           std::any_of(scenario.truths.begin(), scenario.truths.end(),
                       [&](const Truth& truth) { return truth.rank == culprit.rank; });
  });
}

// The ranks of the communicator that is spoken of are in their majority without a fault.
bool has_majority(const Scenario& scenario) {
  const Finding& lead = scenario.report.findings.front();
  if (lead.culprits.empty() || !lead.culprits.front().comm) return true;
  const std::vector<int>& ranks =
      scenario.program.comms[lead.culprits.front().comm->high - 1].ranks;
  const auto faulty = std::count_if(
      scenario.truths.begin(), scenario.truths.end(),
      [&](const Truth& truth) { return std::count(ranks.begin(), ranks.end(), truth.rank) != 0; });
  return static_cast<size_t>(faulty) * 2 < ranks.size();
}

// The job was cut short, and no rank is said to be the reason. Where all ranks end at once, it may
// as well have been ended from outside.
bool blames_nobody(const Scenario& scenario) {
  const Finding& lead = scenario.report.findings.front();
  const bool any_is_healthy = scenario.truths.size() < scenario.program.ranks.size();
  return any_is_healthy && scenario.outcome.hung && lead.verdict == Verdict::in_lockstep;
}

// RC-INSUFFICIENT leads, or a rank is named.
bool says_something(const Scenario& scenario) {
  const Finding& lead = scenario.report.findings.front();
  return lead.verdict == Verdict::insufficient ||
         (lead.severity != analysis::Severity::info && !lead.culprits.empty());
}

// A circle of ranks of which nothing tells who broke the order; the one that did is among them.
bool is_open_circle(const Scenario& scenario, const Truth& truth) {
  const Finding& lead = scenario.report.findings.front();
  const bool is_circle =
      lead.verdict == Verdict::deadlock_comms || lead.verdict == Verdict::deadlock_p2p;
  return truth.fault == Fault::replay_order && is_circle &&
         std::any_of(lead.culprits.begin(), lead.culprits.end(),
                     [&](const auto& culprit) { return culprit.rank == truth.rank; });
}

Score judge(const Scenario& scenario, std::string& what) {
  bool decides = false;
  for (const Truth& truth : scenario.truths) {
    decides = decides || still_decides(scenario.program, scenario.outcome, truth, scenario.loss);
    what = wrong(scenario, truth);
    if (what.empty()) return Score::right;
    if (is_open_circle(scenario, truth)) return Score::insufficient;
  }
  // Two faults at once make a third thing: their ranks have to be named, not the kind. Where half
  // of a communicator is at fault, there is no majority to say who is not.
  if (scenario.truths.size() > 1) {
    if (blames_the_innocent(scenario)) {
      return has_majority(scenario) ? Score::wrong : Score::insufficient;
    }
    return blames_nobody(scenario) ? Score::wrong : Score::right;
  }
  if (decides || blames_the_innocent(scenario)) return Score::wrong;
  // To say that all is well, or nothing, is no answer to a job that hung. One that ended, and lost
  // the record of what was wrong in it, cannot be told from one in which nothing was.
  const bool may_be_silent = !scenario.outcome.hung;
  return may_be_silent || says_something(scenario) ? Score::insufficient : Score::wrong;
}

bool fails(const Plan& plan) {
  Scenario scenario;
  std::string what;
  return realise(plan, scenario) && judge(scenario, what) == Score::wrong;
}

// The plan made smaller as long as it fails.
Plan shrink(Plan plan) {
  const auto try_change = [&](const auto& change) {
    Plan smaller = plan;
    change(smaller);
    if (fails(smaller)) plan = smaller;
  };
  try_change([](Plan& p) { p.loss = LossKind::none; });
  for (int i = 0; i < 2; ++i) {
    try_change([](Plan& p) { p.faults.resize(std::max<size_t>(p.faults.size(), 2) - 1); });
  }
  try_change([](Plan& p) { p.gpus = 1; });
  // Unwatched, what GPUs do is another failure.
  try_change(
      [](Plan& p) { p.watched = p.watched && (shows_on_gpus(p.faults[0]) || p.training.graphs); });
  try_change([](Plan& p) { p.training.streams = false; });
  try_change([](Plan& p) { p.training.chained = false; });
  try_change([](Plan& p) { p.training.varied = false; });
  try_change([](Plan& p) { p.training.creations = false; });
  try_change([](Plan& p) { p.training.batches = false; });
  try_change([](Plan& p) { p.training.asides = false; });
  try_change([](Plan& p) { p.training.apart = false; });
  try_change([](Plan& p) { p.training.branches = false; });
  try_change([](Plan& p) { p.training.graphs = false; });
  for (int phase = 0; phase < 12; ++phase) {
    try_change([&](Plan& p) { p.training.left_out |= 1u << phase; });
  }
  for (int i = 0; i < 2; ++i) try_change([](Plan& p) { --p.training.steps; });
  try_change([](Plan& p) { p.training.pp = 1; });
  try_change([](Plan& p) { p.training.tp = 1; });
  // Of one rank alone no call can differ.
  try_change([](Plan& p) {
    const bool is_pair = p.training.dp * p.training.tp * p.training.pp <= 2;
    if (!is_pair) p.training.dp = std::max(p.training.dp / 2, 1);
  });
  return plan;
}

std::string describe_failure(const Plan& plan) {
  Scenario scenario;
  std::string what;
  if (!realise(plan, scenario)) return "";
  judge(scenario, what);
  const Finding& lead = scenario.report.findings.front();
  std::string text = fmt::format("seed {}: wrong {}; lost {} of rank {}\n  {} {}\n", plan.seed,
                                 what, name_of(scenario.loss.kind), scenario.loss.rank,
                                 analysis::code_of(lead.verdict), lead.summary);
  for (const Truth& truth : scenario.truths) text += "  " + truth.where + "\n";
  return text + describe(scenario.program);
}

uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

using Scores = std::array<uint64_t, 3>;
using Table = std::map<std::string, Scores>;

void write_table(const Table& table, const Table& sums) {
  const char* path = std::getenv("ROLLCALL_SIM_TABLE");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  fmt::print(file, "| planted | expected verdict | jobs | right | insufficient | wrong |\n");
  fmt::print(file, "| --- | --- | ---: | ---: | ---: | ---: |\n");
  for (const Table* rows : {&table, &sums}) {
    for (const auto& [row, score] : *rows) {
      fmt::print(file, "| {} | {} | {} | {} | {} |\n", row, score[0] + score[1] + score[2],
                 score[0], score[1], score[2]);
    }
  }
  std::fclose(file);
}

std::string row_of(const Plan& plan, const Scenario& scenario) {
  if (scenario.truths.size() > 1) return "several faults | one of them";
  const Fault fault = scenario.truths[0].fault;
  const std::string lost = scenario.loss.kind == LossKind::none ? "" : ", records lost";
  const std::string shape = plan.training.nested ? ", nested and grouped" : "";
  return fmt::format(
      "{}{}{} | {}", words_of(fault), lost, shape,
      analysis::code_of(is_blemish(fault) ? verdict_beside(fault) : accepted(fault).front()));
}

// What both reports say of a job. The simulator's times, hosts and files are made from the seed, so
// this is the same wherever and whenever the job is judged.
std::string everything_reported(const Scenario& scenario) {
  const trace::Run& run = scenario.outcome.run;
  return report::diff_json(run, scenario.report) +
         report::diff_text(run, scenario.report, {.all = true});
}

// FNV-1a, 64 bits.
uint64_t digest_of(std::string_view text) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char character : text) {
    digest = (digest ^ static_cast<unsigned char>(character)) * 0x100000001b3;
  }
  return digest;
}

std::FILE* open_named_by(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) return nullptr;
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) FAIL(fmt::format("{}={}: the file cannot be written", variable, path));
  return file;
}

// For comparing two builds, job by job.
class Verdicts {
 public:
  ~Verdicts() {
    for (std::FILE* file : {digests_, reports_}) {
      if (file != nullptr) std::fclose(file);
    }
  }
  void add(const Plan& plan, const Scenario& scenario) {
    if (digests_ == nullptr && reports_ == nullptr) return;
    const std::string text = everything_reported(scenario);
    if (reports_ != nullptr) fmt::print(reports_, "seed {}\n{}", plan.seed, text);
    if (digests_ == nullptr) return;
    fmt::print(digests_, "{} {:016x} {}\n", plan.seed, digest_of(text), row_of(plan, scenario));
  }

 private:
  std::FILE* digests_ = open_named_by("ROLLCALL_SIM_DIGESTS");
  std::FILE* reports_ = open_named_by("ROLLCALL_SIM_REPORTS");
};

TEST_CASE("the leading finding of a random job is a fault that was planted in it") {
  const uint64_t only = from_environment("ROLLCALL_SIM_SEED", 0);
  const uint64_t first = only ? only : from_environment("ROLLCALL_SIM_FIRST", 1);
  const uint64_t last = only ? only : from_environment("ROLLCALL_SIM_SEEDS", 2000);
  constexpr size_t kShownMax = 5;
  uint64_t judged = 0;
  uint64_t failed = 0;
  std::ifstream list(ROLLCALL_SIM_KNOWN_WRONG);
  REQUIRE(list);
  KnownWrong known(list);
  Table table;
  Table sums;
  Verdicts verdicts;
  std::string failures;
  for (uint64_t seed = first; seed <= last; ++seed) {
    const Plan plan = make_plan(seed);
    Scenario scenario;
    if (!realise(plan, scenario)) continue;
    ++judged;
    verdicts.add(plan, scenario);
    std::string what;
    const Score score = judge(scenario, what);
    ++table[row_of(plan, scenario)][static_cast<size_t>(score)];
    const char* const sizes = plan.training.varied ? "sizes that change" : "sizes that stay";
    const char* const graphs = plan.training.graphs ? ", graphs replayed" : "";
    ++sums[fmt::format("all with {}{} | ", sizes, graphs)][static_cast<size_t>(score)];
    if (plan.training.branches) {
      ++sums["all with graphs of several streams | "][static_cast<size_t>(score)];
    }
    if (plan.training.graphs && plan.training.chained) {
      ++sums["all with graphs beside calls on other streams | "][static_cast<size_t>(score)];
    }
    if (plan.training.graphs && plan.loss != LossKind::none) {
      ++sums[fmt::format("all with graphs replayed, lost: {} | ", name_of(plan.loss))]
            [static_cast<size_t>(score)];
    }
    if (plan.watched) ++sums["all with watched GPUs | "][static_cast<size_t>(score)];
    if (plan.gpus > 1) ++sums["all with several GPUs in a process | "][static_cast<size_t>(score)];
    if (only) WARN(describe_failure(plan));
    known.judged(seed, score == Score::wrong);
    if (score != Score::wrong || known.contains(seed)) continue;
    failures += fmt::format("seed {}: wrong {}; lost {} of rank {}; {}; {}\n", seed, what,
                            name_of(scenario.loss.kind), scenario.loss.rank,
                            analysis::code_of(scenario.report.findings.front().verdict),
                            scenario.truths.front().where);
    if (++failed <= kShownMax) failures += describe_failure(shrink(plan));
  }
  known.judged_all(first, last);
  write_table(table, sums);
  INFO(failures);
  CHECK(known.errors() == "");
  CHECK(judged * 10 >= (last - first + 1) * 5);
}

}  // namespace
}  // namespace rollcall::sim
