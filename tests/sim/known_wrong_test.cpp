#include "tests/sim/known_wrong.h"

#include <sstream>
#include <string>

#include "tests/catch.h"

namespace rollcall::sim {
namespace {

KnownWrong known(const std::string& list) {
  std::istringstream text(list);
  return KnownWrong(text);
}

TEST_CASE("a job that is judged wrong as the list has it is no error, nor is a right one beside") {
  KnownWrong seeds = known("# why\n\n7\n");
  seeds.judged(6, false);
  seeds.judged(7, true);
  seeds.judged_all(1, 10);
  CHECK(seeds.contains(7));
  CHECK_FALSE(seeds.contains(6));
  CHECK(seeds.errors().empty());
}

TEST_CASE("a job that is judged wrong and is not on the list is an error") {
  KnownWrong seeds = known("7\n");
  seeds.judged(8, true);
  CHECK(seeds.errors() == "seed 8 is judged wrong\n");
}

TEST_CASE("a job of the list that is judged right has to be removed from it") {
  KnownWrong seeds = known("7\n");
  seeds.judged(7, false);
  CHECK(seeds.errors() == "seed 7 is not judged wrong any more: remove it from the list\n");
}

TEST_CASE("a seed of the list that makes no job is an error where it would have been judged") {
  KnownWrong seeds = known("7\n70\n");
  seeds.judged_all(1, 10);
  CHECK(seeds.errors() == "seed 7 makes no job: remove it from the list\n");
}

TEST_CASE("a line of the list that is no seed is an error") {
  CHECK(known("7 wrong culprit\n").errors() == "\"7 wrong culprit\" is no seed\n");
}

}  // namespace
}  // namespace rollcall::sim
