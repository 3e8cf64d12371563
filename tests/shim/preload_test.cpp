// The shim preloaded into small programs, in front of a NCCL that does nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace {

struct Outcome {
  int status = -1;
  std::string output;  // stdout and stderr
  std::string log;     // what the recorder was told
};

size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::string read_and_remove(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  unlink(path.c_str());
  return text.str();
}

// Runs a program with the shim in front of it; `timeout` bounds it, whatever happens.
Outcome run(const std::string& command, const std::string& environment = "",
            const char* preload = SHIM_LIBRARY) {
  char log[] = "/tmp/rollcall-shim-log-XXXXXX";
  const int fd = mkstemp(log);
  REQUIRE(fd >= 0);
  close(fd);
  const std::string line = "cd " SHIM_DIRECTORY " && timeout 20 env " + environment +
                           " ROLLCALL_FAKE_LOG=" + log + " LD_PRELOAD=" + preload + " " + command +
                           " 2>&1";
  std::FILE* pipe = popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    outcome.output.append(buffer, got);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.log = read_and_remove(log);
  return outcome;
}

}  // namespace

TEST_CASE("a linked program behaves as without the shim") {
  const Outcome with = run("./shim_linked_user");
  const Outcome without = run("./shim_linked_user", "", "");
  CHECK(with.status == 0);
  CHECK(with.output == "failures 0 calls 2 1 2\n");
  CHECK(without.output == with.output);
  CHECK(without.status == with.status);
  CHECK(without.log.empty());
}

TEST_CASE("a library that looks up what it stands in front of does so before its functions work") {
  const Outcome outcome = run("./shim_linked_user", "", SHIM_LIBRARY ":./libshim_early_lookup.so");
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "failures 0 calls 2 1 2\n");
  CHECK(count_of(outcome.log, "op AllReduce") == 2);
}

TEST_CASE("beside another preloaded library each hears of each call once, in both orders") {
  const std::string other = "./libshim_other_interposer.so";
  const std::string own = SHIM_LIBRARY;
  for (const std::string& preload : {other + ":" + own, own + ":" + other}) {
    INFO(preload);
    const Outcome linked = run("./shim_linked_user", "", preload.c_str());
    CHECK(count_of(linked.log, "op AllReduce") == 2);
    CHECK(count_of(linked.output, "failures 0 calls 2 1 2\n") == 1);
    CHECK(count_of(linked.output, "other counted 2\n") == 1);
    // What is asked for by a handle passes the other library by, with Rollcall and without.
    const Outcome opened = run("./shim_dlopen_user ./one/libnccl.so.2 22809", "", preload.c_str());
    CHECK(count_of(opened.log, "op AllReduce") == 1);
    CHECK(count_of(opened.output, "failed: the call") == 0);
    CHECK(count_of(opened.output, "other counted") == 0);
  }
}

TEST_CASE("each call of a linked program is recorded once, whatever NCCL calls in turn") {
  const std::string log = run("./shim_linked_user").log;
  CHECK(count_of(log, "op AllReduce") == 2);
  CHECK(count_of(log, "op Broadcast count=8 root=1 group=0 flags=10") == 1);
  CHECK(count_of(log, "op Send count=2 root=3 group=1") == 1);
  CHECK(count_of(log, "op GroupEnd") == 1);
  CHECK(count_of(log, "event GetUniqueId") == 1);  // not the one inside InitAll
  CHECK(count_of(log, "event CallFailed result=5 ncclAllReduce: the fake library") == 1);
  CHECK(count_of(log, "comm init_all") == 2);
  CHECK(count_of(log, "nested 6\n") == 1);
  CHECK(count_of(log, "coverage plt\n") == 1);
  CHECK(count_of(log, "meta nccl_version=22809") == 1);
  CHECK(count_of(log, "event ProcessExit") == 1);
}

TEST_CASE("a function of NCCL that Rollcall does not know passes through, unrecorded") {
  const Outcome without = run("./shim_linked_user unknown", "", "");
  const Outcome with = run("./shim_linked_user unknown");
  const Outcome never_called = run("./shim_linked_user");
  CHECK(with.status == 0);
  CHECK(with.output == without.output);
  CHECK(with.status == without.status);
  CHECK(count_of(with.log, "Ponder") == 0);
  // Neither is anything else recorded, or recorded otherwise, for it.
  CHECK(count_of(with.log, "\n") == count_of(never_called.log, "\n"));
  CHECK(count_of(with.log, "op AllReduce") == 2);
}

TEST_CASE("ROLLCALL_ENABLE=0 records nothing and changes nothing") {
  for (const char* off : {"0", "off", "FALSE", "no"}) {
    const Outcome outcome = run("./shim_linked_user", std::string("ROLLCALL_ENABLE=") + off);
    CHECK(outcome.output == "failures 0 calls 2 1 2\n");
    CHECK(outcome.log.empty());
  }
  const Outcome dlopened = run("./shim_dlopen_user one/libnccl.so.2 22809", "ROLLCALL_ENABLE=0");
  CHECK(dlopened.log.empty());
}

TEST_CASE("a program that never calls NCCL leaves nothing") {
  const Outcome outcome = run("/bin/ls -d .");
  CHECK(outcome.status == 0);
  CHECK(outcome.output == ".\n");
  CHECK(outcome.log.empty());
}

TEST_CASE("calls through dlopen and dlsym are recorded and reach the copy that was asked for") {
  const Outcome outcome = run("./shim_dlopen_user one/libnccl.so.2 22809 two/libnccl.so.2 21903");
  CHECK(outcome.status == 0);
  CHECK(outcome.output.empty());
  CHECK(count_of(outcome.log, "op AllReduce count=10") == 2);
  CHECK(count_of(outcome.log, "event CommInitRank") == 2);
  CHECK(count_of(outcome.log, "meta nccl_version=22809") == 1);
  CHECK(count_of(outcome.log, "meta nccl_version=21903") == 1);
  CHECK(count_of(outcome.log, "coverage plt") == 0);
  CHECK(count_of(outcome.log, "coverage dlsym") == 2);
}

TEST_CASE("the dlopen program's own expectations hold without the shim too") {
  const Outcome outcome =
      run("./shim_dlopen_user one/libnccl.so.2 22809 two/libnccl.so.2 21903", "", "");
  CHECK(outcome.status == 0);
  CHECK(outcome.output.empty());
}

TEST_CASE("RTLD_NEXT means next after the caller, for every other symbol") {
  CHECK(run("./shim_next_main", "", "").output == "321\n");
  const Outcome outcome = run("./shim_next_main");
  CHECK(outcome.output == "321\n");
  CHECK(outcome.status == 0);
}

TEST_CASE("a library that is closed and opened again is found again, as often as one likes") {
  const Outcome outcome = run("./shim_reload_user one/libnccl.so.2 two/libnccl.so.2");
  CHECK(outcome.output.empty());
  CHECK(outcome.status == 0);
  CHECK(count_of(outcome.log, "op AllReduce") == 12);
}

TEST_CASE("a library that looks NCCL up in its constructor does not wait for others who do") {
  std::string copies;
  for (const char* name : {"libnccl-a.so", "libnccl-b.so", "libnccl-c.so", "libnccl-d.so"}) {
    std::filesystem::copy_file(SHIM_DIRECTORY "/one/libnccl.so.2",
                               std::string(SHIM_DIRECTORY "/") + name,
                               std::filesystem::copy_options::overwrite_existing);
    copies += std::string(" ./") + name;
  }
  const Outcome outcome = run("./shim_constructor_user ./libshim_constructor.so" + copies);
  CHECK(outcome.output == "done\n");
  CHECK(outcome.status == 0);
}

TEST_CASE("a forked child makes its own first call") {
  const Outcome outcome = run("./shim_linked_user fork");
  CHECK(outcome.output == "failures 0 calls 2 1 2\n");
  CHECK(count_of(outcome.log, "event ProcessExit") >= 2);
  CHECK(count_of(outcome.log, "op AllReduce count=3") == 1);
}

TEST_CASE("a program that ends past its destructors tells the recorder so, once, and ends alike") {
  int status = 41;
  for (const std::string how : {"_exit", "_Exit"}) {
    const Outcome with = run("./shim_linked_user " + how);
    const Outcome without = run("./shim_linked_user " + how, "", "");
    CHECK(without.status == status);
    CHECK(with.status == status++);
    CHECK(with.output == without.output);
    CHECK(count_of(with.log, "event ProcessExit") == 1);
    CHECK(count_of(with.log, "op AllReduce") == 2);
  }
}

TEST_CASE("without a NCCL a call returns an error and says why, and does not recurse") {
  const Outcome outcome = run("./shim_lonely_user");
  CHECK(outcome.status == 2);  // ncclSystemError
  CHECK(count_of(outcome.output, "no loaded NCCL has it") == 1);
}

TEST_CASE("what is said where there is no NCCL ends no program, and is left out where asked for") {
  CHECK(run("./shim_lonely_user unread").status == 2);
  CHECK(run("./shim_lonely_user", "ROLLCALL_VERBOSE=0").output.empty());
}

TEST_CASE("a call left by longjmp does not hide the calls after it") {
  const Outcome outcome = run("./shim_jump_user");
  CHECK(outcome.status == 0);
  CHECK(count_of(outcome.log, "op AllReduce") == 2);
  CHECK(count_of(outcome.log, "nested 0\n") == 1);
}

TEST_CASE("a NCCL linked into the program is reported as not covered, a mere mention is not") {
  const Outcome with_nccl = run("./shim_static_user");
  CHECK(count_of(with_nccl.log, "coverage static_nccl") == 1);
  const Outcome without = run("./shim_mention_user");
  CHECK(count_of(without.log, "coverage static_nccl") == 0);
}
