// Lines of PyTorch's watchdog that several ranks wrote at the same time.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

using namespace rollcall;
using namespace rollcall::trace;

TEST_CASE("two lines that ranks wrote into each other are both read") {
  const std::string one = gave_up(2);
  // Torn anywhere behind the words that say what it is.
  for (size_t at = one.find("caught") + 6; at + 1 < one.size(); at += 9) {
    const Run run = read_log(one.substr(0, at) + gave_up(1) + "step 4\n");
    CAPTURE(one.substr(0, at));
    REQUIRE(run.logs.size() == 1);
    const std::vector<Saying>& sayings = run.logs[0].sayings;
    REQUIRE(sayings.size() == 2);
    CHECK(sayings[0].rank == 2);
    CHECK(sayings[1].rank == 1);
    CHECK(sayings[1].seq == 41);
    CHECK(sayings[1].line == 1);
  }
}

TEST_CASE("a rank that another one writes about speaks no line of its own") {
  const Run run =
      read_log("[rank2]: ValueError: bad answer of [rank1]: retry, or [rank1] is gone\n");
  REQUIRE(run.logs.size() == 1);
  REQUIRE(run.logs[0].sayings.size() == 1);
  CHECK(run.logs[0].sayings[0].rank == 2);
}

TEST_CASE("a line into which thousands of others were written is read") {
  std::string line;
  for (int i = 0; i < 6000; ++i) line += "[rank1]:[E";
  const Run run = read_log("[rank2]:[E" + line + gave_up(1).substr(10));
  REQUIRE(run.logs.size() == 1);
  REQUIRE(run.logs[0].sayings.size() == 1);
  CHECK(run.logs[0].sayings[0].rank == 1);
}
