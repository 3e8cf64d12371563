// Where a run's files go, and that the job runs when they can go nowhere.
#include <filesystem>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_directories {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t directories_in(const std::string& path) {
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    found += entry.is_directory() ? 1 : 0;
  }
  return found;
}

TEST_CASE("runs without a chosen directory get one each") {
  const Folder folder;
  for (int at = 0; at < 3; ++at)
    CHECK(run_command(folder, {"run", "-q", "--", "true"}).status == 0);
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "rollcall-runs")) {
    runs += entry.is_directory() ? 1 : 0;
  }
  CHECK(runs == 3);
}

TEST_CASE("runs that start at the same moment get a directory each") {
  const Folder folder;
  const Outcome outcome =
      run_shell(folder,
                "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \"$ROLLCALL\" run -q -- echo ran & "
                "done; wait");
  CHECK(outcome.out.size() == 12 * std::string("ran\n").size());
  CHECK(directories_in(folder / "rollcall-runs") == 12);
}

TEST_CASE("a run in the directory of an earlier one is the next attempt in it") {
  const Folder folder;
  const auto start = [&](const char* file) {
    return run_command(folder, {"run", "-d", "run", "--", "sh", "-c",
                                "touch $ROLLCALL_DIR/" + std::string(file) + "; exit 3"});
  };
  CHECK(start("first").status == 3);
  CHECK(start("second").status == 3);
  const Outcome third = start("third");
  CHECK(third.status == 3);
  CHECK(contains(third.err, "set ROLLCALL_DIR=" + (folder / "run/attempt-2") + "\n"));
  for (const char* file : {"run/first", "run/attempt-1/second", "run/attempt-2/third"}) {
    CHECK(std::filesystem::exists(folder / file));
  }
  CHECK(directories_in(folder / "run") == 2);
}

TEST_CASE("a run takes the attempt behind those of an earlier run's launcher") {
  const Folder folder;
  std::filesystem::create_directories(folder / "run/attempt-1");
  CHECK(contains(run_command(folder, {"run", "-d", "run", "--", "true"}).err,
                 "ROLLCALL_DIR=" + (folder / "run/attempt-2") + "\n"));
}

TEST_CASE("an empty directory that a run has taken is not taken by a second one") {
  const Folder folder;
  Started first(folder, {"run", "-d", "run", "--", "sh", "-c",
                         "echo ready; while [ ! -e over ]; do sleep 0.05; done"});
  REQUIRE(first.says("ready"));
  const Folder other;
  const Outcome second = run_command(other, {"run", "-d", folder / "run", "--", "true"});
  CHECK(contains(second.err, "set ROLLCALL_DIR=" + (folder / "run/attempt-1") + "\n"));
  std::filesystem::create_directory(folder / "over");
  CHECK(first.finish().status == 0);
  // It is free again, if nothing has been written.
  std::filesystem::remove(folder / "run/attempt-1");
  CHECK(contains(run_command(other, {"run", "-d", folder / "run", "--", "true"}).err,
                 "set ROLLCALL_DIR=" + (folder / "run") + "\n"));
}

TEST_CASE("ranks that a launcher starts share a directory, and the attempt of a requeued job") {
  const Folder folder;
  const auto start = [&](const char* rank, const char* restarts) {
    return run_command(folder, {"run", "-d", "run", "--", "true"},
                       {"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", std::string("SLURM_PROCID=") + rank,
                        std::string("SLURM_RESTART_COUNT=") + restarts})
        .err;
  };
  const std::string name = "ROLLCALL_DIR=" + (folder / "run");
  std::string ids[2];
  for (const char* rank : {"0", "1"}) {
    const std::string first = start(rank, "0");
    const std::string second = start(rank, "1");
    CHECK(contains(first, name + "\n"));
    CHECK(contains(second, name + "/attempt-1\n"));
    // One run id for all ranks of an attempt, another for the next.
    int attempt = 0;
    for (const std::string& said : {first, second}) {
      const size_t at = said.find("ROLLCALL_RUN_ID=");
      REQUIRE(at != std::string::npos);
      const std::string id = said.substr(at, said.find('\n', at) - at);
      std::string& known = ids[attempt++];
      if (known.empty()) known = id;
      CHECK(id == known);
    }
  }
  CHECK(ids[0] != ids[1]);
}

TEST_CASE("ranks of torchrun are one run, by its number or by where they meet") {
  const Folder folder;
  const auto id_of = [&](const char* job, const char* rank, const char* port) {
    const std::string said =
        run_command(folder, {"run", "-d", "run", "--", "true"},
                    {std::string("TORCHELASTIC_RUN_ID=") + job, std::string("RANK=") + rank,
                     "MASTER_ADDR=127.0.0.1", std::string("MASTER_PORT=") + port})
            .err;
    CHECK(contains(said, "ROLLCALL_DIR=" + (folder / "run") + "\n"));
    const size_t at = said.find("ROLLCALL_RUN_ID=");
    REQUIRE(at != std::string::npos);
    return said.substr(at, said.find('\n', at) - at);
  };
  CHECK(id_of("job7", "0", "1000") == id_of("job7", "1", "2000"));
  CHECK(id_of("job7", "0", "1000") != id_of("job8", "0", "1000"));
  CHECK(id_of("none", "0", "1000") == id_of("none", "1", "1000"));
  CHECK(id_of("none", "0", "1000") != id_of("none", "0", "2000"));
}

TEST_CASE("a job whose record can go nowhere is started all the same, and that is said once") {
  const Folder folder;
  const std::string job = " -- sh -c 'echo $LD_PRELOAD$ROLLCALL_DIR; exit 7'";
  const char* cases[][2] = {
      // A directory in which nobody can make anything stands for full disks and missing rights.
      {"cd /proc/self/fdinfo; \"$ROLLCALL\" run -q", "could not be made"},
      {"\"$ROLLCALL\" run -q -d /proc/self/fdinfo/run", "could not be made"},
      {"touch file; \"$ROLLCALL\" run -q -d file", "is not a directory"},
      {"\"$ROLLCALL\" run -q -d file/run", "could not be made"},
      {"mkdir -p gone; cd gone; rmdir ../gone; \"$ROLLCALL\" run -q", "directory is gone"},
      {"ROLLCALL_LIB_DIR=$PWD/none \"$ROLLCALL\" run -q", "librollcall.so was found in none"},
      {"ROLLCALL_RUN_ID=x \"$ROLLCALL\" run -q -d file", "is not a directory"},
  };
  for (const auto& [command, reason] : cases) {
    INFO(command);
    const Outcome outcome = run_shell(folder, command + job);
    INFO(outcome.err);
    CHECK(outcome.status == 7);
    CHECK(outcome.out == "\n");
    const std::string sentence = "rollcall: the job is started, but not recorded: ";
    CHECK(contains(outcome.err, sentence));
    CHECK(contains(outcome.err, reason));
    CHECK_FALSE(contains(outcome.err, "nothing was recorded"));
    CHECK(outcome.err.find(sentence) == outcome.err.rfind(sentence));
  }
}

TEST_CASE("a time limit holds for a job that is not recorded, too") {
  const Folder folder;
  CHECK(run_command(folder,
                    {"run", "-q", "--timeout", "0.2", "-d", "/proc/none", "--", "sleep", "600"})
            .status == 124);
}

}  // namespace test_directories
