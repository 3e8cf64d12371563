// Processes that drive several GPUs, and how GPUs are timed, as people and programs read of them.
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "report/chrome.h"
#include "report/dump.h"
#include "report/info.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace rollcall {
namespace test_gpus {

using nlohmann::json;

json trace_of(const trace::Run& run) {
  std::string text;
  report::chrome_trace(run, [&](const std::string& piece) {
    text += piece;
    return true;
  });
  return json::parse(text);
}

std::string info_of(const trace::Run& run) {
  return report::info_text(run, std::vector<report::FileSizes>(run.processes.size()));
}

json info_json_of(const trace::Run& run) {
  return json::parse(report::info_json(run, std::vector<report::FileSizes>(run.processes.size())));
}

std::vector<json> dump_of(const trace::Process& process) {
  std::string text;
  report::dump_process(process, [&](const std::string& lines) {
    text += lines;
    return true;
  });
  std::vector<json> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(json::parse(text.substr(at, text.find('\n', at) - at)));
  }
  return lines;
}

trace::Event destroy_of(uint32_t comm) {
  return {.kind = EventKind::CommDestroy, .called_ns = test::kStartNs, .comm = comm, .text = ""};
}

TEST_CASE("each GPU of a process is a process of the trace, named by its rank and device") {
  const json trace = trace_of(test::several_gpus_run());
  std::map<int64_t, std::string> names;
  std::map<int64_t, std::set<int64_t>> comm_ranks;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event.value("cat", "") != "host") continue;
    comm_ranks[event["pid"]].insert(event["args"]["comm_rank"].get<int64_t>());
  }
  CHECK(names == std::map<int64_t, std::string>{{0, "rank 0 (GPU 0) node0 pid 100"},
                                                {1, "rank 1 (GPU 1) node0 pid 100"},
                                                {2, "rank 2 (GPU 0) node0 pid 102"},
                                                {3, "rank 3 (GPU 1) node0 pid 102"}});
  CHECK(comm_ranks == std::map<int64_t, std::set<int64_t>>{{0, {0}}, {1, {1}}, {2, {2}}, {3, {3}}});
  CHECK(trace["otherData"]["ranks_are"] ==
        "those of the communicator that all 4 GPUs of 2 processes are in");
}

TEST_CASE("of the threads of a process a GPU's trace has those that called for it") {
  std::map<int64_t, std::set<int64_t>> threads;
  const json trace = trace_of(test::several_gpus_run());
  for (const json& event : trace["traceEvents"]) {
    const bool is_thread = event["name"] == "thread_name" && event["tid"] < 1'000'000;
    if (is_thread) threads[event["pid"]].insert(event["tid"].get<int64_t>());
  }
  CHECK(threads ==
        std::map<int64_t, std::set<int64_t>>{{0, {100}}, {1, {101}}, {2, {102}}, {3, {103}}});
}

TEST_CASE("info tells the ranks and GPUs of a process that drives several, and what they are") {
  trace::Run run = test::several_gpus_run();
  run.processes[1].meta["nccl_version"] = "22703";
  const std::string text = info_of(run);
  INFO(text);
  CHECK(text.find("\nrank  GPU  host   pid  ") != std::string::npos);
  CHECK(text.find("\n0-1   0-1  node0  100  ") != std::string::npos);
  CHECK(text.find("\n2-3   0-1  node0  102  ") != std::string::npos);
  CHECK(
      text.find("\nranks      those of the communicator that all 4 GPUs of 2 processes are in\n") !=
      std::string::npos);
  CHECK(text.find("2.27.3 (ranks 2-3); 2.29.7 (ranks 0-1)") != std::string::npos);
  const json info = info_json_of(run);
  REQUIRE(info["processes"].size() == 2);
  CHECK(info["processes"][1]["rank"] == 1);  // as the launcher numbers processes
  CHECK(info["processes"][1]["gpus"] ==
        json::parse(R"([{"rank":2,"device":0},{"rank":3,"device":1}])"));
  CHECK(info["ranks_are"] == "those of the communicator that all 4 GPUs of 2 processes are in");
}

TEST_CASE("info says how the GPUs are timed, what the driver refused, and what is not known") {
  trace::Run run = test::missing_call_run();
  CHECK(info_of(run).find("GPU times") == std::string::npos);
  CHECK(info_of(run).find("not known of the GPUs") == std::string::npos);
  CHECK(info_json_of(run)["processes"][0]["gpu_timing"].is_null());
  for (trace::Process& process : run.processes) {
    process.meta["gpu_timing"] = "events";
    process.meta["gpu_words"] = "gpu";
  }
  run.processes[1].meta["gpu_fault"] = "cuEventRecord answered 201";
  run.processes[1].statistics["gpu_sampled_out"] = 1'234;
  const std::string text = info_of(run);
  INFO(text);
  CHECK(text.find("events; words written by: gpu (rank") != std::string::npos);
  CHECK(text.find("gpu; refused: cuEventRecord answered 201 (rank 1)") != std::string::npos);
  CHECK(text.find("\nWhat is not known of the GPUs\n         1,234  ") != std::string::npos);
  CHECK(text.find("What is not on file") == std::string::npos);
  CHECK(info_json_of(run)["processes"][1]["gpu_fault"] == "cuEventRecord answered 201");
}

TEST_CASE("a process with one GPU beside one with several has a rank and a GPU as well") {
  trace::Run run = test::several_gpus_run();
  run.processes[1] = test::missing_call_run().processes[2];
  run.processes[1].job_rank = 1;
  run.processes[1].comms[0].device = 7;
  CHECK(info_of(run).find("\n2     7    node0  102  ") != std::string::npos);
  run.processes[1].comms[0].device = -1;
  CHECK(info_of(run).find("\n2     -    node0  102  ") != std::string::npos);
  CHECK(info_json_of(run)["processes"][1]["gpus"] == json::parse(R"([{"rank":2,"device":null}])"));
}

TEST_CASE("where each process drives one GPU, nothing is said of GPUs") {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) process.comms[0].device = 0;
  CHECK(info_of(run).find("GPU") == std::string::npos);
  CHECK(info_of(run).find("\nranks ") == std::string::npos);
  const json info = info_json_of(run);
  CHECK_FALSE(info.contains("ranks_are"));
  CHECK_FALSE(info["processes"][0].contains("gpus"));
  const json trace = trace_of(run);
  CHECK_FALSE(trace["otherData"].contains("ranks_are"));
  CHECK(trace.dump().find("GPU") == std::string::npos);
}

TEST_CASE("an event of one of several ranks in a process tells which, and no other event does") {
  trace::Process process = test::several_gpus_run().processes[1];
  process.events = {destroy_of(0), destroy_of(1), destroy_of(kCommUnknown)};
  std::vector<json> ranks;
  for (const json& line : dump_of(process)) {
    if (line["type"] == "event") ranks.push_back(line.value("comm_rank", json()));
  }
  CHECK(ranks == std::vector<json>{2, 3, nullptr});
  process = test::missing_call_run().processes[1];
  process.events = {destroy_of(0)};
  for (const json& line : dump_of(process)) {
    if (line["type"] == "event") CHECK_FALSE(line.contains("comm_rank"));
  }
}

}  // namespace test_gpus
}  // namespace rollcall
