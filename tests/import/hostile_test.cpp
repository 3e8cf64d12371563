// Numbers in other recorders' files that no job has.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "tests/catch.h"
#include "trace/import/importer.h"
#include "trace/import/pickle.h"

namespace rollcall::trace {
namespace {

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::vector<Process> import_log(const std::string& text) {
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_bytes("a.log", bytes_of(text), processes, issues);
  return processes;
}

std::string log_of(const std::string& ranks, const std::string& root) {
  return fmt::format(
      "node1:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank {} nranks {} cudaDev 0 busId 1 "
      "commId "
      "0x7 - Init START\n"
      "node1:1:1 [0] NCCL INFO Broadcast: opCount 0 sendbuff 0x1 recvbuff 0x1 count 4 datatype 7 "
      "op "
      "0 root {} comm 0x1 [nranks={}] stream 0x1\n",
      0, ranks, root, ranks);
}

TEST_CASE("more ranks than a job can have, and roots beyond them, are unknown") {
  const std::vector<Process> usual = import_log(log_of("4", "3"));
  REQUIRE(usual.size() == 1);
  REQUIRE(usual[0].ops.size() == 1);
  CHECK(usual[0].comms[0].nranks == 4);
  CHECK(usual[0].comms[0].rank == 0);
  CHECK(usual[0].ops[0].root_or_peer == 3);
  for (const std::string number : {"2147483647", "1048577", "99999999999"}) {
    CAPTURE(number);
    const std::vector<Process> processes = import_log(log_of(number, number));
    REQUIRE(processes.size() == 1);
    REQUIRE(processes[0].ops.size() == 1);
    CHECK(processes[0].comms[0].nranks == -1);
    CHECK(processes[0].ops[0].root_or_peer == -1);
  }
}

TEST_CASE("a report of RAS that speaks of a million ranks in each line costs no more than a few") {
  std::string text = "NCCL version 2.30.7 compiled with CUDA 13.0\n\nJob summary\n";
  for (int group = 0; group < 100; ++group) {
    text += fmt::format("{:5} 1 1 4 {} 4   RUNNING      OK\n", group, kRanksMax);
  }
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_bytes("ras.txt", bytes_of(text), processes, issues);
  CHECK(processes.size() == 1 << 18);
  REQUIRE(issues.size() == 1);
  CHECK(issues[0].text.find("more ranks than 262144") != std::string::npos);
}

TEST_CASE("a pickle of more values than a dump has is refused") {
  // One value, and each of two bytes brings it again from the memo.
  std::string text = "\x80\x04](N\x94";
  text.reserve(text.size() + 2 * kPlainValuesMax);
  for (size_t i = 0; i < kPlainValuesMax; ++i) text.append("h\0", 2);
  text += "e.";
  const PickleResult result = read_pickle(bytes_of(text));
  CHECK(result.root == nullptr);
  CHECK(result.refused);
  CHECK(result.error.find("more values than") != std::string::npos);
}

}  // namespace
}  // namespace rollcall::trace
