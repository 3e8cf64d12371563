// What Flight Recorder dumps say of groups beside their entries, and whose they are.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "trace/import/importer.h"
#include "trace/shared_identifiers.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;

namespace {

void add(Run& run, const std::string& name, const std::string& text) {
  import_bytes(name, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, run.processes,
               run.issues);
}

struct Dump {
  int rank = 0;
  int enqueued = 0;  // on the group "7"
  std::string description = "TENSOR";
  std::string op = "nccl:all_reduce";
  bool has_entry = true;    // of its last call, which is not complete
  std::string local = "3";  // what the process numbers the group
};

// As Megatron and NVRx write them: only what is active, and the positions of all groups.
std::string text_of(const Dump& dump) {
  const std::string entry = fmt::format(
      R"({{"record_id":5,"pg_id":{},"process_group":["7","{}"],"collective_seq_id":{},"p2p_seq_id":0,)"
      R"("op_id":9,"profiling_name":"{}","time_created_ns":1000,"input_sizes":[[4]],)"
      R"("input_dtypes":["Float"],"output_sizes":[[4]],"output_dtypes":["Float"],)"
      R"("state":"scheduled","is_p2p":false}})",
      dump.local, dump.description, dump.enqueued, dump.op);
  return fmt::format(
      R"({{"version":"2.9","pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"[0, 1, 2, 3]"}},)"
      R"("7":{{"name":"7","desc":"{}","ranks":"[0, 1, 2]"}}}},"pg_status":{{)"
      R"("0":{{"last_enqueued_collective":9,"last_started_collective":-1,"last_completed_collective":9}},)"
      R"("3":{{"last_enqueued_collective":{},"last_started_collective":-1,"last_completed_collective":4}}}},)"
      R"("entries":[{}]}})",
      dump.description, dump.enqueued, dump.has_entry ? entry : "");
}

analysis::Report judge(const std::vector<Dump>& dumps) {
  Run run;
  for (const Dump& dump : dumps) {
    add(run, fmt::format("dump_rank_{}", dump.rank), text_of(dump));
  }
  forget_shared_identifiers(run);
  return analysis::analyse(run);
}

bool accuses(const analysis::Report& report) {
  for (const analysis::Finding& finding : report.findings) {
    if (is_defect(finding)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a rank is behind whose dump has no entries and a lower position") {
  const analysis::Report report = judge({{.rank = 0, .enqueued = 6},
                                         {.rank = 1, .enqueued = 6},
                                         {.rank = 2, .enqueued = 5, .has_entry = false}});
  CHECK(report.findings.front().verdict == Verdict::missing_call);
  CHECK(report.findings.front().confidence == Confidence::likely);
  REQUIRE(report.findings.front().culprits.size() == 1);
  CHECK(report.findings.front().culprits.front().rank == 2);
  CHECK(report.findings.front().culprits.front().seq == 6);
}

TEST_CASE("equal positions accuse nobody") {
  CHECK_FALSE(accuses(judge({{.rank = 0, .enqueued = 6},
                             {.rank = 1, .enqueued = 6},
                             {.rank = 2, .enqueued = 6, .has_entry = false}})));
}

TEST_CASE("positions of a group in which ranks transfer something are not compared") {
  // Each rank counts its own transfers.
  CHECK_FALSE(accuses(judge({{.rank = 0, .enqueued = 6, .op = "nccl:send 0->1"},
                             {.rank = 1, .enqueued = 6},
                             {.rank = 2, .enqueued = 5, .has_entry = false}})));
  CHECK_FALSE(
      accuses(judge({{.rank = 0, .enqueued = 6, .description = "PIPELINE_MODEL_PARALLEL_GROUP"},
                     {.rank = 1, .enqueued = 6, .description = "PIPELINE_MODEL_PARALLEL_GROUP"},
                     {.rank = 2,
                      .enqueued = 5,
                      .description = "PIPELINE_MODEL_PARALLEL_GROUP",
                      .has_entry = false}})));
}

TEST_CASE("positions are not used where the entries contradict the order of groups") {
  CHECK_FALSE(accuses(judge({{.rank = 0, .enqueued = 6, .local = "0"},
                             {.rank = 1, .enqueued = 6, .local = "0"},
                             {.rank = 2, .enqueued = 5, .local = "0"}})));
}

TEST_CASE("a dump's rank is what stands behind the word rank in its name") {
  constexpr std::pair<const char*, int32_t> kNames[] = {{"dump_rank2_attempt_1", 2},
                                                        {"fr_rank_2_v3.json", 2},
                                                        {"x/_dump_1", 1},
                                                        {"trace.2", 2},
                                                        {"nccl-rank=1-job3", 1}};
  for (const auto& [name, rank] : kNames) {
    Run run;
    add(run, name, text_of({}));
    CAPTURE(name);
    REQUIRE(run.processes.size() == 1);
    CHECK(run.processes[0].job_rank == rank);
  }
}

TEST_CASE("a rank that is in none of a dump's groups is not the dump's") {
  Run run;
  add(run, "dump_rank_9", text_of({}));
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].job_rank == -1);
  CHECK(run.issues.front().text.find("does not tell its rank") != std::string::npos);
}

TEST_CASE("of two dumps of one rank the older is left out, and named") {
  Run run;
  add(run, "dump_rank_1_attempt_1", text_of({.enqueued = 6}));
  add(run, "dump_rank_1_attempt_2", text_of({.enqueued = 7}));
  const size_t before = run.issues.size();
  forget_shared_identifiers(run);
  CHECK(run.processes[0].superseded + run.processes[1].superseded == 1);
  REQUIRE(run.issues.size() == before + 1);
  CHECK(run.issues.back().text.find("a second dump of rank 1") != std::string::npos);
}
