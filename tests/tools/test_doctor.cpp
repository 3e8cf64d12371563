// `rollcall doctor`: what it finds in the way, and that it finds nothing where nothing is.
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_doctor {

using namespace rollcall::test;

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kLibraries = ROLLCALL_TEST_LIBRARIES;

// What it says of a program, with a run directory of the test's own.
Outcome of_program(const Folder& folder, const std::string& program,
                   std::vector<std::string> environment = {}) {
  environment.push_back("ROLLCALL_DIR=" + (folder / "run"));
  return run_command(folder, {"doctor", "--", program}, environment);
}

// A process of which the kernel says that it has mapped libraries with these names.
std::string preload_of(const Folder& folder, const std::vector<std::string>& names) {
  std::string value;
  for (const std::string& name : names) {
    fs::copy_file(kLibraries + "/librollcall.so", folder / name);
    value += (value.empty() ? "" : ":") + (folder / name);
  }
  return "LD_PRELOAD=" + value;
}

Outcome of_sleeper(const Folder& folder, const std::vector<std::string>& names) {
  const std::string preload = preload_of(folder, names);
  const Started sleeper(folder, {"-c", "echo ready; exec sleep 600"}, {preload}, "/bin/sh");
  REQUIRE(sleeper.says("ready"));
  const std::string pid = std::to_string(sleeper.pid());
  REQUIRE(comes_true([&] { return read_text("/proc/" + pid + "/comm") == "sleep\n"; }));
  const Folder elsewhere;
  return run_command(elsewhere, {"doctor", pid});
}

TEST_CASE("of a program that can be recorded nothing is in the way") {
  const Folder folder;
  const Outcome outcome = of_program(folder, ROLLCALL_PLAIN_JOB);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "takes preloaded libraries"));
  CHECK(contains(outcome.out, "Nothing that was looked at is in the way."));
  CHECK_FALSE(contains(outcome.out, "BAD"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("a program that takes no library is named, with the other way in") {
  const Folder folder;
  const Outcome outcome = of_program(folder, ROLLCALL_STATIC_JOB);
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.out, "is a static executable"));
  CHECK(contains(outcome.out, "NCCL_PROFILER_PLUGIN"));
  CHECK(contains(of_program(folder, ROLLCALL_MUSL_JOB).out, "C library musl"));
  CHECK(contains(of_program(folder, "no-such-program").out, "is not found"));
}

TEST_CASE("a program that has NCCL linked into it is told from one that loads it") {
  const Folder folder;
  const std::string program = folder / "with_nccl";
  fs::copy_file(ROLLCALL_PLAIN_JOB, program);
  std::ofstream(program, std::ios::app) << "NCCL version 2.27.7+cuda12.9";
  const Outcome outcome = of_program(folder, program);
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.out, "has NCCL linked into it"));
  CHECK_FALSE(contains(of_program(folder, ROLLCALL_PLAIN_JOB).out, "has NCCL linked into it"));
  // It looks for that text itself.
  CHECK_FALSE(contains(of_program(folder, ROLLCALL_COMMAND).out, "has NCCL linked into it"));
}

TEST_CASE("settings that keep the job from being recorded are in the way") {
  const Folder folder;
  const Outcome off = of_program(folder, ROLLCALL_PLAIN_JOB, {"ROLLCALL_ENABLE=off"});
  CHECK(off.status == 1);
  CHECK(contains(off.out, "switches recording off"));
  const Outcome absent = of_program(folder, ROLLCALL_PLAIN_JOB, {"LD_PRELOAD=/absent/lib.so"});
  CHECK(absent.status == 1);
  CHECK(contains(absent.out, "/absent/lib.so is preloaded, and cannot be read"));
  const Outcome unclear = of_program(folder, ROLLCALL_PLAIN_JOB, {"ROLLCALL_RING_SLOTS=many"});
  CHECK(unclear.status == 0);
  CHECK(contains(unclear.out, "ROLLCALL_RING_SLOTS=many is not a number"));
}

TEST_CASE("a run directory that cannot be made is in the way") {
  const Folder folder;
  std::ofstream(folder / "file") << "something else";
  const Outcome outcome = run_command(folder, {"doctor", "--", ROLLCALL_PLAIN_JOB},
                                      {"ROLLCALL_DIR=" + (folder / "file/run")});
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.out, "cannot be written to: Not a directory"));
}

TEST_CASE("another profiler plugin is met with the way to have both") {
  const Folder folder;
  const Outcome outcome =
      of_program(folder, ROLLCALL_PLAIN_JOB, {"NCCL_PROFILER_PLUGIN=inspector"});
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "ROLLCALL_PLUGIN_CHAIN=inspector"));
}

TEST_CASE("a process with NCCL and without the recorder is in the way, and why") {
  const Folder folder;
  const Outcome outcome = of_sleeper(folder, {"libnccl.so.2"});
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.out, "/libnccl.so.2 and is not recorded: its LD_PRELOAD is"));
}

TEST_CASE("a process that has loaded the recorder and called nothing is not in the way") {
  const Folder folder;
  const Outcome outcome = of_sleeper(folder, {"librollcall.so", "libnccl.so.2"});
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "librollcall.so is loaded, and nothing is recorded yet"));
}

TEST_CASE("a process without NCCL, and none at all, are told apart") {
  const Folder folder;
  const Outcome without = of_sleeper(folder, {});
  CHECK(without.status == 1);
  CHECK(contains(without.out, "has NCCL loaded"));
  const Outcome none = run_command(folder, {"doctor", "4194304"});
  CHECK(none.status == 2);
  CHECK(contains(none.err, "there is no process 4194304"));
}

TEST_CASE("a directory without a recording, and one that is absent, are told apart") {
  const Folder folder;
  fs::create_directory(folder / "empty");
  const Outcome empty = run_command(folder, {"doctor", "empty"});
  CHECK(empty.status == 1);
  CHECK(contains(empty.out, "there is no ring file"));
  CHECK(run_command(folder, {"doctor", "absent"}).status == 2);
  CHECK(run_command(folder, {"doctor", "empty", "--", "true"}).status == 2);
}

}  // namespace test_doctor
