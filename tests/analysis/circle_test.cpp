// Ranks that wait for each other in a circle: who is named, and what is quoted for it.
#include <algorithm>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace {

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

}  // namespace
}  // namespace rollcall::analysis
