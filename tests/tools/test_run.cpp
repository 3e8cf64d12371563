#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_run {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the job's output and status pass through, and the run directory is named") {
  const Folder folder;
  const Outcome outcome =
      run_command(folder, {"run", "-d", "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"});
  CHECK(outcome.status == 7);
  CHECK(outcome.out == "out\n");
  CHECK(contains(outcome.err, "\nerr\n"));
  CHECK(contains(outcome.err, "set ROLLCALL_DIR=" + (folder / "run")));
  CHECK(contains(outcome.err, "LD_PRELOAD="));
}

TEST_CASE("a job that a signal ends gives 128 and the signal") {
  const Folder folder;
  CHECK(run_command(folder, {"run", "-q", "--", "sh", "-c", "kill -SEGV $$"}).status ==
        128 + SIGSEGV);
}

TEST_CASE("ranks get the variables that torchrun sets") {
  const Folder folder;
  const Outcome outcome =
      run_command(folder, {"run", "-q", "-n", "3", "-d", "run", "--", "sh", "-c",
                           "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR"});
  CHECK(outcome.status == 0);
  for (const char* line : {"0 0 3 3 127.0.0.1\n", "1 1 3 3 127.0.0.1\n", "2 2 3 3 127.0.0.1\n"}) {
    CHECK(contains(outcome.out, line));
  }
}

TEST_CASE("an existing LD_PRELOAD stays in front of the recorder") {
  const Folder folder;
  const std::string own = std::string(ROLLCALL_TEST_LIBRARIES) + "/librollcall.so";
  const Outcome outcome = run_command(folder, {"run", "-q", "--", "sh", "-c", "echo $LD_PRELOAD"},
                                      {"LD_PRELOAD=libc.so.6"});
  CHECK(outcome.out == "libc.so.6:" + own + "\n");
}

TEST_CASE("a program that cannot be started gives the shell's status and leaves no directory") {
  const Folder folder;
  const Outcome absent = run_command(folder, {"run", "-d", "run", "--", "no-such-program"});
  CHECK(absent.status == 127);
  CHECK(contains(absent.err, "no-such-program could not be started"));
  CHECK(!std::filesystem::exists(folder / "run"));
  CHECK(run_command(folder, {"run", "-d", "run", "--", "/etc/passwd"}).status == 126);
}

TEST_CASE("a rank that dies is named while the others go on") {
  const Folder folder;
  const Outcome outcome =
      run_command(folder, {"run", "-n", "2", "--", "sh", "-c",
                           "[ $RANK = 1 ] && kill -KILL $$; "
                           "until grep -q 'is still running' stderr; do sleep 0.05; done; "
                           "echo survived"});
  CHECK(outcome.status == 128 + SIGKILL);
  CHECK(outcome.out == "survived\n");
  CHECK(contains(outcome.err, "rank 1 (pid "));
  CHECK(contains(outcome.err, "was ended by signal 9 (Killed)"));
  CHECK(contains(outcome.err, "1 rank is still running"));
}

TEST_CASE("signals reach the job") {
  const Folder folder;
  Started started(folder,
                  {"run", "--", "sh", "-c",
                   "trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done"});
  REQUIRE(started.says("ready"));
  kill(started.pid(), SIGUSR1);
  const Outcome outcome = started.finish();
  CHECK(outcome.status == 5);
  CHECK(contains(outcome.out, "got"));
}

TEST_CASE("a job that outlives its time limit is ended with status 124") {
  const Folder folder;
  const Outcome outcome =
      run_command(folder, {"run", "--timeout", "0.3", "--", "sh", "-c", "sleep 600"});
  CHECK(outcome.status == 124);
  CHECK(contains(outcome.err,
                 "rollcall: the time limit of 0.3 s is over; ending the job. No verdict: nothing "
                 "was recorded. A job that waits in its rendezvous for a rank has not called NCCL "
                 "yet.\n"));
  CHECK_FALSE(contains(outcome.err, "The verdict before that"));
  CHECK_FALSE(contains(outcome.err, "holds no recording"));
}

TEST_CASE("a job that never called NCCL is said to have recorded nothing") {
  const Folder folder;
  const Outcome outcome = run_command(folder, {"run", "--", "true"});
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.err, "nothing was recorded"));
  CHECK(contains(outcome.err, "most likely no process called NCCL"));
}

TEST_CASE("an attempt that never called NCCL is not told the verdict of an earlier one") {
  const Folder folder;
  const std::string synth =
      "\"$ROLLCALL\" synth -o run/attempt-0 --ranks 2 --ops 20 --fault missing-call@1 && "
      "\"$ROLLCALL\" diff run --sentence";
  const Outcome earlier = run_shell(folder, synth);
  CHECK(contains(earlier.out, "RC-MISSING-CALL"));
  const std::vector<std::string> elastic = {"TORCHELASTIC_RUN_ID=job", "RANK=0",
                                            "TORCHELASTIC_MAX_RESTARTS=1",
                                            "TORCHELASTIC_RESTART_COUNT=1"};
  const Outcome outcome = run_command(folder, {"run", "-d", "run", "--", "false"}, elastic);
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.err, "nothing was recorded in " + (folder / "run/attempt-1")));
  CHECK_FALSE(contains(outcome.err, "RC-MISSING-CALL"));
  // In one directory, without a number for the launcher's attempt.
  const Outcome beside = run_command(folder, {"run", "-d", "run/attempt-0", "--", "false"},
                                     {"TORCHELASTIC_RUN_ID=job", "RANK=0"});
  CHECK(contains(beside.err,
                 "nothing was recorded in " + (folder / "run/attempt-0") + " by this run"));
  CHECK_FALSE(contains(beside.err, "RC-MISSING-CALL"));
}

TEST_CASE("the verdict on a job whose launcher starts it again names the attempt") {
  const Folder folder;
  const std::string synth =
      "\"$ROLLCALL\" run -d run -- sh -c '\"$ROLLCALL\" synth -o $ROLLCALL_DIR/attempt-0 --ranks 2 "
      "--ops 20 --fault missing-call@1; exit 3'";
  const Outcome outcome = run_shell(folder, synth);
  CHECK(outcome.status == 3);
  CHECK(contains(outcome.err, "RC-MISSING-CALL"));
  CHECK(contains(outcome.err, "(of attempt-0, the newest on file)"));
}

TEST_CASE("a run id that the user gives counts beside a preloaded recorder") {
  const Folder folder;
  const std::string preload =
      std::string("LD_PRELOAD=") + ROLLCALL_TEST_LIBRARIES + "/librollcall.so";
  const Outcome given =
      run_command(folder, {"run", "--", "true"}, {preload, "ROLLCALL_RUN_ID=given"});
  CHECK(contains(given.err, "set ROLLCALL_RUN_ID=given\n"));
  // Within another run's job it is that one's.
  const Outcome nested =
      run_command(folder, {"run", "-q", "--", ROLLCALL_COMMAND, "run", "--", "true"},
                  {"ROLLCALL_RUN_ID=given"});
  CHECK(contains(nested.err, "set ROLLCALL_RUN_ID="));
  CHECK_FALSE(contains(nested.err, "set ROLLCALL_RUN_ID=given\n"));
}

TEST_CASE("a job without a record is told why where that can be known") {
  const Folder folder;
  const Outcome gone = run_command(folder, {"run", "-q", "-d", "gone", "--", "rmdir", "gone"});
  CHECK(gone.status == 0);
  CHECK(contains(gone.err, (folder / "gone") + " is gone"));
  const Outcome disabled =
      run_command(folder, {"run", "-q", "--", "true"}, {"ROLLCALL_ENABLE=off"});
  CHECK(contains(disabled.err, "ROLLCALL_ENABLE=off switches recording off"));
  const Outcome still = run_command(folder, {"run", "-q", "--", ROLLCALL_STATIC_JOB});
  CHECK(contains(still.err, "probably because " ROLLCALL_STATIC_JOB " is a static executable"));
  for (const Outcome& outcome : {gone, disabled, still}) {
    CHECK_FALSE(contains(outcome.err, "no process called NCCL"));
  }
}

TEST_CASE("a ROLLCALL variable that nothing reads is told of once, with the name that was meant") {
  const Folder folder;
  const std::vector<std::string> environment = {
      "ROLLCALL_HISTROY=0",          "ROLLCALL_COFFEE=black",     "ROLLCALL_HISTORY=0",
      "ROLLCALL_EMULATE_QUIET=1",    "ROLLCALL_E2E_KEEP=1",       "ROLLCALL_SKIP_SETUP=1",
      "ROLLCALL_TORCH_PYTHON=/none", "ROLLCALL_TORCH12_PYTHON=x", "ROLLCALL_RUN_ID=1f"};
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "-q", "-d", "run", "--", "true"}, {"config"}}) {
    const Outcome outcome = run_command(folder, words, environment);
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    const std::string typo = "ROLLCALL_HISTROY is set, but no such variable is known";
    CHECK(contains(outcome.err, "rollcall: " + typo));
    CHECK(contains(outcome.err, "ROLLCALL_HISTORY was probably meant.\n"));
    CHECK(contains(outcome.err, "rollcall: ROLLCALL_COFFEE is set"));
    CHECK(outcome.err.find(typo) == outcome.err.rfind(typo));
    size_t told = 0;
    for (size_t at = 0; (at = outcome.err.find(" is set, but", at)) != std::string::npos; ++at) {
      ++told;
    }
    CHECK(told == 2);
  }
}

TEST_CASE("a setuid program is said to be out of reach, another user's file alone is not") {
  // Only root can give a file away.
  if (geteuid() != 0) {
    WARN("skipped: needs root");
    return;
  }
  const Folder folder;
  const std::string program = folder / "other";
  std::filesystem::copy_file("/bin/true", program);
  REQUIRE(chown(program.c_str(), 65534, 65534) == 0);
  CHECK_FALSE(contains(run_command(folder, {"run", "-q", "--", program}).err, "setuid"));
  REQUIRE(chmod(program.c_str(), 04755) == 0);
  const Outcome outcome = run_command(folder, {"run", "-q", "--", program});
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.err, program + " is setuid or setgid, so nothing can be put in front"));
  CHECK(contains(outcome.err, "probably because " + program + " is setuid or setgid"));
}

TEST_CASE("a static program is said to be out of reach before it starts, and runs all the same") {
  const Folder folder;
  const Outcome outcome = run_command(folder, {"run", "-q", "--", ROLLCALL_STATIC_JOB});
  CHECK(outcome.status == 5);
  CHECK(contains(outcome.err, "rollcall: " ROLLCALL_STATIC_JOB " is a static executable"));
  CHECK_FALSE(contains(run_command(folder, {"run", "-q", "--", "true"}).err, "static executable"));
}

TEST_CASE("a program with the CUDA runtime inside is said to be beyond the emulator") {
  const Folder folder;
  for (const char* name : {"librollcall.so", "libcuda.so.1", "libcudart.so.11.0", "libcudart.so.12",
                           "libcudart.so.13", "libnccl.so.2", "libnvidia-ml.so.1"}) {
    std::filesystem::copy_file(ROLLCALL_TEST_LIBRARIES "/librollcall.so", folder / name);
  }
  const std::string sentence = "contains the CUDA runtime (it was linked statically)";
  const std::vector<std::string> here = {"ROLLCALL_LIB_DIR=" + folder.path()};
  const auto run = [&](const char* program) {
    return run_command(folder, {"run", "-q", "--emulate", "--", program}, here);
  };
  const Outcome with_runtime = run(ROLLCALL_CUDA_JOB);
  CHECK(with_runtime.status == 0);
  CHECK(contains(with_runtime.err, sentence));
  CHECK_FALSE(contains(run("/bin/true").err, sentence));
  // On a real GPU the recorder does not care.
  CHECK_FALSE(
      contains(run_command(folder, {"run", "-q", "--", ROLLCALL_CUDA_JOB}, here).err, sentence));
}

TEST_CASE(
    "a program that a library in front of it would end is started without, and that is said") {
  const Folder folder;
  const std::string not_recorded = "rollcall: the job is started, but not recorded: ";
  const auto expect_bare = [&](const std::string& program, const char* reason,
                               const std::string& named) {
    INFO(program);
    const Outcome outcome = run_command(folder, {"run", "-q", "--", program});
    CHECK(outcome.status == 6);
    CHECK(outcome.out == "nothing\n");
    CHECK(contains(outcome.err, not_recorded + named + " " + reason));
  };
  const char* thread_sanitizer = "is built with ThreadSanitizer";
  expect_bare(ROLLCALL_MUSL_JOB, "is a program for the C library musl", ROLLCALL_MUSL_JOB);
  expect_bare(ROLLCALL_TSAN_JOB, thread_sanitizer, ROLLCALL_TSAN_JOB);
  expect_bare(ROLLCALL_STATIC_TSAN_JOB, thread_sanitizer, ROLLCALL_STATIC_TSAN_JOB);
  // Behind a script's first line, a link and `env` it is the same program.
  std::filesystem::create_symlink(ROLLCALL_MUSL_JOB, folder / "linked");
  for (const std::string line : {"#!" ROLLCALL_MUSL_JOB "\n", "#! /usr/bin/env -S A=b linked\n"}) {
    std::ofstream(folder / "script") << line;
    std::filesystem::permissions(folder / "script", std::filesystem::perms::owner_all);
    const Outcome outcome = run_shell(folder, "PATH=$PWD:$PATH; \"$ROLLCALL\" run -q -- ./script");
    CHECK(outcome.status == 6);
    CHECK(outcome.out == "nothing\n");
    CHECK(contains(outcome.err, "is a program for the C library musl"));
  }
  const Outcome plain = run_command(folder, {"run", "-q", "--", ROLLCALL_PLAIN_JOB});
  CHECK(plain.status == 6);
  CHECK(plain.out == std::string(ROLLCALL_TEST_LIBRARIES) + "/librollcall.so\n");
  CHECK_FALSE(contains(plain.err, not_recorded));
}

}  // namespace test_run
