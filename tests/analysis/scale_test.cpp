// Jobs in which very much is wrong at once. What they cost is held against what the same job costs
// with nothing wrong, so that neither a slow machine nor a busy one matters: a step that looks at
// all of something for each of something is hundreds of times as dear.
#include <algorithm>

#include "tests/analysis/cost.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace scale_test {

constexpr double kTimesMax = 15;
constexpr int64_t kEpochNs = 1'700'000'000'000'000'000;
constexpr CommKey kWorld{1, 7};

// Many ranks that hung for a minute and were killed. Far faster than the virtual cluster.
class Fleet {
 public:
  explicit Fleet(int ranks) : ranks_(ranks) {
    run.processes.resize(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      trace::Process& process = at(r);
      process.file = fmt::format("{}.ring", r);
      process.host = "node";
      process.pid = 1000 + static_cast<uint32_t>(r);
      process.job_rank = r;
      process.heartbeat_ns = kEpochNs + 60'000'000'000;
      process.liveness = trace::Liveness::dead;
      join(r, kWorld, {}, r, ranks);
    }
  }
  trace::Process& at(int rank) { return run.processes[static_cast<size_t>(rank)]; }
  int ranks() const { return ranks_; }

  trace::Comm& join(int rank, const CommKey& key, const CommKey& parent, int comm_rank,
                    int nranks) {
    trace::Comm& comm = at(rank).comms.emplace_back();
    comm.key = key;
    comm.parent_key = parent;
    comm.origin = parent.is_null() ? CommOrigin::init : CommOrigin::split;
    comm.state = CommState::ready;
    comm.rank = comm_rank;
    comm.nranks = nranks;
    comm.created_ns = comm.ready_ns = kEpochNs;
    return comm;
  }
  // On the process's communicator of this number; of a transfer the first with this peer.
  void call(int rank, uint32_t comm, OpKind kind, uint64_t count, int peer = -1,
            uint32_t group = 0) {
    trace::Process& process = at(rank);
    trace::Op& op = process.ops.emplace_back();
    op.ticket = process.next_ticket++;
    op.kind = kind;
    op.comm = comm;
    op.count = count;
    op.datatype = 7;
    op.root_or_peer = peer;
    op.group = group;
    op.stream = 1;
    op.result = 0;
    op.state = trace::OpState::returned;
    op.called_ns = kEpochNs + static_cast<int64_t>(op.ticket) * 10'000 + rank;
    op.returned_ns = op.called_ns + 1000;
    if (kind == OpKind::AllReduce) op.reduction = 0;
    if (is_collective(kind)) op.seq = process.comms[comm].collectives++;
    if (kind == OpKind::Send) ++process.comms[comm].sends;
    if (kind == OpKind::Recv) ++process.comms[comm].recvs;
  }

  trace::Run run;

 private:
  int ranks_;
};

// The report of the bad one, which costs not much more.
Report check_cost(const char* what, const Fleet& good, const Fleet& bad,
                  double times_max = kTimesMax) {
  Report report;
  const double usual = std::max(seconds_to_judge(good.run, report), 0.01);
  const double spent = seconds_to_judge(bad.run, report);
  WARN(what << ": " << spent << " s of processor time, " << spent / usual << " times the usual");
  CHECK(spent < times_max * usual);
  return report;
}

TEST_CASE("what equal calls cost grows as the number of ranks does", "[scale]") {
  const trace::Run small = make_yardstick(1024);
  const trace::Run large = make_yardstick(16'384);
  Report report;
  double small_s = 0.001;
  double large_s = 1e9;
  for (int i = 0; i < 3; ++i) {
    small_s = std::max(small_s, seconds_to_judge(small, report));
    large_s = std::min(large_s, seconds_to_judge(large, report));
  }
  // Sixteen times, or 256 where each rank is asked about all others.
  CHECK(large_s < 60 * small_s);
}

// Pairs of ranks, as of tensor parallelism over two; the two of each disagree about its only call.
Fleet make_pairs(int ranks, bool is_bad) {
  Fleet fleet(ranks);
  for (int r = 0; r < ranks; ++r) {
    const auto pair = static_cast<uint64_t>(r / 2);
    fleet.join(r, {100 + pair, 7}, kWorld, r % 2, 2);
    for (uint64_t i = 0; i < 5; ++i) fleet.call(r, 0, OpKind::AllReduce, 64 + i);
    fleet.call(r, 1, OpKind::AllReduce, is_bad && r % 2 == 1 ? 1001 : 1000);
  }
  return fleet;
}

TEST_CASE("eight thousand pairs of ranks that each disagree are judged in a moment", "[scale]") {
  const Report report =
      check_cost("8,192 tied pairs", make_pairs(16384, false), make_pairs(16384, true));
  CHECK(lead(report).verdict == Verdict::count_mismatch);
  CHECK(std::count_if(report.findings.begin(), report.findings.end(), [](const Finding& finding) {
          return finding.verdict == Verdict::count_mismatch;
        }) == 8192);
}

// Half of the ranks call on one communicator, half on another one of the same ranks; `odd`: the
// size of one call far back, where all others before are of one size.
Fleet make_two_halves(int ranks, uint64_t odd) {
  constexpr uint64_t kCalls = 2000;
  Fleet fleet(ranks);
  for (int r = 0; r < ranks; ++r) {
    fleet.join(r, {2, 7}, {}, r, ranks);
    for (uint64_t i = 0; i < kCalls; ++i) {
      fleet.call(r, 0, OpKind::AllReduce, i == kCalls / 2 ? odd : 64);
    }
    fleet.call(r, r % 2 == 0 ? 0 : 1, OpKind::AllReduce, 32);
  }
  return fleet;
}

TEST_CASE("a habit of a thousand calls and one is looked through in a moment", "[scale]") {
  // Every call in reach of the odd one is held against all before. It was thousands of times.
  const Report report =
      check_cost("64 ranks of one odd call", make_two_halves(64, 64), make_two_halves(64, 99), 100);
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(lead(report).culprits.size() == 64);
}

// Every rank sends to all and receives from all, in one group. `count`: what a rank names.
template <typename Count>
void exchange(Fleet& fleet, int rank, uint32_t comm, uint32_t group, Count count) {
  for (int peer = 0; peer < fleet.ranks(); ++peer) {
    fleet.call(rank, comm, OpKind::Send, count(rank), peer, group);
    fleet.call(rank, comm, OpKind::Recv, count(rank), peer, group);
  }
}

// `order`: of two exchanges the one that a rank begins with.
template <typename Order>
Fleet make_two_exchanges(int ranks, Order order) {
  Fleet fleet(ranks);
  for (int r = 0; r < ranks; ++r) {
    fleet.join(r, {2, 7}, {}, r, ranks);
    const uint32_t first = order(r);
    exchange(fleet, r, first, 1, [](int) { return kLarge; });
    exchange(fleet, r, 1 - first, 2, [](int) { return kLarge; });
  }
  return fleet;
}

TEST_CASE("exchanges that two hundred ranks begin in two orders are judged in a moment",
          "[scale]") {
  const Report report = check_cost(
      "256 ranks in a circle of exchanges", make_two_exchanges(256, [](int) { return 0u; }),
      make_two_exchanges(256, [](int rank) { return rank % 2 == 0 ? 0u : 1u; }));
  CHECK(lead(report).verdict == Verdict::deadlock_p2p);
  CHECK(lead(report).culprits.size() == 256);
}

template <typename Count>
Fleet make_exchange(int ranks, Count count) {
  Fleet fleet(ranks);
  for (int r = 0; r < ranks; ++r) exchange(fleet, r, 0, 1, count);
  return fleet;
}

TEST_CASE("an exchange of which half the ranks expect another size is judged in a moment",
          "[scale]") {
  const Report report = check_cost(
      "256 ranks that exchange two sizes", make_exchange(256, [](int) { return kLarge; }),
      make_exchange(256, [](int rank) { return rank < 128 ? kLarge : 2 * kLarge; }));
  CHECK(lead(report).verdict == Verdict::p2p_mismatch);
  // Each of one half disagrees with each of the other half, in both directions.
  const std::string untold = "; 31744 later transfers that two ranks disagree about are not listed";
  CHECK(lead(report).summary.ends_with(untold));
  CHECK(text_of(report).find("not listed") == text_of(report).rfind("not listed"));
}

// A mesh: rank r is number r % 8 of its row, and number r / 8 of its column. `begins_with`: of its
// row (1) and column (2) the one that a rank calls on first.
template <typename Begin>
Fleet make_mesh(int rows, Begin begins_with) {
  constexpr int kColumns = 8;
  Fleet fleet(rows * kColumns);
  for (int r = 0; r < fleet.ranks(); ++r) {
    const int row = r / kColumns;
    const int column = r % kColumns;
    fleet.join(r, {100 + static_cast<uint64_t>(row), 7}, kWorld, column, kColumns);
    fleet.join(r, {100'000 + static_cast<uint64_t>(column), 7}, kWorld, row, rows).child_number = 1;
    for (int i = 0; i < 10; ++i) fleet.call(r, 0, OpKind::AllReduce, 64);
    const uint32_t first = begins_with(row, column);
    fleet.call(r, first, OpKind::AllReduce, 64);
    fleet.call(r, 3 - first, OpKind::AllReduce, 64);
  }
  return fleet;
}

TEST_CASE("a mesh of eight thousand ranks that call in two orders is judged in a moment",
          "[scale]") {
  const Report report = check_cost(
      "8 x 1,024 ranks in a circle", make_mesh(1024, [](int, int) { return 1u; }),
      make_mesh(1024, [](int row, int column) { return (row + column) % 2 == 0 ? 1u : 2u; }));
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(lead(report).culprits.size() == 8192);
}

// All but the last rank abort, the first of them last but one by number; the others were told of
// it.
Fleet make_cascade(int ranks, bool is_bad) {
  constexpr int64_t kAbortNs = kEpochNs + 20'000'000'000;
  Fleet fleet(ranks);
  const int first = ranks - 2;
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < 10; ++i) fleet.call(r, 0, OpKind::AllReduce, 64);
    if (!is_bad) continue;
    if (r == ranks - 1) {
      fleet.call(r, 0, OpKind::AllReduce, 64);
      continue;
    }
    const int64_t at_ns = r == first ? kAbortNs : kAbortNs + 5'000'000;
    trace::Event told{.kind = EventKind::AsyncError, .called_ns = at_ns - 1'000'000, .text = ""};
    told.returned_ns = at_ns;
    told.comm = 0;
    told.arguments[1] = kResultRemoteError;
    if (r != first) fleet.at(r).events.push_back(told);
    add_abort(fleet.at(r), 0, at_ns);
  }
  return fleet;
}

TEST_CASE("sixteen thousand ranks that abort because one did are judged in a moment", "[scale]") {
  const Report report =
      check_cost("16,384 aborts", make_cascade(16384, false), make_cascade(16384, true));
  CHECK(lead(report).culprits[0].rank == 16382);
}

}  // namespace scale_test
}  // namespace rollcall::analysis
