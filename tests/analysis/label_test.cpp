// Whose number a root or a peer is.
#include "analysis/words/label.h"

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace label_test {

// Calls of rank 3 of the mesh, on the world and on the row and the column that it shares.
std::vector<std::string> calls_of_rank_3(const Steps& steps) {
  Program program;
  program.comms = mesh_of_four();
  program.ranks.assign(4, {});
  program.ranks[3] = steps;
  const Outcome outcome = execute(program, kLive);
  const Index index(outcome.run);
  std::vector<std::string> texts;
  for (const trace::Op& op : outcome.run.processes[3].ops) {
    texts.push_back(call_text(index, 3, op));
  }
  return texts;
}

TEST_CASE(
    "the job's number stands beside a root or a peer that its communicator numbers otherwise") {
  constexpr int kRow = 2;     // ranks 2 and 3
  constexpr int kColumn = 4;  // ranks 1 and 3
  const std::vector<std::string> texts = calls_of_rank_3({
      call(OpKind::Send, 8, 0, kRow, 1),
      call(OpKind::Recv, 8, 0, kColumn, 1),
      call(OpKind::Broadcast, 8, 1, kColumn),
  });
  REQUIRE(texts.size() == 3);
  CHECK(texts[0].ends_with(" to 0 (rank 2)"));
  CHECK(texts[1].ends_with(" from 0 (rank 1)"));
  CHECK(texts[2].ends_with(", root 1 (rank 3)"));
}

TEST_CASE("a root or a peer stands alone where its communicator counts as the job does") {
  const std::vector<std::string> texts = calls_of_rank_3({
      call(OpKind::Send, 8, 0, 0, 1),
      call(OpKind::Recv, 8, 2, 0, 1),
      call(OpKind::Broadcast, 8, 1),
  });
  REQUIRE(texts.size() == 3);
  CHECK(texts[0].ends_with(" to 0"));
  CHECK(texts[1].ends_with(" from 2"));
  CHECK(texts[2].ends_with(", root 1"));
}

TEST_CASE("a call without root or peer is told alike on every communicator") {
  const std::vector<std::string> texts =
      calls_of_rank_3({call(OpKind::AllReduce, 8, -1, 2), call(OpKind::AllReduce, 8)});
  REQUIRE(texts.size() == 2);
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("a peer that left no file has its communicator's number alone") {
  Program program;
  program.comms = mesh_of_four();
  program.ranks.assign(4, {});
  program.ranks[3] = {call(OpKind::Send, 8, 0, 2)};
  Outcome outcome = execute(program, kLive);
  outcome.run.processes.erase(outcome.run.processes.begin() + 2);
  const Index index(outcome.run);
  CHECK(call_text(index, 2, index.op(2, 0)).ends_with(" to 0"));
}

TEST_CASE("numbers are listed by runs, and by steps where that is shorter") {
  CHECK(number_list({}).empty());
  CHECK(number_list({7}) == "7");
  CHECK(number_list({3, 1, 0, 2, 2, 5}) == "0-3,5");
  CHECK(number_list({0, 8, 16, 24}) == "0,8,16,24");
  CHECK(number_list({0, 8, 16, 24, 32}) == "0-32 step 8");
  CHECK(number_list({1, 9, 17, 25, 33, 34, 35, 40}) == "1-33 step 8,34-35,40");
  CHECK(number_list({-2147483647 - 1, 2147483647}) == "-2147483648,2147483647");
}

}  // namespace label_test
}  // namespace rollcall::analysis
