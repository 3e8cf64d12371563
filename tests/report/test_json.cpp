#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "analysis/record/index.h"
#include "report/incident.h"
#include "report/info.h"
#include "report/json.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_json {

using namespace rollcall;

TEST_CASE("the verdict's JSON is the documented schema, byte for byte") {
  CHECK(report::diff_json(test::missing_call_run(), test::missing_call_report()) == R"({
  "schema": "rollcall.diff/2",
  "status": 1,
  "run": {
    "dir": "run",
    "processes": 4,
    "ranks": 4,
    "started": "2023-11-14T22:13:19.995Z",
    "live": true,
    "has_stale_values": false,
    "ends": []
  },
  "findings": [
    {
      "code": "RC-MISSING-CALL",
      "severity": "hang",
      "confidence": "certain",
      "misstep": "left_out",
      "class": "program",
      "summary": "Rank 2 never called AllReduce seq 2 on world; 3 ranks wait in it.",
      "next": "see what rank 2 does now: py-spy dump --pid 102 on node0",
      "culprits": [
        {
          "rank": 2,
          "process": 2,
          "host": "node0",
          "pid": 102,
          "comm": "112233445566778899aabbccddeeff00",
          "comm_name": "world",
          "comm_rank": 2,
          "seq": 2,
          "op": "AllReduce"
        }
      ],
      "victims": {
        "count": 3,
        "ranks": "0-1,3"
      },
      "evidence": [
        {
          "file": "run/node0.102.a.ring",
          "record": "op 2",
          "text": "its last call is seq 1, returned"
        }
      ],
      "follows": [],
      "waits_left_out": 0,
      "consequences": []
    }
  ],
  "incidents": [],
  "comms": [
    {
      "key": "112233445566778899aabbccddeeff00",
      "name": "world",
      "nranks": 4,
      "ranks": "0-3",
      "parent": null,
      "last_common_seq": 1,
      "first_difference_seq": 2
    }
  ],
  "issues": []
}
)");
}

TEST_CASE("what is not known is null in the JSON, never 0 or an empty text") {
  analysis::Report report;
  report.findings.emplace_back();
  report.findings[0].culprits.emplace_back();
  report.findings[0].culprits[0].process = analysis::kNone;  // it left no file
  report.comms.emplace_back();
  const auto json = nlohmann::json::parse(report::diff_json({}, report));
  const auto& culprit = json["findings"][0]["culprits"][0];
  for (const char* key :
       {"rank", "process", "host", "pid", "comm", "comm_name", "comm_rank", "seq", "op"}) {
    INFO(key);
    CHECK(culprit[key].is_null());
  }
  CHECK(json["run"]["started"].is_null());
  CHECK(json["run"]["ranks"].is_null());
  CHECK(json["comms"][0]["last_common_seq"].is_null());
  CHECK(json["comms"][0]["nranks"].is_null());
}

TEST_CASE("what follows from a finding says who waits in what for whom, and carries no code") {
  analysis::Report report = test::missing_call_report();
  analysis::Finding& lead = report.findings[0];
  lead.waits.push_back({.ranks = {4, 5},
                        .for_ranks = {0},
                        .call = "AllReduce of 8 float32 (sum), seq 3 of dp",
                        .comm = CommKey{},
                        .comm_name = "dp",
                        .seq = 3,
                        .text = "ranks 4-5 wait in AllReduce for rank 0"});
  lead.waits_left_out = 7;
  lead.consequences.emplace_back();
  lead.consequences[0].verdict = analysis::Verdict::abort_cascade;
  lead.consequences[0].summary = "ranks 0-1 aborted";
  lead.consequences[0].victims = {0, 1};
  const auto json = nlohmann::json::parse(report::diff_json(test::missing_call_run(), report));
  const auto& finding = json["findings"][0];
  REQUIRE(finding["follows"].size() == 2);
  const auto& wait = finding["follows"][0];
  CHECK(wait["waiting"] == nlohmann::json{{"count", 2}, {"ranks", "4-5"}});
  CHECK(wait["for"] == nlohmann::json{{"count", 1}, {"ranks", "0"}});
  CHECK(wait["call"] == "AllReduce of 8 float32 (sum), seq 3 of dp");
  CHECK(wait["comm_name"] == "dp");
  CHECK(wait["seq"] == 3);
  CHECK(finding["follows"][1]["text"] == "ranks 0-1 aborted");
  CHECK(finding["follows"][1]["call"].is_null());
  for (const auto& next : finding["follows"]) {
    for (const char* key : {"code", "severity", "confidence"}) CHECK_FALSE(next.contains(key));
  }
  CHECK(finding["waits_left_out"] == 7);
  // The field of /1 is still there, and blames nobody for waiting either.
  REQUIRE(finding["consequences"].size() == 2);
  CHECK(finding["consequences"][0]["code"] == "RC-WAITING");
  CHECK(finding["consequences"][0]["severity"] == "info");
  CHECK(finding["consequences"][1]["code"] == "RC-ABORT-CASCADE");
}

TEST_CASE("what the culprits did is a word of its own, and null where nothing tells it") {
  analysis::Report report = test::missing_call_report();
  std::set<std::string> words;
  for (size_t i = 0; i < static_cast<size_t>(analysis::Misstep::Count); ++i) {
    report.findings[0].misstep = static_cast<analysis::Misstep>(i);
    const auto json = nlohmann::json::parse(report::diff_json(test::missing_call_run(), report));
    words.insert(json["findings"][0]["misstep"]);
  }
  CHECK(words == std::set<std::string>{"left_out", "made_more", "not_reached", "other_arguments",
                                       "other_communicator", "other_grouping", "other_operation",
                                       "other_peer", "reordered"});
  report.findings[0].misstep.reset();
  const auto json = nlohmann::json::parse(report::diff_json(test::missing_call_run(), report));
  CHECK(json["findings"][0]["misstep"].is_null());
}

TEST_CASE("a point-to-point culprit has a p2p seq and a peer instead of a seq") {
  analysis::Report report = test::missing_call_report();
  report.findings[0].culprits[0].seq.reset();
  report.findings[0].culprits[0].p2p_seq = 5;
  report.findings[0].culprits[0].peer = 1;
  const auto json = nlohmann::json::parse(report::diff_json(test::missing_call_run(), report));
  const auto& culprit = json["findings"][0]["culprits"][0];
  CHECK(culprit["p2p_seq"] == 5);
  CHECK(culprit["peer"] == 1);
  CHECK(!culprit.contains("seq"));
}

TEST_CASE("broken text of a hostile file still yields JSON that parses") {
  trace::Run run = test::missing_call_run();
  run.processes[0].meta["coverage"] = "\xff\x01";
  run.issues.push_back({"\xfe", "\x80", 0, true});
  CHECK_NOTHROW(nlohmann::json::parse(report::diff_json(run, test::missing_call_report())));
  const std::vector<report::FileSizes> sizes(run.processes.size());
  CHECK_NOTHROW(nlohmann::json::parse(report::info_json(run, sizes)));
}

TEST_CASE("info groups the ranks by version where they differ, and sums what is not on file") {
  trace::Run run = test::missing_call_run();
  run.processes[3].meta["nccl_version"] = "22703";
  run.processes[1].statistics["dropped_off"] = 1234;
  const std::vector<report::FileSizes> sizes(run.processes.size());
  const std::string text = report::info_text(run, sizes);
  CHECK(text.find("NCCL 2.27.3 (rank 3); 2.29.7 (ranks 0-2); CUDA runtime 12.4;") !=
        std::string::npos);
  CHECK(text.find("1,234  calls not recorded: capture had switched itself off") !=
        std::string::npos);
  CHECK(text.find("paused by rollcall ctl") == std::string::npos);
}

TEST_CASE("info names the clock, and the ranks where it is another one") {
  trace::Run run = test::missing_call_run();
  const std::vector<report::FileSizes> sizes(run.processes.size());
  for (trace::Process& process : run.processes) process.clock = "TSC";
  CHECK(report::info_text(run, sizes).find("\nclock      TSC\n") != std::string::npos);
  run.processes[3].clock = "CLOCK_MONOTONIC";
  run.processes[1].clock = "";  // another recorder's file
  const std::string text = report::info_text(run, sizes);
  CHECK(text.find("CLOCK_MONOTONIC (rank 3); TSC (ranks 0,2); ") != std::string::npos);
  const auto json = nlohmann::json::parse(report::info_json(run, sizes));
  CHECK(json["processes"][3]["clock"] == "CLOCK_MONOTONIC");
  CHECK(json["processes"][1]["clock"].is_null());
}

TEST_CASE("info names what the ranks asked the emulator for in vain, where they did") {
  trace::Run run = test::missing_call_run();
  const std::vector<report::FileSizes> sizes(run.processes.size());
  CHECK(report::info_text(run, sizes).find("not in the emulator") == std::string::npos);
  run.processes[2].meta["not_emulated.cudaIpcGetMemHandle"] = "1";
  run.processes[2].meta["not_emulated.cudaGraphicsMapResources"] = "1";
  run.processes[2].meta["not_emulatedX"] = "1";
  const std::string text = report::info_text(run, sizes);
  CHECK(text.find("not in the emulator, and asked for: cudaGraphicsMapResources, "
                  "cudaIpcGetMemHandle (rank 2); nothing (ranks 0-1,3)") != std::string::npos);
  const auto json = nlohmann::json::parse(report::info_json(run, sizes));
  CHECK(json["processes"][2]["not_emulated"].size() == 2);
  CHECK(json["processes"][1]["not_emulated"].empty());
}

TEST_CASE("an incident holds the verdict, its class, and what ranks have of the environment") {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) {
    process.meta = {{"env.NCCL_DEBUG", "WARN"}, {"nccl_version", "22907"}, {"warning", "no"}};
  }
  run.processes[1].meta["env.NCCL_ALGO"] = "Ring";
  run.processes[3].meta["env.NCCL_DEBUG"] = "INFO";
  const analysis::Report report = test::missing_call_report();
  const auto json =
      nlohmann::json::parse(report::incident_json(run, report, 1'700'000'000'000'000'000));
  CHECK(json["schema"] == "rollcall.incident/1");
  CHECK(json["code"] == "RC-MISSING-CALL");
  CHECK(json["class"] == "program");
  CHECK(json["what_follows"].get<std::string>().find("restart repeats it") != std::string::npos);
  CHECK(json["certain"] == true);
  CHECK(json["written"] == "2023-11-14T22:13:20.000Z");
  REQUIRE(json["culprits"].size() == 1);
  CHECK(json["culprits"][0]["host"] == "node0");
  CHECK(json["verdict"] == nlohmann::json::parse(report::diff_json(run, report)));
  const auto& environment = json["environment"];
  CHECK(environment["common"] == nlohmann::json{{"nccl_version", "22907"}});
  CHECK(environment["differing"]["env.NCCL_ALGO"][0]["ranks"] == "1");
  REQUIRE(environment["differing"]["env.NCCL_DEBUG"].size() == 2);
  CHECK(environment["differing"]["env.NCCL_DEBUG"][1]["ranks"] == "0-2");
}

}  // namespace test_json
