// Verdicts on groups, on communicators that grew, and on other recorders' files of healthy jobs.
#include <fmt/format.h>

#include <algorithm>

#include "tests/analysis/steps.h"
#include "trace/grown.h"
#include "trace/shared_identifiers.h"

namespace rollcall::analysis {
namespace grouping_test {

// Pairs of ranks exchange in three steps, each exchange in a group.
Program exchanges(int ranks) {
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    program.comms[0].ranks.push_back(r);
    for (uint32_t step = 1; step <= 3; ++step) {
      auto& steps = program.ranks[static_cast<size_t>(r)];
      steps.push_back(call(OpKind::Send, kLarge, r ^ 1, 0, step));
      steps.push_back(call(OpKind::Recv, kLarge, r ^ 1, 0, step));
      steps.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("exchanges that leave their group wait for each other, and the grouping is named") {
  Program program = exchanges(4);
  for (const size_t r : {size_t{0}, size_t{1}}) {
    for (Step& step : program.ranks[r]) {
      if (step.group == 3) step.group = 0;
    }
  }
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  const Finding& lead = report.findings.front();
  CHECK(lead.verdict == Verdict::group_mismatch);
  CHECK(lead.misstep == Misstep::other_grouping);
  CHECK(report.findings.size() == 1);
  REQUIRE(lead.culprits.size() == 2);
  CHECK(lead.culprits[0].rank == 0);
  CHECK(lead.culprits[1].rank == 1);
  // Both groupings are quoted.
  const auto quotes = [&](const char* words) {
    return std::any_of(lead.evidence.begin(), lead.evidence.end(), [&](const Evidence& one) {
      return one.text.find(words) != std::string::npos;
    });
  };
  CHECK(quotes("outside of any group"));
  CHECK(quotes("in group 2 of 2 calls"));
}

TEST_CASE("however many exchanges of a ring leave their group, all are named") {
  constexpr int kRanks = 100;
  Program program = exchanges(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    for (Step& step : program.ranks[static_cast<size_t>(r)]) {
      if (step.act != Act::call) continue;
      step.root_or_peer = (r + (step.kind == OpKind::Send ? 1 : kRanks - 1)) % kRanks;
      if (step.group == 3) step.group = 0;
    }
  }
  const Report report = analyse(execute(program).run);
  CHECK(lead(report).verdict == Verdict::group_mismatch);
  CHECK(lead(report).culprits.size() == kRanks);
}

TEST_CASE("grouped exchanges are in lockstep, and never-grouped ones a deadlock of transfers") {
  CHECK(analyse(execute(exchanges(4)).run).findings.front().verdict == Verdict::in_lockstep);
  Program program = exchanges(2);
  for (auto& steps : program.ranks) {
    for (Step& step : steps) step.group = 0;
  }
  const Report report = analyse(execute(program).run);
  CHECK(report.findings.front().verdict == Verdict::deadlock_p2p);
}

TEST_CASE("without a step before, the grouping of the other ranks is the measure") {
  Program program = exchanges(6);
  for (auto& steps : program.ranks) steps.erase(steps.begin() + 3, steps.end());
  for (const size_t r : {size_t{2}, size_t{3}}) {
    for (Step& step : program.ranks[r]) step.group = 0;
  }
  const Report report = analyse(execute(program).run);
  INFO(text_of(report));
  const Finding& lead = report.findings.front();
  CHECK(lead.verdict == Verdict::group_mismatch);
  REQUIRE(lead.culprits.size() == 2);
  CHECK(lead.culprits[0].rank == 2);
}

// Ranks 0 and 1 grow their communicator by rank 2; rank 0 handed out the unique id.
trace::Run grown_run() {
  constexpr int64_t kId = 0x1234;
  trace::Run run;
  for (int32_t r = 0; r < 3; ++r) {
    trace::Process& process = run.processes.emplace_back();
    process.job_rank = r;
    trace::Comm grown;
    grown.origin = CommOrigin::grow;
    grown.nranks = 3;
    grown.rank = r;
    grown.state = CommState::ready;
    grown.key = r == 2 ? CommKey{77, 77} : CommKey{5, 5};
    if (r != 2) grown.parent_key = {1, 1};
    process.comms.push_back(grown);
    trace::Comm child;
    child.origin = CommOrigin::split;
    child.parent_key = grown.key;
    child.key = r == 2 ? CommKey{88, 88} : CommKey{6, 6};
    child.colour = 4;
    process.comms.push_back(child);
    trace::Event event{};
    event.kind = EventKind::CommGrow;
    event.arguments[0] = 3;
    event.arguments[3] = 0;
    event.arguments[4] = r == 1 ? 0 : kId;
    process.events.push_back(event);
  }
  return run;
}

TEST_CASE("old and new members of a communicator that grew are members of one") {
  trace::Run run = grown_run();
  trace::unify_grown(run);
  for (const trace::Process& process : run.processes) {
    CHECK(process.comms[0].key == CommKey{5, 5});
    CHECK(process.comms[1].parent_key == CommKey{5, 5});
    CHECK(process.comms[1].key == CommKey{6, 6});
  }
}

TEST_CASE("communicators that grew by other ids stay apart") {
  trace::Run run = grown_run();
  run.processes[2].events[0].arguments[4] = 0x9999;
  trace::unify_grown(run);
  CHECK(run.processes[2].comms[0].key == CommKey{77, 77});
  CHECK(run.processes[2].comms[1].key == CommKey{88, 88});
}

// Ranks 0 and 1 are in a communicator of the identifier 7, and 0 and 2 in another, as NCCL 2.23
// tells of two splits by one colour; ranks 0 to 2 in one of the identifier 8.
trace::Run split_twice(bool tells_apart) {
  trace::Run run;
  for (int32_t r = 0; r < 3; ++r) {
    trace::Process& process = run.processes.emplace_back();
    process.job_rank = r;
    process.knowledge.identities = tells_apart;
    const auto add = [&](uint64_t identifier, int32_t rank, uint64_t meeting) {
      trace::Comm comm;
      comm.key = {identifier, meeting};
      comm.nccl_hash = identifier;
      comm.rank = rank;
      comm.state = CommState::ready;
      process.comms.push_back(comm);
    };
    add(8, r, 1);
    add(7, r == 0 ? 0 : 1, 1);
    if (r == 0) add(7, 0, 2);
  }
  return run;
}

TEST_CASE("communicators of one identifier that claim a rank twice are known to nobody") {
  trace::Run run = split_twice(false);
  trace::forget_shared_identifiers(run);
  for (const trace::Process& process : run.processes) {
    CHECK(process.comms[0].key == CommKey{8, 1});
    for (size_t c = 1; c < process.comms.size(); ++c) CHECK(process.comms[c].key.is_null());
  }
  run = split_twice(true);
  trace::forget_shared_identifiers(run);
  CHECK(run.processes[1].comms[1].key == CommKey{7, 1});
}

TEST_CASE("ranks that are not known are no two claims to one rank") {
  trace::Run run = split_twice(false);
  for (trace::Process& process : run.processes) process.comms[0].rank = -1;
  trace::forget_shared_identifiers(run);
  for (const trace::Process& process : run.processes) {
    CHECK(process.comms[0].key == CommKey{8, 1});
    CHECK(process.comms[1].key.is_null());
  }
}

// A job of another recorder's files, one rank one call ahead; the files were written `age_ns`
// behind that call.
Report judge_ahead(int64_t age_ns) {
  Program program;
  program.comms.push_back({.ranks = {0, 1, 2, 3}});
  for (int r = 0; r < 4; ++r) program.ranks.emplace_back(r == 0 ? 6 : 5, Step{.count = 64});
  Outcome outcome = execute(program);
  int64_t newest_ns = 0;
  for (const trace::Op& op : outcome.run.processes[0].ops) {
    newest_ns = std::max(newest_ns, op.called_ns);
  }
  for (trace::Process& process : outcome.run.processes) {
    process.recorder = "flight_recorder";
    process.knowledge.groups = false;
    process.knowledge.returns = false;
    process.heartbeat_ns = process.exited_ns = 0;
    process.liveness = trace::Liveness::unknown;
    process.written_ns = newest_ns + age_ns;
  }
  outcome.run.live = false;
  return analyse(outcome.run);
}

TEST_CASE("dumps of a healthy job one call apart show no missing call") {
  for (const int64_t age_ns : {-2'000'000'000ll, 1'000'000ll, 500'000'000ll}) {
    const Report report = judge_ahead(age_ns);
    INFO(text_of(report));
    CHECK(report.findings.size() == 1);
    CHECK(report.findings.front().verdict == Verdict::in_lockstep);
  }
}

TEST_CASE("dumps written long after a call that ranks lack show it as missing") {
  const Report report = judge_ahead(600'000'000'000);
  INFO(text_of(report));
  CHECK(report.findings.front().verdict == Verdict::missing_call);
  CHECK(report.findings.front().culprits.size() == 3);
  CHECK(report.findings.front().confidence == Confidence::likely);
}

// What the plugin alone records up to NCCL 2.27 of a job that replays a graph with an AllReduce and
// broadcasts: replays are told on a thread of their own, and rank 1 hears of one a little later.
Outcome replayed_beside(uint32_t replaying_thread) {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  for (int r = 0; r < 2; ++r) {
    Steps& steps = program.ranks.emplace_back();
    for (int step = 0; step < 6; ++step) {
      steps.push_back(
          call(step % 2 == 0 ? OpKind::AllReduce : OpKind::Broadcast, 64, step % 2 == 0 ? -1 : 0));
    }
  }
  Outcome outcome = execute(program);
  for (trace::Process& process : outcome.run.processes) {
    process.knowledge.calls_in_order = false;
    process.threads.resize(2);
    for (trace::Op& op : process.ops) {
      if (op.kind == OpKind::AllReduce) op.thread = replaying_thread;
    }
  }
  std::vector<trace::Op>& ops = outcome.run.processes[1].ops;
  std::swap(ops[2].kind, ops[3].kind);
  std::swap(ops[2].thread, ops[3].thread);
  std::swap(ops[2].root_or_peer, ops[3].root_or_peer);
  std::swap(ops[2].reduction, ops[3].reduction);
  return outcome;
}

TEST_CASE("equal launches told by two threads are no difference, in whatever order") {
  const Report report = analyse(replayed_beside(1).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("launches told by one thread in another order are a difference, as are other launches") {
  CHECK(lead(analyse(replayed_beside(0).run)).verdict == Verdict::order_mismatch);
  Outcome outcome = replayed_beside(1);
  outcome.run.processes[1].ops[5].count = 65;
  CHECK(lead(analyse(outcome.run)).verdict != Verdict::in_lockstep);
  // Two of one thread, while another thread calls as well.
  outcome = replayed_beside(1);
  for (size_t p = 0; p < 2; ++p) {
    std::vector<uint64_t> counts = {64, 65, 66};
    if (p == 1) std::swap(counts[1], counts[2]);
    size_t next = 0;
    for (trace::Op& op : outcome.run.processes[p].ops) {
      if (op.kind == OpKind::AllReduce) op.count = counts[next++];
    }
  }
  CHECK(lead(analyse(outcome.run)).verdict != Verdict::in_lockstep);
}

}  // namespace grouping_test
}  // namespace rollcall::analysis
