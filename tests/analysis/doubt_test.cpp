// Verdicts where a file is missing or little is on file: what may be concluded, and what may not.
#include <utility>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace doubt_test {

Step collective(int comm, OpKind kind = OpKind::AllReduce, uint64_t count = 64) {
  return call(kind, count, kind == OpKind::Broadcast ? 0 : -1, comm);
}

// `times` steps, each ending where the program waits for its calls.
Program repeat(std::vector<std::vector<int>> comms, const std::vector<Steps>& ranks, int times) {
  Program program;
  for (size_t k = 0; k < comms.size(); ++k) {
    sim::CommSpec& comm = program.comms.emplace_back();
    comm.ranks = std::move(comms[k]);
    if (k != 0) {
      comm.parent = 0;
      comm.child_number = static_cast<uint32_t>(k);
    }
  }
  for (const Steps& one : ranks) {
    Steps& all = program.ranks.emplace_back();
    for (int i = 0; i < times; ++i) {
      all.insert(all.end(), one.begin(), one.end());
      all.push_back({.act = Act::sync});
    }
  }
  return program;
}

Report analyse_without(const Program& program, size_t lost_rank) {
  Outcome outcome = execute(program);
  REQUIRE(outcome.hung);
  outcome.run.processes.erase(outcome.run.processes.begin() + static_cast<ptrdiff_t>(lost_rank));
  return analyse(outcome.run);
}

// A chain of waits: 0 with 1, 1 with 2, 2 with 3, and 4 with 2 at the beginning of each step.
Program make_chain() {
  return repeat({{0, 1, 2, 3, 4}, {0, 1}, {1, 2}, {2, 3}, {2, 4}},
                {{collective(1)},
                 {collective(1), collective(2)},
                 {collective(4), collective(2), collective(3)},
                 {collective(3)},
                 {collective(4)}},
                3);
}

TEST_CASE("who may wait, two communicators away, for a rank without a file is not blamed") {
  Program program = make_chain();
  program.ranks[0][2].reduction = 2;
  const Report report = analyse_without(program, 0);
  INFO(lead(report).summary);
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(report.status == 3);
  // The same standstill with every file has its culprit.
  const Report whole = analyse(execute(program).run);
  CHECK(lead(whole).verdict == Verdict::redop_mismatch);
}

TEST_CASE("a rank that stops where its peers went on is named though another's file is missing") {
  const Steps one = {collective(0), collective(0, OpKind::AllGather)};
  Program program = repeat({{0, 1, 2, 3}}, {one, one, one, one}, 3);
  program.ranks[2].insert(program.ranks[2].begin() + 4, Step{.act = Act::stick});
  const Report report = analyse_without(program, 0);
  check_blames(report, Verdict::missing_call, 2);
}

TEST_CASE("a rank that passed a call by is named though it now waits for a rank without a file") {
  Program program = repeat({{0, 1, 2, 3}, {0, 1}, {2, 3}},
                           {{collective(0, OpKind::AllGather), collective(0), collective(1)},
                            {collective(0, OpKind::AllGather), collective(0), collective(1)},
                            {collective(0, OpKind::AllGather), collective(0), collective(2)},
                            {collective(0, OpKind::AllGather), collective(0), collective(2)}},
                           3);
  program.ranks[1].erase(program.ranks[1].begin() + 9);  // the last step's second call
  const Report report = analyse_without(program, 0);
  INFO(lead(report).summary);
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).confidence == Confidence::likely);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 1);
  CHECK(lead(report).culprits[0].seq == 5u);
}

TEST_CASE("an abort by a rank that may have followed one without a file is not its own") {
  Program program = make_chain();
  program.ranks[0].insert(program.ranks[0].begin() + 2, Step{.act = Act::abort});
  const Report report = analyse_without(program, 0);
  INFO(lead(report).summary);
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(analyse(execute(program).run)).verdict == Verdict::abort_cascade);
}

TEST_CASE("a job that did not end in order is not in lockstep while a file is missing") {
  Program program = repeat({{0, 1}}, {{collective(0)}, {collective(0)}}, 3);
  program.ranks[1].insert(program.ranks[1].begin() + 4, Step{.act = Act::die});
  const Report report = analyse_without(program, 0);
  INFO(lead(report).summary);
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.find("rank 0 of") != std::string::npos);
  CHECK(report.status == 3);
}

TEST_CASE("a torn record that may be a transfer leaves its peer without blame") {
  // Rank 1 sends before it receives in the last step; the torn record is its receive.
  Program program =
      repeat({{0, 1}},
             {{call(OpKind::Send, kLarge, 1), call(OpKind::Recv, kLarge, 1), collective(0)},
              {call(OpKind::Recv, kLarge, 0), call(OpKind::Send, kLarge, 0), collective(0)}},
             2);
  program.ranks[1].erase(program.ranks[1].begin() + 6, program.ranks[1].end());
  std::swap(program.ranks[1][4], program.ranks[1][5]);
  Outcome outcome = execute(program);
  REQUIRE(outcome.hung);
  outcome.run.processes[1].ops.pop_back();
  outcome.run.processes[1].torn = 1;
  const Report report = analyse(outcome.run);
  INFO(lead(report).summary);
  CHECK(lead(report).verdict == Verdict::insufficient);
  for (const Finding& finding : report.findings) {
    for (const Culprit& culprit : finding.culprits) CHECK(culprit.rank != 0);
  }
}

TEST_CASE("who ended by itself before it received is named, not the sender of what came too late") {
  // Rank 2, which would wait for it, left no file; rank 0 has what it has, and passed it.
  Program program = repeat({{0, 1}, {1, 2}, {0, 3}},
                           {{collective(0), collective(2), call(OpKind::Send, 8, 1)},
                            {collective(0), collective(1), call(OpKind::Recv, 8, 0)},
                            {collective(1)},
                            {collective(2)}},
                           4);
  program.comms[2].child_number = program.comms[1].child_number;
  program.comms[2].colour = 1;
  program.ranks[1].insert(program.ranks[1].end() - 3, Step{.act = Act::exit});
  Outcome outcome = execute(program, {.stall_ns = 60'000'000'000});
  outcome.run.processes.erase(outcome.run.processes.begin() + 2);
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  bool is_named = false;
  for (const Finding& finding : report.findings) {
    is_named = is_named || finding.summary.starts_with("rank 1 ended by itself and never received");
    if (finding.severity == Severity::info || finding.culprits.empty()) continue;
    CHECK(finding.culprits[0].rank != 0);
  }
  CHECK(is_named);
}

TEST_CASE("a rank whose oldest records were overwritten left nothing out for that reason") {
  // Each rank signals the next; rank 3 leaves a signal out, and rank 0 waits for it for good.
  Program program;
  program.comms = mesh_of_four();
  program.ranks.resize(4);
  for (int r = 0; r < 4; ++r) {
    Steps& steps = program.ranks[static_cast<size_t>(r)];
    for (int step = 0; step < 4; ++step) {
      steps.push_back(call(OpKind::AlltoAll, 64));
      steps.back().graph = 1;
      steps.push_back(call(OpKind::AllReduce, 8));
      steps.push_back(call(OpKind::AllReduce, 16));
      steps.back().graph = 1;
      steps.push_back(call(OpKind::AllReduce, 4, -1, 3 + r % 2));
      steps.push_back(call(OpKind::AllGather, 2, -1, 1 + r / 2));
      const bool is_left_out = r == 3 && step == 2;
      if (!is_left_out) steps.push_back(call(OpKind::Signal, 1, (r + 1) % 4));
      steps.push_back(call(OpKind::WaitSignal, 1, (r + 3) % 4));
      steps.push_back({.act = Act::sync});
    }
  }
  const Outcome whole = execute(program, {.stall_ns = 60'000'000'000});
  REQUIRE(whole.hung);
  for (ptrdiff_t lost = 1; lost < 10; ++lost) {
    Outcome outcome = whole;
    trace::Process& process = outcome.run.processes[0];
    process.ops.erase(process.ops.begin(), process.ops.begin() + lost);
    process.first_complete_ticket = static_cast<uint64_t>(lost) + 1;
    const Report report = analyse(outcome.run);
    INFO(lost << " lost: " << text_of(report));
    CHECK(lead(report).verdict == Verdict::p2p_unmatched);
  }
}

TEST_CASE("a receive that is no longer on file was not left out, whatever was captured before it") {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks.resize(2);
  for (int r = 0; r < 2; ++r) {
    Steps& steps = program.ranks[static_cast<size_t>(r)];
    steps.push_back(call(OpKind::AllReduce, 8));
    steps.back().graph = 1;
    steps.push_back(call(r == 0 ? OpKind::Send : OpKind::Recv, kLarge, 1 - r));
    steps.back().stream = 1;
    for (int i = 0; i < 5; ++i) steps.push_back(call(OpKind::AllReduce, 4));
  }
  Outcome outcome = execute(program, kLive);
  trace::Process& receiver = outcome.run.processes[1];
  const bool is_kept = GENERATE(true, false);
  receiver.first_complete_ticket = receiver.ops[2].ticket;
  receiver.lost = is_kept ? 1 : 2;
  receiver.ops.erase(receiver.ops.begin() + (is_kept ? 1 : 0), receiver.ops.begin() + 2);
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict != Verdict::p2p_unmatched);
  CHECK(lead(report).severity != Severity::hang);
}

TEST_CASE("a send and a receive in the wrong order are a cycle, not a transfer left out") {
  Program program = repeat({{0, 1}},
                           {{call(OpKind::Send, kLarge, 1), call(OpKind::Recv, kLarge, 1)},
                            {call(OpKind::Recv, kLarge, 0), call(OpKind::Send, kLarge, 0)}},
                           4);
  std::swap(program.ranks[0][6], program.ranks[0][7]);
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::deadlock_p2p, 0);
}

TEST_CASE("what a rank did otherwise in a step that finished does not make it part of a cycle") {
  const auto exchanges = [](OpKind first, OpKind second, int peer) {
    return Steps{
        call(first, kLarge, peer), call(second, kLarge, peer), collective(0),
        call(first, kLarge, peer), call(second, kLarge, peer), collective(0, OpKind::AllGather)};
  };
  Program program = repeat(
      {{0, 1}},
      {exchanges(OpKind::Send, OpKind::Recv, 1), exchanges(OpKind::Recv, OpKind::Send, 0)}, 4);
  std::swap(program.ranks[1][17], program.ranks[1][18]);
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::deadlock_p2p, 1);
}

TEST_CASE("buffered sends to a rank behind a mismatched transfer are not the finding") {
  Program program = repeat({{0, 1, 2}},
                           {{call(OpKind::Send, 73, 1)},
                            {call(OpKind::Recv, 73, 0), call(OpKind::Send, 73, 2)},
                            {call(OpKind::Recv, 73, 1)}},
                           4);
  program.ranks[1][7].count = 74;
  const Report report = analyse(execute(program).run);
  INFO(lead(report).summary);
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
  REQUIRE(report.findings.size() == 1);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == 1);
}

TEST_CASE("an abort in the middle of the last step is found by those who finished it") {
  Program program = repeat({{0, 1, 2, 3}, {0, 2}, {1, 3}},
                           {{collective(0), collective(1, OpKind::AllGather)},
                            {collective(0), collective(2, OpKind::AllGather)},
                            {collective(0), collective(1, OpKind::AllGather)},
                            {collective(0), collective(2, OpKind::AllGather)}},
                           3);
  program.comms[1].child_number = program.comms[2].child_number = 0;
  program.comms[2].colour = 1;
  const Outcome healthy = execute(program);
  REQUIRE_FALSE(healthy.hung);
  program.ranks[0].insert(program.ranks[0].begin() + 7, Step{.act = Act::abort});
  program.ranks[2].insert(program.ranks[2].begin() + 7, Step{.act = Act::die});
  const Report report = analyse(execute(program).run);
  check_blames(report, Verdict::abort_cascade, 0);

  // All of them abort after the last step: an end in order.
  program.ranks[0].erase(program.ranks[0].begin() + 7);
  program.ranks[2].erase(program.ranks[2].begin() + 7);
  program.ranks[0].push_back({.act = Act::abort});
  const Report orderly = analyse(execute(program).run);
  CHECK(lead(orderly).verdict == Verdict::in_lockstep);
}

// Rank 1 stands in front of its last calls with all and with rank 0, which comes later than the
// others, and makes the one with rank 1 alone first if `pair_first`.
Report analyse_owing_two(bool pair_first) {
  const Steps both =
      pair_first ? Steps{collective(1), collective(0)} : Steps{collective(0), collective(1)};
  Program program =
      repeat({{0, 1, 2, 3}, {0, 1}}, {both, both, {collective(0)}, {collective(0)}}, 3);
  program.ranks[1].insert(program.ranks[1].end() - 3, Step{.act = Act::stick});
  Outcome outcome = execute(program);
  std::vector<trace::Op>& late = outcome.run.processes[0].ops;
  for (size_t i = late.size() - 2; i < late.size(); ++i) {
    late[i].called_ns += 100'000'000;
    late[i].returned_ns += 100'000'000;
  }
  return analyse(outcome.run);
}

TEST_CASE("of two calls that a silent rank owes the one that another made first is named") {
  const Report pair_first = analyse_owing_two(true);
  const Culprit& owes = check_blames(pair_first, Verdict::missing_call, 1);
  CHECK(owes.comm_rank == 1);
  CHECK(lead(pair_first).summary.find("1 of 2 ranks") != std::string::npos);
  CHECK(lead(pair_first).victims == std::vector<int32_t>{0, 2, 3});
  CHECK(pair_first.findings.size() == 1);
  const Report pair_last = analyse_owing_two(false);
  check_blames(pair_last, Verdict::missing_call, 1);
  CHECK(lead(pair_last).summary.find("3 of 4 ranks") != std::string::npos);
}

}  // namespace doubt_test
}  // namespace rollcall::analysis
