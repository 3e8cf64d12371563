// Which processes the end of a run ends: all of its job, and no others.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_survivors {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A number of seconds that no other test sleeps, and the processes that sleep so long.
std::string mark(const char* digits) { return digits + std::to_string(getpid()); }
std::vector<pid_t> sleepers_of(const std::string& seconds) {
  std::vector<pid_t> found;
  const std::string line = std::string("sleep") + '\0' + seconds + '\0';
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (read_text(entry.path() / "cmdline") == line) {
      found.push_back(static_cast<pid_t>(std::stol(entry.path().filename())));
    }
  }
  return found;
}
size_t sleepers(const std::string& seconds) { return sleepers_of(seconds).size(); }
void end_sleepers(const std::string& seconds) {
  for (const pid_t pid : sleepers_of(seconds)) kill(pid, SIGKILL);
}
bool come_to(const std::string& seconds, size_t count) {
  return comes_true([&] { return sleepers(seconds) == count; });
}

// The process that outlives the command; 0 where the kernel does not list children.
pid_t guardian_of(pid_t command) {
  const std::string pid = std::to_string(command);
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  pid_t child = 0;
  while (children >> child) {
    // A fork of the command, which the job is no more.
    const std::string line = read_text("/proc/" + std::to_string(child) + "/cmdline");
    if (line.rfind("rollcall", 0) == 0) return child;
  }
  return 0;
}

TEST_CASE("a job that is told to end leaves no process behind, not even in another session") {
  const Folder folder;
  const std::string mark = test_survivors::mark("314159");
  Started started(
      folder, {"run", "--", "sh", "-c", "setsid sleep " + mark + " & echo ready; sleep " + mark});
  REQUIRE(started.says("ready"));
  kill(started.pid(), SIGTERM);
  CHECK(started.finish().status == 128 + SIGTERM);
  CHECK(sleepers(mark) == 0);
}

TEST_CASE("a killed command takes the job with it") {
  const Folder folder;
  const std::string mark = test_survivors::mark("271828");
  Started started(folder, {"run", "-n", "2", "--", "sh", "-c",
                           "setsid sleep " + mark + " & echo ready; sleep " + mark});
  REQUIRE(started.says("ready"));
  kill(started.pid(), SIGKILL);
  CHECK(started.finish().status == 128 + SIGKILL);
  // The guardian works on after its master is gone.
  CHECK(come_to(mark, 0));
}

TEST_CASE("what merely carries the run's id outlives a run that reaches its time limit") {
  const Folder folder;
  const Outcome outcome =
      run_shell(folder,
                "export ROLLCALL_RUN_ID=run7; sleep 600 & other=$!; "
                "\"$ROLLCALL\" run -q -d run --timeout 0.3 -- sleep 600; echo status $?; "
                "kill -0 $other && echo alive; kill $other");
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "status 124\nalive\n");
}

TEST_CASE("two runs of one id on one host do not end each other's jobs") {
  const std::vector<std::string> id = {"ROLLCALL_RUN_ID=run7"};
  const Folder folder;
  Started first(folder,
                {"run", "-q", "-d", "run", "--", "sh", "-c",
                 "echo ready; while [ ! -e over ]; do sleep 0.05; done; exit 5"},
                id);
  REQUIRE(first.says("ready"));
  const Folder other;
  const std::string seconds = mark("161803");
  SECTION("when one reaches its time limit") {
    CHECK(run_command(other, {"run", "-q", "--timeout", "0.3", "--", "sleep", "600"}, id).status ==
          124);
  }
  SECTION("when one is told to end, or killed") {
    const int number = GENERATE(SIGTERM, SIGKILL);
    Started second(other, {"run", "-q", "--", "sleep", seconds}, id);
    REQUIRE(come_to(seconds, 1));
    kill(second.pid(), number);
    CHECK(second.finish().status == 128 + number);
    CHECK(come_to(seconds, 0));
  }
  std::filesystem::create_directory(folder / "over");
  CHECK(first.finish().status == 5);
}

TEST_CASE("a job that has cleared its environment is ended whole") {
  const Folder folder;
  const std::string seconds = mark("141421");
  const std::string job = "setsid sleep " + seconds + " & sleep " + seconds;
  CHECK(run_command(folder, {"run", "-q", "--timeout", "0.5", "--", "env", "-i",
                             "PATH=/bin:/usr/bin", "sh", "-c", job})
            .status == 124);
  CHECK(sleepers(seconds) == 0);
}

TEST_CASE("what the command of --on-verdict has left behind is not the job's") {
  const Folder folder;
  const std::string mark = test_survivors::mark("299792");
  // Its environment is what tells such an orphan: no token, and the folder of a verdict.
  Started started(folder, {"run", "--", "sh", "-c",
                           "(env -u ROLLCALL_JOB_TOKEN ROLLCALL_INCIDENT=x setsid sleep " + mark +
                               " &) ; echo ready; exec sleep 600"});
  REQUIRE(started.says("ready"));
  REQUIRE(come_to(mark, 1));
  kill(started.pid(), SIGTERM);
  CHECK(started.finish().status == 128 + SIGTERM);
  CHECK(sleepers(mark) == 1);
  end_sleepers(mark);
}

TEST_CASE("the end of a run ends the runs inside it, and their jobs") {
  const Folder folder;
  const std::string seconds = mark("173205");
  const int number = GENERATE(SIGTERM, SIGKILL);
  Started outer(folder, {"run", "-q", "--", ROLLCALL_COMMAND, "run", "-q", "--", "sh", "-c",
                         "setsid sleep " + seconds + " & sleep " + seconds});
  REQUIRE(come_to(seconds, 2));
  kill(outer.pid(), number);
  CHECK(outer.finish().status == 128 + number);
  CHECK(come_to(seconds, 0));
}

TEST_CASE("the end of a run inside another ends nothing of the outer one's job") {
  const Folder folder;
  const Outcome outcome =
      run_command(folder,
                  {"run", "-q", "--", "sh", "-c",
                   "sleep 600 & other=$!; setsid sleep 600 & third=$!; "
                   "\"$ROLLCALL\" run -q --timeout 0.3 -- sleep 600; echo status $?; "
                   "kill -0 $other && kill -0 $third && echo alive; kill $other $third; exit 9"},
                  {"ROLLCALL=" ROLLCALL_COMMAND});
  CHECK(outcome.out == "status 124\nalive\n");
  CHECK(outcome.status == 9);
}

TEST_CASE("children that a script had before it became the command are not the job's") {
  const Folder folder;
  const std::string seconds = mark("223606");
  const Outcome outcome =
      run_shell(folder, "sleep " + seconds + " & (sleep " + seconds + " & exec sleep " + seconds +
                            ") & exec \"$ROLLCALL\" run -q --timeout 0.5 -- sh -c "
                            "'setsid sleep 600 & sleep 600'");
  CHECK(outcome.status == 124);
  CHECK(sleepers(seconds) == 3);
  end_sleepers(seconds);
}

TEST_CASE("a process of another user that carries the token is left alone") {
  if (geteuid() != 0) {
    WARN("skipped: needs root");
    return;
  }
  const Folder folder;
  const std::string seconds = mark("244948");
  const std::string other = mark("264575");
  Started started(folder, {"run", "-q", "--", "sh", "-c",
                           "echo $ROLLCALL_JOB_TOKEN >token; echo ready; sleep " + seconds});
  REQUIRE(started.says("ready"));
  const Folder elsewhere;
  run_shell(elsewhere, "export ROLLCALL_JOB_TOKEN=$(cat " + (folder / "token") +
                           "); setsid sleep " + seconds +
                           " & setpriv --reuid=65534 --clear-groups setsid sleep " + other + " &");
  REQUIRE(come_to(seconds, 2));
  REQUIRE(come_to(other, 1));
  kill(started.pid(), SIGKILL);
  CHECK(started.finish().status == 128 + SIGKILL);
  CHECK(come_to(seconds, 0));
  CHECK(sleepers(other) == 1);
  end_sleepers(other);
}

TEST_CASE("the token of a run is its own, behind those of the runs around it") {
  const Folder folder;
  const std::string print = "echo $ROLLCALL_JOB_TOKEN";
  const std::string first = run_command(folder, {"run", "-q", "--", "sh", "-c", print}).out;
  CHECK(first.size() == 33);
  const std::string second = run_command(folder, {"run", "-q", "--", "sh", "-c", print},
                                         {"ROLLCALL_JOB_TOKEN=" + first.substr(0, 32)})
                                 .out;
  CHECK(second.size() == 66);
  CHECK(second.substr(0, 33) == first.substr(0, 32) + ":");
  CHECK(second.substr(33, 32) != first.substr(0, 32));
  const std::string endless = run_command(folder, {"run", "-q", "--", "sh", "-c", print},
                                          {"ROLLCALL_JOB_TOKEN=" + std::string(100'000, 'a')})
                                  .out;
  CHECK(endless.size() == 33);
}

TEST_CASE("a job outlives a command that the OOM killer has taken, up to its time limit") {
  const std::string memory = std::filesystem::exists("/sys/fs/cgroup/memory/tasks")
                                 ? "/sys/fs/cgroup/memory"
                                 : "/sys/fs/cgroup";
  const std::string group = memory + "/rollcall-test-" + std::to_string(getpid());
  std::error_code failure;
  if (geteuid() != 0 || !std::filesystem::create_directory(group, failure)) {
    WARN("skipped: needs root and a memory cgroup");
    return;
  }
  const Folder folder;
  const std::string seconds = mark("282842");
  const bool is_limited = GENERATE(false, true);
  std::vector<std::string> words = {"run", "-q", "--", "sh", "-c", "echo ready; sleep " + seconds};
  if (is_limited) words.insert(words.begin() + 1, {"--timeout", "3"});
  Started started(folder, words);
  REQUIRE(started.says("ready"));
  const pid_t guardian = guardian_of(started.pid());
  const Folder elsewhere;
  const Outcome hog = run_shell(
      elsewhere, "limit=" + group + "/memory.limit_in_bytes; [ -e $limit ] || limit=" + group +
                     "/memory.max; echo 16777216 >$limit && sh -c 'echo $$ >" + group +
                     "/cgroup.procs && exec head -c 300000000 /dev/zero | tail -c 300000000 "
                     ">/dev/null'");
  CHECK(rmdir(group.c_str()) == 0);
  if (!contains(hog.err, "Killed") && hog.status != 137) {
    WARN("skipped: memory is not limited here (" << hog.status << " " << hog.err << ")");
    return;
  }
  kill(started.pid(), SIGKILL);
  CHECK(started.finish().status == 128 + SIGKILL);
  if (is_limited) {
    CHECK(come_to(seconds, 0));
  } else {
    // The guardian has decided when it is gone.
    REQUIRE(guardian > 0);
    CHECK(comes_true([&] { return kill(guardian, 0) != 0; }));
    CHECK(sleepers(seconds) == 1);
    end_sleepers(seconds);
  }
}

}  // namespace test_survivors
