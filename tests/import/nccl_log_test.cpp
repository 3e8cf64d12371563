#include <filesystem>
#include <map>
#include <set>

#include "tests/catch.h"
#include "trace/import/importer.h"

using namespace rollcall;
using namespace rollcall::trace;

namespace {

std::map<int32_t, Process> import_sample(const std::string& name, size_t* issue_count = nullptr) {
  std::vector<Process> processes;
  std::vector<Issue> issues;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ROLLCALL_SAMPLES) + "/nccl_debug/" + name)) {
    import_file(entry.path(), processes, issues);
  }
  if (issue_count != nullptr) *issue_count = issues.size();
  std::map<int32_t, Process> by_rank;
  for (Process& process : processes) by_rank[process.job_rank] = std::move(process);
  return by_rank;
}

// The n-th call line, from 1, on the communicator of four.
const Op& call(const Process& process, size_t number) {
  for (const Op& op : process.ops) {
    if (process.comms[op.comm].nranks == 4 && --number == 0) return op;
  }
  throw std::out_of_range("no such call");
}

}  // namespace

TEST_CASE("a clean log gives every rank the same sequence") {
  size_t issue_count = 1;
  const auto ranks = import_sample("clean", &issue_count);
  REQUIRE(ranks.size() == 4);
  CHECK(issue_count == 4);  // each of the four files says what a log lacks
  for (const auto& [rank, process] : ranks) {
    CAPTURE(rank);
    CHECK(process.comms[0].collectives == 22);
    CHECK(process.comms[0].key == ranks.at(0).comms[0].key);
    CHECK(process.comms[0].rank == rank);
    CHECK_FALSE(process.knowledge.groups);
  }
}

TEST_CASE("children of a split pair up although their lines name no id") {
  const auto ranks = import_sample("clean");
  const auto child = [&](int rank) { return ranks.at(rank).comms.at(1).key; };
  CHECK(child(0) == child(2));
  CHECK(child(1) == child(3));
  CHECK_FALSE(child(0) == child(1));
}

TEST_CASE("arguments that differ on one rank are read as they were printed") {
  CHECK(call(import_sample("count").at(1), 9).count == 18431);
  CHECK(call(import_sample("count").at(0), 9).count == 18432);
  CHECK(call(import_sample("dtype").at(3), 9).datatype == 9);
  CHECK(call(import_sample("redop").at(1), 9).reduction == 2);
  CHECK(call(import_sample("root").at(3), 15).root_or_peer == 1);
  CHECK(call(import_sample("coll").at(2), 9).kind == OpKind::ReduceScatter);
}

TEST_CASE("a send's peer stands in the root field") {
  const auto ranks = import_sample("clean");
  CHECK(call(ranks.at(0), 1).kind == OpKind::Send);
  CHECK(call(ranks.at(0), 1).root_or_peer == 1);
  CHECK(call(ranks.at(0), 2).kind == OpKind::Recv);
  CHECK(call(ranks.at(0), 2).root_or_peer == 3);
}

TEST_CASE("time stamps before the line do not matter") {
  CHECK(import_sample("timestamps").size() == 4);
  CHECK(import_sample("timestamps").at(2).comms[0].collectives == 21);
}

TEST_CASE("ranks that share one stream are told apart, and a torn line is counted once") {
  size_t issue_count = 0;
  const auto ranks = import_sample("interleaved", &issue_count);
  REQUIRE(ranks.size() == 4);
  CHECK(issue_count == 2);  // one of them says what every log lacks
  CHECK(ranks.at(1).comms[0].collectives == 22);
  CHECK(ranks.at(2).comms[0].collectives == 21);
  // Rank 0 lost a line to another process: nothing may be concluded from a call it lacks.
  CHECK_FALSE(ranks.at(0).knowledge.small_calls);
  CHECK(ranks.at(1).knowledge.small_calls);
}

TEST_CASE("a file that is no log and no dump is named as such to who asks for it") {
  std::vector<Process> processes;
  std::vector<Issue> issues;
  const ImportedFile file =
      import_file(std::string(ROLLCALL_SAMPLES) + "/../CMakeLists.txt", processes, issues);
  CHECK(processes.empty());
  CHECK(issues.empty());
  CHECK_FALSE(file.is_known);
  CHECK(why_nothing(file).find("is a text of ") == 0);
  CHECK(why_nothing(file).find(" lines, none of which tells of a hang or an error") !=
        std::string::npos);
}
