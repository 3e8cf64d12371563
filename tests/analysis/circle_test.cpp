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

}  // namespace
}  // namespace rollcall::analysis
