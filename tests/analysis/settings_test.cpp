// What two runs are said to differ in before they call anything, and what is left out.
#include "comparison/settings.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace rollcall::comparison {
namespace settings_test {

using Meta = std::map<std::string, std::string>;

trace::Process process_with(const Meta& meta, const char* host, int ranks_in_it = 1) {
  trace::Process process;
  process.host = host;
  for (const auto& [key, value] : meta) process.meta[key] = value;
  for (int rank = 0; rank < ranks_in_it; ++rank) {
    trace::Comm& world = process.comms.emplace_back();
    world.key = {1, 2};
    world.rank = rank;
  }
  return process;
}

trace::Run run_of(std::vector<trace::Process> processes) {
  trace::Run run;
  run.processes = std::move(processes);
  return run;
}

std::string told(const trace::Run& before, const trace::Run& after) {
  std::string text;
  for (const SettingDifference& one : compare_settings(before, after)) {
    text += one.name + ": " + one.before + " -> " + one.after + "\n";
  }
  return text;
}

TEST_CASE("versions come before variables, and ranks before hosts") {
  const trace::Run before = run_of({process_with(
      {{"nccl_version", "22809"}, {"env.NCCL_ALGO", "Ring"}, {"cmdline", "train 1"}}, "a")});
  const trace::Run after = run_of(
      {process_with({{"nccl_version", "23003"}, {"env.NCCL_ALGO", "Tree"}, {"cmdline", "train 1"}},
                    "a"),
       process_with({{"nccl_version", "23003"}, {"env.NCCL_ALGO", "Tree"}, {"cmdline", "train 1"}},
                    "b")});
  CHECK(told(before, after) ==
        "nccl_version: 22809 -> 23003\nNCCL_ALGO: Ring -> Tree\nranks: 1 -> 2\nhosts: a -> a, b\n");
  CHECK(told(before, before).empty());
}

TEST_CASE("a variable that one run does not have is told with nothing for it") {
  CHECK(told(run_of({process_with({}, "a")}),
             run_of({process_with({{"env.NCCL_P2P_DISABLE", "1"}}, "a")})) ==
        "NCCL_P2P_DISABLE:  -> 1\n");
}

TEST_CASE("what is never the same in two runs is no difference") {
  const auto with = [](const std::string& value) {
    return run_of({process_with({{"env.ROLLCALL_DIR", value},
                                 {"env.ROLLCALL_RUN_ID", value},
                                 {"env.NCCL_DEBUG_FILE", value},
                                 {"env.HOME", value},
                                 {"conf", "/etc/rollcall.conf: ROLLCALL_DIR=/scratch/" + value}},
                                "a")});
  };
  CHECK(told(with("1"), with("2")).empty());
}

TEST_CASE("a process with several GPUs counts as so many ranks") {
  CHECK(told(run_of({process_with({}, "a", 8)}), run_of({process_with({}, "a")})) ==
        "ranks: 8 -> 1\n");
}

TEST_CASE("command lines that differ from rank to rank say nothing about the run") {
  const trace::Run before =
      run_of({process_with({{"cmdline", "t 0"}}, "a"), process_with({{"cmdline", "t 1"}}, "a")});
  const trace::Run after =
      run_of({process_with({{"cmdline", "u 0"}}, "a"), process_with({{"cmdline", "u 1"}}, "a")});
  CHECK(told(before, after).empty());
}

}  // namespace settings_test
}  // namespace rollcall::comparison
