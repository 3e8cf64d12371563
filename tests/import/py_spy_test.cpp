// Stacks of py-spy.
#include <filesystem>
#include <map>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/import/job_words.h"
#include "trace/import/importer.h"

namespace rollcall::trace {
namespace {

std::map<std::string, std::string> said_of(const std::string& sample) {
  std::map<std::string, std::string> said;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ROLLCALL_SAMPLES) + "/py_spy/" + sample)) {
    std::vector<Process> processes;
    std::vector<Issue> issues;
    CHECK(import_file(entry.path(), processes, issues).is_known);
    CHECK(processes.empty());
    REQUIRE(issues.size() == 1);
    said[entry.path().stem()] = issues[0].text;
  }
  return said;
}

TEST_CASE("processes that stand alike are said to in the same words, and the odd one is not") {
  for (const char* sample :
       {"hang_rank2_in_dataloader", "hang_rank2_in_dataloader_native", "hang_rank2_text"}) {
    CAPTURE(sample);
    auto said = said_of(sample);
    REQUIRE(said.size() == 4);
    CHECK(said["pyspy_rank0"] == said["pyspy_rank1"]);
    CHECK(said["pyspy_rank0"] == said["pyspy_rank3"]);
    CHECK(said["pyspy_rank0"] != said["pyspy_rank2"]);
    CHECK(said["pyspy_rank0"].find("train.py:") != std::string::npos);
    CHECK(said["pyspy_rank2"].find("dataloader.py:") != std::string::npos);
  }
}

analysis::Report judged_directory(const std::string& sample) {
  Run run;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ROLLCALL_SAMPLES) + "/py_spy/" + sample)) {
    import_file(entry.path(), run.processes, run.issues, {}, &run.logs);
  }
  return analysis::analyse(run);
}

TEST_CASE("dumps of py-spy alone name the rank that stands elsewhere than in the others' call") {
  for (const char* sample :
       {"hang_rank2_in_dataloader", "hang_rank2_in_dataloader_native", "hang_rank2_text"}) {
    CAPTURE(sample);
    const analysis::Report report = judged_directory(sample);
    const analysis::Finding& lead = report.findings.front();
    CHECK(lead.verdict == analysis::Verdict::missing_call);
    CHECK(lead.confidence == analysis::Confidence::open);
    REQUIRE(lead.culprits.size() == 1);
    CHECK(lead.culprits[0].rank == 2);
    CHECK(lead.victims == std::vector<int32_t>{0, 1, 3});
    CHECK(lead.summary.find("dataloader.py:") != std::string::npos);
  }
}

TEST_CASE("processes that stand alike, or mostly at work, accuse nobody") {
  const auto judged = [](const std::vector<const char*>& functions) {
    Run run;
    for (size_t rank = 0; rank < functions.size(); ++rank) {
      const std::string text = std::string(
                                   "Process 1: python\nPython v3.11.2 (x)\n\nThread 1 "
                                   "(idle): \"MainThread\"\n    ") +
                               functions[rank] + "\n";
      import_bytes("rank" + std::to_string(rank) + ".txt",
                   {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, run.processes,
                   run.issues, &run.logs);
    }
    return analysis::analyse(run).findings.front();
  };
  const char* const waits = "all_reduce (torch/distributed/distributed_c10d.py:9)";
  const char* const works = "forward (model.py:7)";
  CHECK(judged({waits, waits}).verdict == analysis::Verdict::insufficient);
  CHECK(judged({works, works, waits}).verdict == analysis::Verdict::insufficient);
  CHECK(judged({works, works, waits}).culprits.empty());
  CHECK(judged({works, waits, waits}).culprits.size() == 1);
}

TEST_CASE("a dump of py-spy that was cut says that it tells nothing") {
  const std::string text = R"([{"pid": 1, "os_thread_id": 1, "frames": [{"name": "wait")";
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_bytes("pyspy.json", {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
               processes, issues);
  REQUIRE(issues.size() == 1);
  CHECK(issues[0].unusable);
  CHECK(issues[0].text.find("cut off") != std::string::npos);
}

std::string dump(const std::string& place, const std::string& function) {
  return "[2025-10-29 11:25:58 " + place +
         "] Pyspy dump for PID 309:\nProcess 309: sglang::" + place +
         "\nPython v3.12.12 (/usr/bin/python3.12)\n\nThread 309 (active): " +
         "\"MainThread\"\n    " + function + "\n    run (scheduler.py:9)\n\n";
}

std::string described(const std::string& log) { return read_log(log).issues.back().text; }

TEST_CASE("dumps of py-spy that SGLang's processes print into a log are read as stacks") {
  const std::string waits = "all_reduce (torch/distributed/distributed_c10d.py:9)";
  const std::string works = "apply (penaltylib/min_new_tokens.py:78)";
  const std::string late =
      "[2025-10-29 11:25:58 TP3] Watchdog timeout (self.watchdog_timeout=300)\n";
  const std::string all = dump("TP0", waits) + dump("TP1", waits) + dump("TP2", works);
  const Judged odd = judged(all);
  CHECK(odd.verdict == analysis::Verdict::missing_call);
  CHECK(odd.culprits.empty());
  CHECK(holds(odd.summary, "SGLang's TP2 stands in apply (min_new_tokens.py:78)"));
  CHECK(
      holds(described(all), "holds 3 dumps of py-spy: the main thread of SGLang's TP0 stood in "));
  // Words are judged as ever, and a stack alone is told beside them.
  CHECK(holds(judged(late + all).summary, "no forward step ended in time"));
  CHECK(holds(judged(dump("TP6", works) + late).summary,
              "the main thread of SGLang's TP6 stood in apply"));
  CHECK(holds(described(dump("DP1 TP3", works)), "SGLang's DP1 TP3 stood in apply"));
  CHECK(holds(judged(dump("DP1 TP3", works)).summary,
              "SGLang's DP1 TP3 stands in apply (min_new_tokens.py:78)"));
  // It was cut, or py-spy is missing.
  CHECK(
      read_log("[2025-10-29 11:25:58 TP6] Pyspy dump for PID 309:\nProcess 309: x\n").logs.empty());
  CHECK(read_log("Pyspy failed to dump PID 309. Error: /bin/sh: 1: py-spy: not found\n")
            .logs.empty());
}

}  // namespace
}  // namespace rollcall::trace
