// What is not on file: how it is told, and what is not concluded from it.
#include "analysis/words/gaps.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/analysis/steps.h"

namespace {
std::atomic<size_t> asked_bytes = 0;  // of operator new, by all of this program
}  // namespace

void* operator new(size_t bytes) {
  asked_bytes += bytes;
  if (void* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
// A sanitizer has one of its own, which does not call the one above.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  asked_bytes += bytes;
  return std::malloc(bytes);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace rollcall::analysis {
namespace gaps_test {

// Three reductions on one communicator. Rank `stuck` stands before the third.
Outcome make_job(int ranks, int stuck = -1) {
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    program.comms[0].ranks.push_back(r);
    for (int i = 0; i < 3; ++i) {
      if (r == stuck && i == 2) program.ranks[r].push_back({.act = Act::stick});
      program.ranks[r].push_back(call(OpKind::AllReduce, 100));
    }
    program.ranks[r].push_back({.act = Act::sync});
  }
  return execute(program);
}

const Finding* gap_of(const Report& report) {
  for (const Finding& finding : report.findings) {
    if (finding.verdict == Verdict::record_gap) return &finding;
  }
  return nullptr;
}

TEST_CASE("calls made while recording was paused are told, and nothing is certain then") {
  Outcome outcome = make_job(3);
  CHECK(gap_of(analyse(outcome.run)) == nullptr);
  outcome.run.processes[1].statistics["dropped_paused"] = 261;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).summary.find("as far as these are on file") != std::string::npos);
  REQUIRE(gap_of(report) != nullptr);
  CHECK(gap_of(report)->summary.starts_with(
      "rank 1: 261 calls were made while recording was paused (rollcall ctl pause)"));
  CHECK(gap_of(report)->culprits.size() == 1);
}

TEST_CASE("a running job that is paused is not said to stand") {
  Program program;
  program.comms.emplace_back();
  program.comms[0].ranks = {0, 1};
  program.ranks.resize(2);
  for (Steps& steps : program.ranks) {
    steps = {call(OpKind::AllReduce, 100), {.act = Act::sync}, {.act = Act::stick}};
  }
  Outcome outcome = execute(program, kLive);
  CHECK(lead(analyse(outcome.run)).summary.find("yet none has called NCCL") != std::string::npos);
  outcome.run.processes[1].capture_paused = true;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.starts_with("recording is paused on rank 1 "));
}

TEST_CASE("a rank whose file is missing is named, in lockstep and where nothing moves") {
  Outcome clean = make_job(3);
  clean.run.processes.erase(clean.run.processes.begin() + 1);
  const Report healthy = analyse(clean.run);
  INFO(text_of(healthy));
  CHECK(lead(healthy).confidence != Confidence::certain);
  REQUIRE(gap_of(healthy) != nullptr);
  CHECK(gap_of(healthy)->summary.starts_with("rank 1 of world left no file that can be read"));

  Outcome hung = make_job(3, 1);
  hung.run.processes.erase(hung.run.processes.begin() + 1);
  const Report report = analyse(hung.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).summary.find("rank 1 of world left no file that can be read, and may be the "
                                  "reason") != std::string::npos);
  CHECK(lead(report).next.find("copy the missing file") != std::string::npos);
}

TEST_CASE("positions that no counter reaches harm neither the others' nor memory") {
  for (const uint64_t wrong : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 40}) {
    for (const size_t which : {size_t{0}, size_t{1}, size_t{2}}) {
      Outcome outcome = make_job(4, 2);
      outcome.run.processes[1].ops.at(which).seq = wrong;
      const Report report = analyse(outcome.run);
      INFO(wrong << " " << which << "\n" << text_of(report));
      CHECK(check_blames(report, Verdict::missing_call, 2).seq == 2u);
      REQUIRE(gap_of(report) != nullptr);
      CHECK(gap_of(report)->summary.starts_with(
          "rank 1: 1 record names a position far from all others: the file is damaged"));
    }
  }
}

size_t bytes_to_analyse(const Outcome& outcome) {
  const size_t before = asked_bytes;
  analyse(outcome.run);
  return asked_bytes - before;
}

TEST_CASE("a rank all of whose positions are far off costs no memory for what lies between") {
  const size_t usual = bytes_to_analyse(make_job(4, 2));
  REQUIRE(usual != 0);
  for (const uint64_t far :
       {~uint64_t{0} - 3, uint64_t{1} << 61, uint64_t{1} << 40, uint64_t{1} << 20}) {
    Outcome outcome = make_job(4);
    for (trace::Op& op : outcome.run.processes[1].ops) op.seq += far;
    INFO(far << "\n" << text_of(analyse(outcome.run)));
    CHECK(bytes_to_analyse(outcome) < 2 * usual);
  }
}

TEST_CASE("transfers of which all numbers are impossible are left out") {
  Outcome outcome = make_job(3);
  trace::Process& process = outcome.run.processes[1];
  for (const OpKind kind : {OpKind::Send, OpKind::Recv}) {
    trace::Op op = process.ops.front();
    op.kind = kind;
    op.root_or_peer = 2;
    op.seq = uint64_t{1} << 62;
    op.ticket = process.ops.back().ticket + 1;
    process.ops.push_back(op);
  }
  const Index index(outcome.run);
  CHECK(index.misplaced(1) == 2);
  CHECK_FALSE(analyse(outcome.run).findings.empty());
}

TEST_CASE("of transfers the newest are kept where many were captured long before") {
  constexpr uint64_t kGone = 10'000'000;
  Outcome outcome = make_job(3);
  trace::Process& process = outcome.run.processes[1];
  process.lost = kGone;
  for (uint64_t i = 0; i < 60; ++i) {
    trace::Op op = process.ops.front();
    op.kind = OpKind::Send;
    op.root_or_peer = 2;
    op.graph = i < 40 ? 1 : 0;
    op.seq = i < 40 ? i : i + kGone;
    op.ticket = process.ops.back().ticket + 1;
    process.ops.push_back(op);
  }
  const Index index(outcome.run);
  REQUIRE(index.channels().size() == 1);
  const Channel& channel = index.channels()[0];
  CHECK(channel.send_at(59 + kGone) != kNoRecord);
  CHECK(channel.send_at(40 + kGone) != kNoRecord);
  CHECK(channel.send_at(0) == kNoRecord);
  CHECK(index.misplaced(1) == 0);
}

TEST_CASE("what lies between far positions costs memory once a process, not once a channel") {
  constexpr int kPeers = 200;
  constexpr uint64_t kApart = 1'500;  // what a process with so many calls may have lost
  Outcome outcome = make_job(kPeers + 1);
  trace::Process& process = outcome.run.processes[kPeers];
  for (int peer = 0; peer < kPeers; ++peer) {
    for (const uint64_t seq : {uint64_t{0}, kApart}) {
      trace::Op op = process.ops.front();
      op.kind = OpKind::Send;
      op.root_or_peer = peer;
      op.seq = seq;
      op.ticket = process.ops.back().ticket + 1;
      process.ops.push_back(op);
    }
  }
  const Index index(outcome.run);
  size_t positions = 0;
  for (const Channel& channel : index.channels()) positions += channel.sends.size();
  CHECK(positions >= 2 * kPeers);
  CHECK(positions < 10 * process.ops.size());
  CHECK(index.misplaced(kPeers) > 0);
}

TEST_CASE("what is said of a rank whose file is damaged is open, and of others as without") {
  Outcome outcome = make_job(3, 1);
  const Confidence usual = lead(analyse(outcome.run)).confidence;
  REQUIRE(usual != Confidence::open);
  outcome.run.processes[0].damaged = 3;
  CHECK(lead(analyse(outcome.run)).confidence == usual);
  outcome.run.processes[1].damaged = 3;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).culprits.front().rank == 1);
  CHECK(lead(report).confidence == Confidence::open);
  CHECK(lead(report).summary.find("the file of rank 1 is damaged (3 of its records") !=
        std::string::npos);
  CHECK(lead(report).next.starts_with("copy the file of rank 1 again"));
}

TEST_CASE("a rank that was ended from outside is named in a job that is in lockstep") {
  Outcome outcome = make_job(2);
  CHECK(lead(analyse(outcome.run)).next == "nothing to do");
  outcome.run.processes[1].exited_ns = 0;
  outcome.run.processes[1].liveness = trace::Liveness::dead;
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).summary.find("rank 1 did not end by itself") != std::string::npos);
  CHECK(lead(report).next.find("look at the log of rank 1") != std::string::npos);
}

}  // namespace gaps_test
}  // namespace rollcall::analysis
