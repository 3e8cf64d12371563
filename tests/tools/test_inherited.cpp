// What the command was started with: closed descriptors.
#include "tests/catch.h"
#include "tests/tools/command_line.h"

using namespace rollcall::test;

namespace {
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("a job runs to its end whichever standard descriptors are closed") {
  const Folder folder;
  for (const char* closed : {"<&-", ">&-", "<&- >&-"}) {
    INFO(closed);
    // Long enough for a guardian that kills at once.
    const Outcome outcome = run_shell(
        folder, "\"$ROLLCALL\" run -q -- sh -c 'sleep 0.3; exit 7' " + std::string(closed));
    CHECK(outcome.status == 7);
  }
}

TEST_CASE("a closed stdin or stdout fails in the job as it does without the command") {
  const Folder folder;
  const std::string job = "sh -c 'read line && exit 3; echo text || exit 5' ";
  CHECK(run_shell(folder, "\"$ROLLCALL\" run -q -- " + job + "<&- >&-").status == 5);
  CHECK(run_shell(folder, job + "<&- >&-").status == 5);
}

TEST_CASE("a report for a closed stdout is said to be lost") {
  const Folder folder;
  const Outcome outcome = run_shell(folder, "\"$ROLLCALL\" verdicts >&-");
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "the output could not be written"));
}
