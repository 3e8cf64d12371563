// Sequences held against each other: the way from one to the other is the shortest there is, and
// folding loses nothing.
#include "comparison/compare.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"

namespace rollcall::comparison {
namespace compare_test {

using Calls = std::vector<uint32_t>;

// Length of the longest common subsequence, by the plain table.
size_t common_length(const Calls& a, const Calls& b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      best[i][j] = a[i] == b[j] ? best[i + 1][j + 1] + 1 : std::max(best[i + 1][j], best[i][j + 1]);
    }
  }
  return best[0][0];
}

size_t changes(const std::vector<Edit>& edits) {
  size_t number = 0;
  for (const Edit& edit : edits) number += edit.kind == Edit::same ? 0 : edit.length;
  return number;
}

// What the edits make of `a`, reading added calls from `b`.
Calls apply(const std::vector<Edit>& edits, const Calls& a, const Calls& b) {
  Calls result;
  size_t taken = 0;
  for (const Edit& edit : edits) {
    const Calls& source = edit.kind == Edit::added ? b : a;
    const size_t begin = edit.kind == Edit::added ? edit.begin_b : edit.begin_a;
    if (edit.kind != Edit::added) {
      CHECK(edit.begin_a == taken);
      taken += edit.length;
    }
    if (edit.kind == Edit::removed) continue;
    for (size_t i = 0; i < edit.length; ++i) result.push_back(source.at(begin + i));
  }
  CHECK(taken == a.size());
  return result;
}

Calls random_calls(std::mt19937_64& random, size_t length_max, uint32_t kinds) {
  Calls calls(random() % (length_max + 1));
  for (uint32_t& call : calls) call = static_cast<uint32_t>(random() % kinds);
  return calls;
}

TEST_CASE("the edits between two sequences are right and as few as can be") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    const Calls a = random_calls(random, 24, 4);
    const Calls b = random_calls(random, 24, 4);
    bool is_shortest = false;
    const std::vector<Edit> edits = shortest_edits(a, b, kEditsMax, is_shortest);
    CHECK(is_shortest);
    CHECK(apply(edits, a, b) == b);
    CHECK(changes(edits) == a.size() + b.size() - 2 * common_length(a, b));
  }
}

TEST_CASE("equal sequences have no edit") {
  const Calls calls{1, 2, 3, 1, 2, 3};
  bool is_shortest = false;
  const std::vector<Edit> edits = shortest_edits(calls, calls, kEditsMax, is_shortest);
  CHECK(edits == std::vector<Edit>{{Edit::same, 0, 0, 6}});
  CHECK(shortest_edits({}, {}, kEditsMax, is_shortest).empty());
}

TEST_CASE("more edits than the bound become one replacement, and that is said") {
  Calls a{9};
  Calls b{9};
  for (uint32_t i = 0; i < 50; ++i) {
    a.push_back(100 + i);
    b.push_back(200 + i);
  }
  bool is_shortest = true;
  const std::vector<Edit> edits = shortest_edits(a, b, 20, is_shortest);
  CHECK_FALSE(is_shortest);
  CHECK(apply(edits, a, b) == b);
  CHECK(changes(edits) == 100);
}

TEST_CASE("a run that went on longer differs by what it added, however much") {
  const Calls a(1000, 5);
  Calls b(100'000, 5);
  bool is_shortest = false;
  const std::vector<Edit> edits = shortest_edits(a, b, kEditsMax, is_shortest);
  CHECK(is_shortest);
  REQUIRE(edits.size() == 2);
  CHECK(edits[0].kind == Edit::same);
  CHECK(edits[1].kind == Edit::added);
  CHECK(edits[1].length == 99'000);
}

TEST_CASE("folding finds loops and loses nothing") {
  Calls step{1};
  for (int i = 0; i < 12; ++i) step.push_back(2);
  step.push_back(3);
  Calls calls{7, 8};
  for (int i = 0; i < 100; ++i) calls.insert(calls.end(), step.begin(), step.end());
  calls.push_back(9);
  const std::vector<Fold> folds = fold(calls);
  CHECK(unfold(folds) == calls);
  REQUIRE(folds.size() == 4);
  CHECK(folds[2].times == 100);
  REQUIRE(folds[2].body.size() == 3);
  CHECK(folds[2].body[1].call == 2);
  CHECK(folds[2].body[1].times == 12);
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; ++round) {
    const Calls any = random_calls(random, 60, 3);
    CHECK(unfold(fold(any)) == any);
  }
}

// Two ranks of one communicator, neighbours in a ring, that made the calls of `program`.
trace::Run ring_run(uint64_t key, uint32_t skipped_rank) {
  trace::Run run;
  for (int32_t rank = 0; rank < 4; ++rank) {
    trace::Process& process = run.processes.emplace_back();
    process.job_rank = rank;
    trace::Comm comm;
    comm.key = {key, 1};
    comm.origin = CommOrigin::init;
    comm.state = CommState::ready;
    comm.nranks = 4;
    comm.rank = rank;
    process.comms.push_back(comm);
    const auto add = [&](OpKind kind, int32_t peer) {
      trace::Op op;
      op.kind = kind;
      op.count = 8;
      op.datatype = 7;
      op.root_or_peer = peer;
      op.ticket = process.ops.size() + 1;
      process.ops.push_back(op);
    };
    add(OpKind::Send, (rank + 1) % 4);
    add(OpKind::Recv, (rank + 3) % 4);
    if (rank != static_cast<int32_t>(skipped_rank)) add(OpKind::AllGather, -1);
    add(OpKind::AlltoAll, -1);
  }
  return run;
}

TEST_CASE("runs are compared rank by rank whatever their keys") {
  const Comparison equal = compare_runs(ring_run(1, 99), ring_run(2, 99));
  CHECK(equal.is_equal());
  // Neighbours in a ring make the same calls by distance: one group.
  REQUIRE(equal.groups.size() == 1);
  CHECK(equal.groups[0].ranks.size() == 4);
  const Comparison differs = compare_runs(ring_run(1, 99), ring_run(2, 2));
  CHECK_FALSE(differs.is_equal());
  REQUIRE(differs.groups.size() == 2);
  CHECK(differs.groups[1].ranks == std::vector<int32_t>{2});
  CHECK(changes(differs.groups[1].edits) == 1);
}

TEST_CASE("communicators that a damaged file makes each other's parent are compared") {
  trace::Run run = ring_run(1, 99);
  for (trace::Process& process : run.processes) {
    for (const uint64_t key : {uint64_t{2}, uint64_t{3}}) {
      trace::Comm comm = process.comms[0];
      comm.key = {key, 0};
      comm.parent_key = {5 - key, 0};
      comm.origin = CommOrigin::split;
      process.comms.push_back(comm);
    }
    process.ops[0].comm = static_cast<uint32_t>(process.comms.size() - 1);
  }
  CHECK(compare_runs(run, run).is_equal());
}

TEST_CASE("two ranks of a run are compared, and a rank without a file is named") {
  const trace::Run run = ring_run(1, 2);
  CHECK(compare_ranks(run, 0, 3).is_equal());
  const Comparison differs = compare_ranks(run, 0, 2);
  REQUIRE(differs.groups.size() == 1);
  CHECK(changes(differs.groups[0].edits) == 1);
  CHECK(compare_ranks(run, 0, 7).only_b == std::vector<int32_t>{7});
}

}  // namespace compare_test
}  // namespace rollcall::comparison
