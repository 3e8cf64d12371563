// What the culprits did, as programs read it: told by who made the verdict, not by its sentence.
#include <optional>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace misstep_test {

// Four ranks, three steps of two collectives and a wait of the host; then their last call.
Program make_job() {
  Program program;
  program.comms = {{.ranks = {0, 1, 2, 3}}};
  program.ranks.resize(4);
  for (Steps& steps : program.ranks) {
    for (int step = 0; step < 3; ++step) {
      steps.push_back(call(OpKind::Broadcast, 8, 0));
      steps.push_back(call(OpKind::AllReduce, 100));
      steps.push_back({.act = Act::sync});
    }
  }
  return program;
}
constexpr ptrdiff_t kSecondBroadcast = 3;  // index of the step
constexpr ptrdiff_t kSecondAllReduce = 4;

// Of rank 2, whose steps `change` bends.
template <class Change>
void check_misstep(Verdict verdict, std::optional<Misstep> misstep, Change change) {
  Program program = make_job();
  change(program.ranks[2]);
  const Report report = analyse(execute(program, kLive).run);
  check_blames(report, verdict, 2);
  CHECK(lead(report).misstep == misstep);
}

TEST_CASE("of a missing call it is told whether it was left out, or may still come") {
  check_misstep(Verdict::missing_call, Misstep::left_out,
                [](Steps& s) { s.erase(s.begin() + kSecondBroadcast); });
  check_misstep(Verdict::missing_call, Misstep::not_reached,
                [](Steps& s) { s.insert(s.begin() + kSecondAllReduce, Step{.act = Act::stick}); });
}

TEST_CASE("a call that shows as another operation, and behind which all agree, is one more") {
  check_misstep(Verdict::op_mismatch, Misstep::made_more, [](Steps& s) {
    s.insert(s.begin() + kSecondBroadcast, call(OpKind::AllGather, 8));
  });
}

TEST_CASE("what a code says by itself needs no further word from its rule") {
  check_misstep(Verdict::op_mismatch, Misstep::other_operation,
                [](Steps& s) { s[kSecondBroadcast] = call(OpKind::AllGather, 8); });
  check_misstep(Verdict::count_mismatch, Misstep::other_arguments,
                [](Steps& s) { s[kSecondAllReduce].count = 101; });
  check_misstep(Verdict::root_mismatch, Misstep::other_arguments,
                [](Steps& s) { s[kSecondBroadcast].root_or_peer = 1; });
  check_misstep(Verdict::order_mismatch, Misstep::reordered,
                [](Steps& s) { std::swap(s[kSecondBroadcast], s[kSecondAllReduce]); });
}

TEST_CASE("who died or was stopped made no misstep among its calls") {
  check_misstep(Verdict::rank_dead, std::nullopt,
                [](Steps& s) { s.insert(s.begin() + kSecondAllReduce, Step{.act = Act::die}); });
}

TEST_CASE("of a circle in which nothing tells who broke the order no misstep is told") {
  Program program;
  program.comms = {{.ranks = {0, 1}}, {.ranks = {0, 1}}};
  program.ranks = {
      {call(OpKind::AllReduce, 8, -1, 0), {.act = Act::sync}, call(OpKind::AllReduce, 8, -1, 1)},
      {call(OpKind::AllReduce, 8, -1, 1), {.act = Act::sync}, call(OpKind::AllReduce, 8, -1, 0)}};
  const Report report = analyse(execute(program, kLive).run);
  check_names(report, Verdict::deadlock_comms, {0, 1});
  CHECK(lead(report).misstep == std::nullopt);
}

}  // namespace misstep_test
}  // namespace rollcall::analysis
