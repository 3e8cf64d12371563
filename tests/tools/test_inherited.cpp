// What the command was started with: closed descriptors, ignored signals, a stderr that fails.
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_inherited {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Of the C library's own, which its sigaction() denies. Whether the parent of this test ignores
// them is the parent's affair.
void ignore_library_signals() {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    uint64_t mask;
  } const ignored{SIG_IGN, 0, nullptr, 0};
  for (const int number : {32, 33}) {
    REQUIRE(syscall(SYS_rt_sigaction, number, &ignored, nullptr, sizeof ignored.mask) == 0);
  }
}

TEST_CASE("a job runs to its end whichever standard descriptors are closed") {
  const Folder folder;
  for (const char* closed : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
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

TEST_CASE("a stderr that cannot be written to changes no status") {
  const Folder folder;
  const std::string ring = R"(mkdir -p bad && echo x > bad/a.ring; )";
  for (const char* lost : {"2>&-", "2>/dev/full", "2>closed.pipe"}) {
    INFO(lost);
    // Opened for both directions and then closed on the reading side: writes get SIGPIPE or EPIPE.
    const bool is_pipe = std::string(lost) == "2>closed.pipe";
    const std::string before = is_pipe ? "mkfifo closed.pipe; exec 9<>closed.pipe; " : "";
    const std::string end = is_pipe ? " 2>closed.pipe 9<&-" : " " + std::string(lost);
    const auto status = [&](const std::string& words) {
      return run_shell(folder,
                       "rm -f closed.pipe; " + ring + before + "exec \"$ROLLCALL\" " + words + end)
          .status;
    };
    CHECK(status("run -- sh -c 'exit 7'") == 7);
    CHECK(status("run -n 2 -- sh -c 'exit 7'") == 7);
    CHECK(status("run -- no-such-program") == 127);
    CHECK(status("run --timeout 0.2 -- sleep 600") == 124);
    CHECK(status("diff absent") == 2);
    CHECK(status("dump bad") == 2);
    CHECK(status("ctl status bad") == 2);
    CHECK(status("frobnicate") == 2);
  }
}

TEST_CASE("a job ignores and blocks the signals that it would without the command") {
  const Folder folder;
  const std::string job = "grep -E 'Sig(Ign|Blk)' /proc/self/status";
  sigset_t blocked;
  sigset_t before_test;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  sigprocmask(SIG_BLOCK, &blocked, &before_test);
  ignore_library_signals();
  for (const char* ignored : {"PIPE", "CHLD", "PIPE CHLD HUP INT", ""}) {
    INFO(ignored);
    const std::string before = *ignored == 0 ? "" : "trap '' " + std::string(ignored) + "; ";
    const Outcome alone = run_shell(folder, before + "exec " + job);
    const Outcome recorded = run_shell(folder, before + "exec \"$ROLLCALL\" run -q -- " + job);
    CHECK(recorded.status == 0);
    CHECK(recorded.out == alone.out);
    CHECK(contains(recorded.out, "SigBlk:\t0000000000000800"));
    CHECK(contains(recorded.out, "SigIgn"));
  }
  sigprocmask(SIG_SETMASK, &before_test, nullptr);
}

}  // namespace test_inherited
