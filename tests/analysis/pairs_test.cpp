// Communicators of two ranks, each made by the first transfer of the two, as PyTorch makes them.
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace pairs_test {

// The world of so many ranks, and a communicator for each two that follow each other.
Program chain_of(int ranks) {
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(r);
  for (int r = 0; r + 1 < ranks; ++r) {
    program.comms.push_back({.ranks = {r, r + 1}, .is_late = true, .has_late_id = true});
    for (const int side : {r, r + 1}) {
      program.ranks[static_cast<size_t>(side)].push_back({.act = Act::create, .comm = r + 1});
    }
  }
  return program;
}

// So many transfers from each rank to the next one, then a sum.
void add_step(Program& program, int batches) {
  const int ranks = static_cast<int>(program.ranks.size());
  for (int r = 0; r < ranks; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    for (int batch = 0; batch < batches; ++batch) {
      if (r > 0) own.push_back(call(OpKind::Recv, kLarge, 0, r));
      if (r + 1 < ranks) own.push_back(call(OpKind::Send, kLarge, 1, r + 1));
    }
    own.push_back(call(OpKind::AllReduce, 8));
    own.push_back({.act = Act::sync});
  }
}

// The last transfer of this kind of a rank.
Steps::iterator last_of(Program& program, int rank, OpKind kind) {
  Steps& own = program.ranks[static_cast<size_t>(rank)];
  const auto found = std::find_if(own.rbegin(), own.rend(), [&](const Step& step) {
    return step.act == Act::call && step.kind == kind;
  });
  return std::prev(found.base());
}

TEST_CASE("who receives once more than its peer sends is named, as other ranks' numbers tell") {
  Program program = chain_of(4);
  add_step(program, 3);
  const auto again = last_of(program, 2, OpKind::Recv);
  program.ranks[2].insert(again, Step(*again));
  const Report report = analyse(execute(program, kLive).run);
  const Culprit& culprit = check_blames(report, Verdict::p2p_unmatched, 2);
  CHECK(culprit.op == "Recv");
  CHECK(culprit.p2p_seq == 3u);
  CHECK(lead(report).misstep == Misstep::made_more);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(
      lead(report).summary.starts_with("rank 2 made 4 receives from rank 1 in front of "
                                       "the first call on world, and rank 1 made 3 sends: "));
}

TEST_CASE("who sends once less than its peer receives is named, as other ranks' numbers tell") {
  Program program = chain_of(4);
  add_step(program, 3);
  program.ranks[1].erase(last_of(program, 1, OpKind::Send));
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::p2p_unmatched, 1);
  CHECK(lead(report).misstep == Misstep::left_out);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("chains that exchange another number in each step are in lockstep") {
  Program program = chain_of(4);
  for (const int batches : {2, 3, 1}) add_step(program, batches);
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("where nothing tells which of two numbers of transfers is right, both are named") {
  Program program = chain_of(2);
  program.comms[0].ranks.push_back(2);  // a rank that exchanges nothing
  program.ranks.emplace_back();
  for (Steps& own : program.ranks) {
    own.push_back(call(OpKind::AllReduce, 8));
    own.push_back({.act = Act::sync});
  }
  const auto add_transfers = [&](int rank, OpKind kind, int number) {
    Steps& own = program.ranks[static_cast<size_t>(rank)];
    const Step transfer = call(kind, kLarge, 1 - rank, 1);
    own.insert(own.end() - 2, static_cast<size_t>(number), transfer);
  };
  add_transfers(0, OpKind::Send, 3);
  add_transfers(1, OpKind::Recv, 2);
  const Report report = analyse(execute(program, kLive).run);
  check_names(report, Verdict::p2p_unmatched, {0, 1});
  CHECK_FALSE(lead(report).misstep);
  CHECK(lead(report).summary.find("nothing on file tells") != std::string::npos);
}

// Rank 0 sends to rank 1 in front of each sum, and rank 1 receives that behind the sum. Ranks 2
// and 3 have a communicator, too.
Program lagging_pair(int steps) {
  Program program = chain_of(4);
  for (int step = 0; step < steps; ++step) {
    program.ranks[0].push_back(call(OpKind::Send, 8, 1, 1));
    for (Steps& own : program.ranks) {
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
    program.ranks[1].push_back(call(OpKind::Recv, 8, 0, 1));
  }
  return program;
}

TEST_CASE("a pair that receives behind each sum what was sent in front of it is in lockstep") {
  const Report report = analyse(execute(lagging_pair(4), kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
}

TEST_CASE("a pair that lags by design is not blamed where other ranks wait in a circle") {
  // Rank 2 leaves out the last sum, and waits for what rank 3 sends behind it.
  Program program = lagging_pair(4);
  Steps& left_out = program.ranks[2];
  left_out.resize(left_out.size() - 2);
  left_out.push_back(call(OpKind::Recv, kLarge, 1, 3));
  left_out.push_back({.act = Act::sync});
  program.ranks[3].push_back(call(OpKind::Send, kLarge, 0, 3));
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(is_defect(lead(report)));
  CHECK_FALSE(lead(report).culprits.empty());
  for (const Culprit& culprit : lead(report).culprits) CHECK(culprit.rank >= 2);
  for (const int32_t rank : lead(report).victims) {
    for (const Culprit& culprit : lead(report).culprits) CHECK(culprit.rank != rank);
  }
}

// The last rank goes on without the first transfer of its pair.
Program without_last_pair(int ranks) {
  Program program = chain_of(ranks);
  add_step(program, 1);
  Steps& last = program.ranks.back();
  std::erase_if(last, [&](const Step& step) { return step.comm == ranks - 1; });
  return program;
}

TEST_CASE("who alone may be missing in the creation of a pair, and waits elsewhere, is named") {
  const Report report = analyse(execute(without_last_pair(4), kLive).run);
  check_blames(report, Verdict::init_incomplete, 3);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).summary.find("no file") == std::string::npos);
}

TEST_CASE("who may wait for the id of a pair is not certain to have left a call out") {
  for (const bool has_exchanged : {false, true}) {
    CAPTURE(has_exchanged);
    Program program = chain_of(3);
    if (has_exchanged) add_step(program, 1);
    for (size_t r = 0; r < 3; ++r) {
      Steps& own = program.ranks[r];
      if (!has_exchanged) std::erase_if(own, [](const Step& step) { return step.comm == 2; });
      if (r == 2) own.push_back({.act = Act::stick});
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
    const Report report = analyse(execute(program, kLive).run);
    check_blames(report, Verdict::missing_call, 2);
    CHECK(lead(report).confidence == (has_exchanged ? Confidence::certain : Confidence::open));
    CHECK((lead(report).summary.find("waits for the id of a communicator of two") !=
           std::string::npos) == !has_exchanged);
  }
}

}  // namespace pairs_test
}  // namespace rollcall::analysis
