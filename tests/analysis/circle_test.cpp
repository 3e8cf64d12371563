// Ranks that wait for each other in a circle: who is named, and what is quoted for it.
#include <algorithm>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace circle_test {

// In every step a call of the first three ranks, then one of all four.
Program make_nested(int steps) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2}, .parent = 0}};
  program.ranks.resize(4);
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    for (int step = 0; step < steps; ++step) {
      if (r != 3) own.push_back(call(OpKind::AllReduce, 8, -1, 1));
      own.push_back(call(OpKind::AllReduce, 3));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

const Evidence* find_evidence(const Finding& finding, std::string_view begin) {
  const auto found =
      std::find_if(finding.evidence.begin(), finding.evidence.end(),
                   [&](const Evidence& evidence) { return evidence.text.starts_with(begin); });
  return found == finding.evidence.end() ? nullptr : &*found;
}

std::vector<int32_t> blamed_by(const Report& report) {
  std::vector<int32_t> ranks;
  for (const Culprit& culprit : lead(report).culprits) ranks.push_back(culprit.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

TEST_CASE("what is quoted of a call that ranks wait in is the record of one of them") {
  Program program = make_nested(3);
  Steps& left_out = program.ranks[2];
  left_out.erase(left_out.end() - 3);
  const Outcome outcome = execute(program);
  const Report report = analyse(outcome.run);
  check_blames(report, Verdict::missing_call, 2);
  // Ranks 0 and 1 have made the call, too, behind the one that they wait in.
  REQUIRE(outcome.run.processes[0].ops.back().comm == 0);
  const Evidence* edge = find_evidence(lead(report), "ranks 2-3 in AllReduce of 3");
  REQUIRE(edge != nullptr);
  CHECK(edge->file == outcome.run.processes[2].file);
  const Evidence* other = find_evidence(lead(report), "AllReduce of 8");
  REQUIRE(other != nullptr);
  CHECK(other->file == outcome.run.processes[0].file);
}

// Three of four call on a communicator of their own, then all. Those of `last` call once more on
// it; the others of the three have ended it by then if `end` says so.
struct Ended {
  std::vector<int> last = {1, 2};
  CommState state = CommState::destroyed;
  EventKind kind = EventKind::CommDestroy;
  int64_t before_ns = 1000;  // their next call
};
Outcome make_ended(const Ended& ended) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {1, 2, 3}, .parent = 0}};
  program.ranks.resize(4);
  const auto is_last = [&](int r) {
    return std::find(ended.last.begin(), ended.last.end(), r) != ended.last.end();
  };
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    for (int i = 0; i < (r == 0 ? 0 : is_last(r) ? 3 : 2); ++i) {
      own.push_back(call(OpKind::AllReduce, 8, -1, 1));
      own.push_back({.act = Act::sync});
    }
    own.push_back(call(OpKind::AllReduce, 1));
    own.push_back({.act = Act::sync});
  }
  Outcome outcome = execute(program);
  for (int r = 1; r < 4; ++r) {
    trace::Process& process = outcome.run.processes[static_cast<size_t>(r)];
    if (is_last(r) || ended.state == CommState::ready) continue;
    trace::Event end{.kind = ended.kind, .text = ""};
    end.called_ns = process.ops.back().called_ns - ended.before_ns;
    end.returned_ns = end.called_ns + 10;
    end.comm = 1;
    process.events.push_back(end);
    process.comms[1].state = ended.state;
    process.comms[1].ended_ns = end.returned_ns;
  }
  return outcome;
}

TEST_CASE("who ended a communicator without a call of it, and waits elsewhere, is named for that") {
  const std::vector<Ended> all = {
      {},
      {.state = CommState::finalized, .kind = EventKind::CommFinalize},
      {.state = CommState::aborted, .kind = EventKind::CommAbort},
  };
  for (const Ended& ended : all) {
    const Report report = analyse(make_ended(ended).run);
    const Culprit& culprit = check_blames(report, Verdict::missing_call, 3);
    CHECK(culprit.seq == 2u);
    CHECK(culprit.comm_rank == 2);
    CHECK(lead(report).confidence == Confidence::certain);
    CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 2});
    CHECK(lead(report).summary.find("the communicator without the call") != std::string::npos);
    CHECK(find_evidence(lead(report), "rank 3: Comm") != nullptr);
  }
}

TEST_CASE("who has not ended the communicator, or only when it waited, is not said to have") {
  for (const Ended& ended : {Ended{.state = CommState::ready}, Ended{.before_ns = -1000}}) {
    const Report report = analyse(make_ended(ended).run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::deadlock_comms);
    CHECK(lead(report).summary.find("destroyed") == std::string::npos);
  }
}

TEST_CASE("who calls where most have ended the communicator is not waiting for them") {
  const Report report = analyse(make_ended({.last = {1}}).run);
  INFO(text_of(report));
  CHECK(lead(report).summary.find("destroyed") == std::string::npos);
}

// Ranks 0,1 and 2,3 share shards, ranks 0,2 and 1,3 have replicas of them: so many layers are
// gathered, reduced and scattered in the one, and reduced in the other. Then all reduce their loss.
// In one of four steps, the third if not told otherwise, rank 1 leaves out the replicas' calls of
// `left_out` layers.
struct Sharded {
  int layers = 3;
  int left_out = 1;
  bool waits = true;  // a host waits at the end of a step
  std::vector<uint64_t> sizes = {64, 64, 64};
  int step = 2;
};
constexpr int kReplicas = 4;  // communicator of ranks 1,3
Program make_sharded(const Sharded& sharded) {
  Program program;
  program.comms = mesh_of_four();
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    const int shards = 1 + r / 2;
    for (int step = 0; step < 4; ++step) {
      for (int layer = 0; layer < sharded.layers; ++layer) {
        const uint64_t size = sharded.sizes[static_cast<size_t>(layer)];
        own.push_back(call(OpKind::AllGather, size, -1, shards));
        own.push_back(call(OpKind::ReduceScatter, size, -1, shards));
        const bool is_left_out = r == 1 && step == sharded.step && layer < sharded.left_out;
        if (!is_left_out) own.push_back(call(OpKind::AllReduce, size, -1, 3 + r % 2));
      }
      own.push_back(call(OpKind::AllReduce, 1));
      if (sharded.waits) own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who leaves calls of one communicator out, and goes on with others, is told of these") {
  for (const bool waits : {false, true}) {
    for (const int left_out : {1, 2, 3}) {
      const Sharded sharded{.left_out = left_out, .waits = waits};
      const Report report = analyse(execute(make_sharded(sharded), kLive).run);
      INFO("left out " << left_out << ", waits " << waits);
      const Culprit& culprit = check_blames(report, Verdict::missing_call, 1);
      CHECK(culprit.comm == CommKey{kReplicas + 1, 7});
      CHECK(lead(report).confidence == Confidence::likely);
      CHECK(lead(report).victims == std::vector<int32_t>{0, 2, 3});
      // With all of a size nothing tells which of several calls was left out.
      const bool is_known = left_out == 3 || !waits;
      if (is_known) CHECK(culprit.seq == 6u);
    }
  }
}

TEST_CASE("a call whose place a later one took is said to be left out, with how many others") {
  const Report report = analyse(execute(make_sharded({.left_out = 2, .waits = false}), kLive).run);
  check_blames(report, Verdict::missing_call, 1);
  CHECK(lead(report).summary.starts_with(
      "rank 1 left out 2 calls, the first of them AllReduce of 64 float32 (sum), seq 6 of split 1 "
      "of world (ranks 1,3); the steps before had them in front of its AllGather of 64 float32; "
      "later ones took their place, and the ranks now wait for each other"));
  REQUIRE_FALSE(lead(report).evidence.empty());
  CHECK(lead(report).evidence[0].text.find("steps before lead one to expect") != std::string::npos);
}

TEST_CASE("who leaves a call out in the first step is told so by what all others call there") {
  for (const bool waits : {false, true}) {
    const Sharded sharded{.waits = waits, .step = 0};
    const Report report = analyse(execute(make_sharded(sharded), kLive).run);
    INFO("waits " << waits);
    CHECK(check_blames(report, Verdict::missing_call, 1).comm == CommKey{kReplicas + 1, 7});
    CHECK(lead(report).confidence == Confidence::likely);
    const bool is_told =
        lead(report).summary.find("; the others had it in front of their") != std::string::npos;
    CHECK(is_told == !waits);
  }
}

TEST_CASE("of two ranks that did otherwise in the first step nobody is told to have left out") {
  Program program = make_sharded({.left_out = 0, .waits = false, .step = 0});
  // The first of rank 1, and the second of rank 2.
  program.ranks[1].erase(program.ranks[1].begin() + 2);
  program.ranks[2].erase(program.ranks[2].begin() + 5);
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(lead(report).summary.find("nothing on file tells which of them") != std::string::npos);
  CHECK(blamed_by(report) == std::vector<int32_t>{0, 1, 2, 3});
}

TEST_CASE("a call on a communicator that nothing is known of is not told as the one left out") {
  for (const int left_out : {1, 2, 3}) {
    for (const bool waits : {false, true}) {
      Outcome outcome = execute(make_sharded({.left_out = left_out, .waits = waits}), kLive);
      forget_comm(outcome.run.processes[1], {kReplicas + 1, 7});
      INFO("left out " << left_out << ", waits " << waits);
      check_blames(analyse(outcome.run), Verdict::deadlock_comms, 1);
    }
  }
}

TEST_CASE("who calls two communicators in another order is not said to have left a call out") {
  Program program = make_sharded({.layers = 1, .left_out = 0, .waits = false});
  Steps& own = program.ranks[1];
  // The loss in front of the replicas' call.
  std::swap(own[2 * 4 + 2], own[2 * 4 + 3]);
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::deadlock_comms, 1);
  CHECK(lead(report).summary.find("left out") == std::string::npos);
}

// As examples/mini_train does: many calls of one size in the rank's row, then as many in its
// column, a last one in the row, and calls of all. In the last step rank 1 makes the row's last
// call behind two of all.
Program make_moved(int tensor) {
  Program program;
  program.comms = tensor == 1 ? std::vector<sim::CommSpec>{{.ranks = {0, 1, 2, 3}},
                                                           {.ranks = {0, 1, 2, 3}, .parent = 0}}
                              : mesh_of_four();
  for (int r = 0; r < 4; ++r) {
    const int row = tensor == 1 ? 1 : 1 + r / 2;
    const int column = tensor == 1 ? 1 : 3 + r % 2;
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; tensor > 1 && i < 8; ++i)
        own.push_back(call(OpKind::AllReduce, 4096, -1, row));
      for (int i = 0; i < 3; ++i) own.push_back(call(OpKind::AllReduce, 4096, -1, column));
      const Step last = call(OpKind::AllReduce, 4, -1, row);
      const Steps of_all = {call(OpKind::Reduce, 1, 0), call(OpKind::AllReduce, 2)};
      const bool is_moved = r == 1 && step == 2;
      if (!is_moved) own.push_back(last);
      own.insert(own.end(), of_all.begin(), of_all.end());
      if (is_moved) own.push_back(last);
      if (step < 2) own.push_back(call(OpKind::Broadcast, 1, 0));
    }
  }
  return program;
}

TEST_CASE("who makes a call behind two others that come later has left none out") {
  for (const int tensor : {1, 2}) {
    CAPTURE(tensor);
    const Report report = analyse(execute(make_moved(tensor), kLive).run);
    check_blames(report, Verdict::deadlock_comms, 1);
    CHECK(lead(report).summary.find("left out") == std::string::npos);
    CHECK(lead(report).summary.find("another communicator") == std::string::npos);
  }
}

// Two groups of `tensor` ranks each, and pairs across them; every rank calls in its group, then in
// its pair, and waits for each. These ranks call the other way round, from this step on.
struct Reversed {
  int tensor = 4;
  std::vector<int> ranks;
  int step = 2;
  bool is_left_out = false;  // the first call of the two is not made at all, but one of all ranks
};
Program make_reversed(const Reversed& reversed) {
  Program program;
  const int tensor = reversed.tensor;
  const int all = 2 + tensor;
  program.comms.resize(static_cast<size_t>(all) + 1);
  for (int r = 0; r < 2 * tensor; ++r) {
    program.comms[static_cast<size_t>(all)].ranks.push_back(r);
    const int group = r / tensor;
    const int pair = 2 + r % tensor;
    program.comms[static_cast<size_t>(group)].ranks.push_back(r);
    program.comms[static_cast<size_t>(pair)].ranks.push_back(r);
    Steps& own = program.ranks.emplace_back();
    const auto& odd = reversed.ranks;
    const bool is_odd = std::find(odd.begin(), odd.end(), r) != odd.end();
    for (int step = 0; step < 4; ++step) {
      const Step first = call(OpKind::AllReduce, 64, -1, group);
      const Step second = call(OpKind::AllReduce, 128, -1, pair);
      Steps both = {first, {.act = Act::sync}, second, {.act = Act::sync}};
      if (is_odd && step >= reversed.step) {
        std::swap(both[0], both[2]);
        if (reversed.is_left_out) both.resize(2);
      }
      if (reversed.is_left_out) {
        both.insert(both.end(), {call(OpKind::AllReduce, 1, -1, all), {.act = Act::sync}});
      }
      own.insert(own.end(), both.begin(), both.end());
    }
  }
  return program;
}

TEST_CASE("all who call their two groups the other way round are named") {
  std::vector<int> many;
  for (int r = 0; r < 40; ++r) many.push_back(r);
  for (int r = 168; r < 208; ++r) many.push_back(r);
  for (const Reversed& reversed : {
           Reversed{.ranks = {0, 5}},
           Reversed{.ranks = {0, 5}, .step = 0},  // most say so then, not the steps before
           Reversed{.tensor = 2, .ranks = {0, 3}},
           Reversed{.tensor = 128, .ranks = many},
       }) {
    const Report report = analyse(execute(make_reversed(reversed), kLive).run);
    INFO(text_of(report));
    CHECK(lead(report).verdict == Verdict::deadlock_comms);
    CHECK(blamed_by(report) == reversed.ranks);
    CHECK(lead(report).confidence == Confidence::likely);
    CHECK(lead(report).summary.find(
              "in another order than in the steps before, or than the others, or "
              "left out what comes first: rank 0 made the call AllReduce of 128") !=
          std::string::npos);
    CHECK(lead(report).summary.find("and not AllReduce of 64") != std::string::npos);
  }
}

TEST_CASE("where half of the ranks call their two groups the other way round nobody knows") {
  const Reversed half{.tensor = 2, .ranks = {0, 3}, .step = 0};
  const Report report = analyse(execute(make_reversed(half), kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(blamed_by(report) == std::vector<int32_t>{0, 1, 2, 3});
  CHECK(lead(report).summary.find("nothing on file tells") != std::string::npos);
}

TEST_CASE("of calls that come from several threads the advice is to set their order") {
  Program program = make_sharded({.layers = 1, .left_out = 0, .waits = false});
  Steps& own = program.ranks[1];
  std::swap(own[2 * 4 + 2], own[2 * 4 + 3]);
  Outcome outcome = execute(program, kLive);
  CHECK(lead(analyse(outcome.run)).next.find("threads") == std::string::npos);
  for (trace::Process& process : outcome.run.processes) {
    for (trace::Op& op : process.ops) op.thread = op.count == 1 ? 1 : 0;  // the loss is another's
  }
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).next.find("in the same order; the calls come from several threads") !=
        std::string::npos);
}

TEST_CASE("all who leave out one call of one group are named, of a missing call") {
  const Reversed missing{.ranks = {0, 1}, .is_left_out = true};
  const Report report = analyse(execute(make_reversed(missing), kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(blamed_by(report) == missing.ranks);
}

// Two nodes of two: each reduces to its first rank, these sum, and hand out what they have. Behind
// the last step all meet.
TEST_CASE("a leader that left out a step's sum is named where it shows behind the last step") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}},
                   {.ranks = {0, 1}, .parent = 0},
                   {.ranks = {2, 3}, .parent = 0},
                   {.ranks = {0, 2}, .parent = 0}};
  program.ranks.resize(4);
  constexpr int kSteps = 5;
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks[static_cast<size_t>(r)];
    const int node = 1 + r / 2;
    for (int step = 0; step < kSteps; ++step) {
      own.push_back(call(OpKind::Reduce, 1000, 0, node));
      if (r % 2 == 0) own.push_back(call(OpKind::AllReduce, 1000, -1, 3));
      own.push_back(call(OpKind::Broadcast, 1000, 0, node));
      own.push_back({.act = Act::sync});
    }
    own.push_back(call(OpKind::AllReduce, 1));
    own.push_back({.act = Act::sync});
  }
  Steps& leader = program.ranks[2];
  leader.erase(leader.begin() + 3 * 4 + 1);
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::missing_call, 2);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3});
}

TEST_CASE("of three ranks that each call their two pairs in another order nobody is to blame") {
  Program program;
  program.comms = {{.ranks = {0, 1}}, {.ranks = {1, 2}}, {.ranks = {0, 2}}};
  const auto both = [](int first, int second) {
    return Steps{call(OpKind::AllReduce, 10, -1, first),
                 {.act = Act::sync},
                 call(OpKind::AllReduce, 10, -1, second),
                 {.act = Act::sync}};
  };
  program.ranks = {both(0, 2), both(1, 0), both(2, 1)};
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(blamed_by(report) == std::vector<int32_t>{0, 1, 2});
  CHECK(lead(report).summary.find("nothing on file tells") != std::string::npos);
}

TEST_CASE("who leaves the order of three steps is named, though what it calls then differs too") {
  for (const size_t odd : {size_t{0}, size_t{1}}) {
    Program program;
    program.comms = {{.ranks = {0, 1}}, {.ranks = {0, 1}}};
    Steps steps;
    for (int step = 0; step < 4; ++step) {
      steps.push_back(call(OpKind::AllReduce, 10, -1, 0));
      steps.push_back(call(OpKind::AllReduce, 20, -1, 1));
    }
    steps.push_back({.act = Act::sync});
    program.ranks.assign(2, steps);
    std::swap(program.ranks[odd][6], program.ranks[odd][7]);
    program.ranks[odd][7].count = 30;
    const Report report = analyse(execute(program, kLive).run);
    INFO(text_of(report));
    CHECK(blamed_by(report) == std::vector<int32_t>{static_cast<int32_t>(odd)});
    CHECK(text_of(report).find("nothing on file tells") == std::string::npos);
  }
}

// Four ranks reduce in world and then gather in a second communicator, three times; then all but
// rank 0 gather first.
TEST_CASE("where most changed their order nobody is blamed alone for keeping it") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2, 3}, .parent = 0}};
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      Steps both = {call(OpKind::AllReduce, 10, -1, 0), call(OpKind::AllGather, 20, -1, 1)};
      if (step == 3 && r != 0) std::swap(both[0], both[1]);
      for (const Step& one : both) {
        own.push_back(one);
        own.push_back({.act = Act::sync});
      }
    }
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(lead(report).confidence != Confidence::certain);
  CHECK(blamed_by(report) == std::vector<int32_t>{0, 1, 2, 3});
  CHECK(lead(report).summary.find("rank 0 called in another order than ranks 1-3, who changed "
                                  "theirs here") != std::string::npos);
}

TEST_CASE("who receives before a collective in which most wait is named, with both calls") {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    const Step reduce = call(OpKind::Reduce, 512, 0);
    if (r < 2) own = {reduce};
    if (r == 2) own = {reduce, call(OpKind::Send, kLarge, 3)};
    if (r == 3) own = {call(OpKind::Recv, kLarge, 2), reduce};
    own.push_back({.act = Act::sync});
  }
  const Report report = analyse(execute(program, kLive).run);
  INFO(text_of(report));
  CHECK(blamed_by(report) == std::vector<int32_t>{3});
  CHECK(lead(report).summary.find("of sends and receives") == std::string::npos);
  CHECK(lead(report).summary.find("rank 3 called Recv of 1048576 float32 from 2 before Reduce") !=
        std::string::npos);
  for (const Evidence& edge : lead(report).evidence) {
    CHECK(edge.text.find("waiting for ranks 0-2") == std::string::npos);
  }
  CHECK(lead(report).next ==
        "make every rank call the transfer and the collective in the same order");
}

// In each step four ranks exchange, reduce, and exchange again what is of sizes of that step;
// `odd`, in the third step, does not receive from `peer` before it reduces.
Program make_uneven_exchanges(int odd, int peer) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    uint32_t group = 0;
    for (uint64_t step = 0; step < 4; ++step) {
      for (const bool is_first : {true, false}) {
        ++group;
        for (int other = 0; other < 4; ++other) {
          if (other == r) continue;
          const auto size = [&](int from, int to) {
            return static_cast<uint64_t>((to - from + 4) % 4) * kLarge + step;
          };
          own.push_back(call(OpKind::Send, size(r, other), other, 0, group));
          const bool is_left_out = is_first && step == 2 && r == odd && other == peer;
          if (!is_left_out) own.push_back(call(OpKind::Recv, size(other, r), other, 0, group));
        }
        if (is_first) own.push_back(call(OpKind::Reduce, 512 + step, 0));
      }
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("who reduces without a receive is named, not who sends to it as in all steps before") {
  const Report report = analyse(execute(make_uneven_exchanges(2, 3), kLive).run);
  INFO(text_of(report));
  CHECK(blamed_by(report) == std::vector<int32_t>{2});
  CHECK(lead(report).confidence != Confidence::certain);
  CHECK(text_of(report).find("rank 3 called") == std::string::npos);
}

// A sum of all, then three layers of experts on a communicator of the same ranks, in every step. In
// the fourth one rank 2 does `deviation` instead of the experts' calls.
Program make_experts(const Steps& deviation) {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}, {.ranks = {0, 1, 2, 3}, .parent = 0}};
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 5; ++step) {
      own.push_back(call(OpKind::AllReduce, 4));
      own.push_back({.act = Act::sync});
      if (step == 3 && r == 2) {
        own.insert(own.end(), deviation.begin(), deviation.end());
        continue;
      }
      for (int layer = 0; layer < 3; ++layer) {
        own.push_back(call(OpKind::AllGather, 32, -1, 1));
        own.push_back(call(OpKind::ReduceScatter, 32, -1, 1));
      }
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

TEST_CASE("who goes on without the calls of a whole phase is told to have left them out") {
  const Report report = analyse(execute(make_experts({}), kLive).run);
  const Culprit& culprit = check_blames(report, Verdict::missing_call, 2);
  CHECK(culprit.seq == 18u);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).misstep == Misstep::left_out);
  CHECK(says(lead(report).summary, "never made the call AllGather of 32"));
  // The sum that it waits in may be one too many as well.
  CHECK(says(lead(report).summary,
             "or it made AllReduce of 4 float32 (sum), seq 4 of world too "
             "early, or once too often"));
  CHECK(lead(report).next ==
        "look at the branch that decides about this call on that rank; if it makes it later, make "
        "every rank use its communicators in the same order");
}

TEST_CASE("who waits alone in a call of another communicator may have left out what comes first") {
  // No step before has the call.
  const Step odd = call(OpKind::AllReduce, 7, -1, 2);
  Program program = make_experts({odd, {.act = Act::sync}});
  program.comms.push_back({.ranks = {0, 1, 2, 3}, .parent = 0, .child_number = 1});
  for (Steps& own : program.ranks) own.insert(own.begin(), {odd, odd, {.act = Act::sync}});
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, Verdict::deadlock_comms, 2);
  CHECK_FALSE(lead(report).misstep);
  CHECK(says(lead(report).summary, "rank 2 left out what comes first, or called in another order"));
  CHECK(lead(report).next ==
        "look at the branch that decides about the AllGather on rank 2; if it makes that later, "
        "make every rank use its communicators in the same order");
}

// Every rank sums with its row and with its column; in the last step the ranks of `odd` leave out
// their row's sum, or make it behind their column's.
Program make_rows(const std::vector<int>& odd, bool later, bool waits) {
  Program program;
  program.comms = mesh_of_four();
  for (int r = 0; r < 4; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      const Step row = call(OpKind::AllReduce, 8, -1, 1 + r / 2);
      const Step column = call(OpKind::AllReduce, 8, -1, 3 + r % 2);
      const bool is_odd = step == 3 && std::count(odd.begin(), odd.end(), r) != 0;
      if (!is_odd) own.push_back(row);
      own.push_back(column);
      if (is_odd && waits) own.push_back({.act = Act::sync});
      if (is_odd && later) own.push_back(row);
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

TEST_CASE("a circle in which calls may have been left out is told and cured as that, too") {
  // Whether they would make it later is on no file while their hosts wait.
  for (const bool later : {false, true}) {
    CAPTURE(later);
    const Report report = analyse(execute(make_rows({0, 3}, later, true), kLive).run);
    check_names(report, Verdict::deadlock_comms, {0, 3});
    CHECK_FALSE(lead(report).misstep);
    CHECK(says(lead(report).summary, "or left out what comes first: rank 0 made the call"));
    CHECK(lead(report).next ==
          "make every rank use its communicators in the same order; or look at the branch that "
          "decides about the AllReduce on rank 0");
  }
}

TEST_CASE("a circle of calls that all made is cured by their order alone") {
  const Report report = analyse(execute(make_rows({0, 3}, true, false), kLive).run);
  check_names(report, Verdict::deadlock_comms, {0, 3});
  CHECK(lead(report).misstep == Misstep::reordered);
  CHECK_FALSE(says(lead(report).summary, "left out"));
  CHECK(lead(report).next == "make every rank use its communicators in the same order");
}

// A pipeline of so many ranks, and a sum of all behind each of its steps. In the last one the first
// `few` ranks make a micro-batch less than the others.
Program make_pipeline(int ranks, int few) {
  Program program;
  program.comms.emplace_back();
  for (int r = 0; r < ranks; ++r) program.comms[0].ranks.push_back(r);
  for (int r = 0; r < ranks; ++r) {
    Steps& own = program.ranks.emplace_back();
    for (int step = 0; step < 4; ++step) {
      const int batches = step == 3 && r < few ? 2 : 3;
      for (int i = 0; i < batches; ++i) {
        if (r > 0) own.push_back(call(OpKind::Recv, 96, r - 1));
        if (r + 1 < ranks) own.push_back(call(OpKind::Send, 96, r + 1));
      }
      own.push_back(call(OpKind::AllReduce, 8));
      own.push_back({.act = Act::sync});
    }
  }
  return program;
}

const Wait* find_wait(const Finding& finding, const std::vector<int32_t>& ranks) {
  const auto found = std::find_if(finding.waits.begin(), finding.waits.end(),
                                  [&](const Wait& wait) { return wait.ranks == ranks; });
  return found == finding.waits.end() ? nullptr : &*found;
}

TEST_CASE("who waits for a rank of a pipeline that itself waits is listed, with whom for") {
  const Report report = analyse(execute(make_pipeline(5, 2), kLive).run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::p2p_unmatched);
  // Rank 2 waits for rank 1, and those behind it for it.
  for (const int r : {3, 4}) {
    CAPTURE(r);
    const Wait* wait = find_wait(lead(report), {r});
    REQUIRE(wait != nullptr);
    CHECK(wait->for_ranks == std::vector<int32_t>{r - 1});
    CHECK(says(wait->text, fmt::format("rank {} waits in Recv of 96", r)));
  }
  const Wait* sum = find_wait(lead(report), {0, 1});
  REQUIRE(sum != nullptr);
  CHECK(sum->for_ranks == std::vector<int32_t>{2, 3, 4});
  CHECK(lead(report).waits.size() == 3);
}

TEST_CASE("what a circle's evidence tells of who waits for whom is not listed once more") {
  const Report report = analyse(execute(make_rows({0, 3}, true, false), kLive).run);
  CHECK(lead(report).verdict == Verdict::deadlock_comms);
  CHECK(lead(report).waits.empty());
}

}  // namespace circle_test
}  // namespace rollcall::analysis
