// The table of operations, as people and programs get it.
#include <nlohmann/json.hpp>

#include "report/stats.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace rollcall {
namespace test_stats {

statistics::OperationRow timed_row() {
  return {.comm = test::kWorldKey,
          .comm_name = "world",
          .nranks = 4,
          .kind = OpKind::AllReduce,
          .bytes_from = 4096,
          .bytes_to = 4096,
          .calls = 12,
          .timed = 8,
          .median_ns = 20'000,
          .p99_ns = 35'500,
          .median_bandwidth = statistics::Bandwidth{.algorithm_gbps = 2.5, .bus_gbps = 3.75}};
}

TEST_CASE("the table of operations has a line per row, with times and speeds") {
  const std::string text = report::stats_text(test::missing_call_run(), {timed_row()});
  INFO(text);
  CHECK(text.find("world (4)") != std::string::npos);
  for (const char* word : {"AllReduce", "4.0 KiB", "12", "8", "20.0", "35.5", "2.50", "3.75"}) {
    CHECK(text.find(word) != std::string::npos);
  }
  CHECK(text.find("nccl-tests") != std::string::npos);
}

TEST_CASE("what was not timed is a dash in the text, null for programs, and the text says why") {
  statistics::OperationRow row = timed_row();
  row.timed = 0;
  row.median_ns = row.p99_ns = std::nullopt;
  row.median_bandwidth = std::nullopt;
  const std::string text = report::stats_text(test::missing_call_run(), {row});
  CHECK(text.find(" -\n") != std::string::npos);
  CHECK(text.find("ROLLCALL_GPU_TIMING=off") != std::string::npos);
  const auto json = nlohmann::json::parse(report::stats_json(test::missing_call_run(), {row}));
  CHECK(json["schema"] == "rollcall.stats/1");
  REQUIRE(json["operations"].size() == 1);
  const auto& operation = json["operations"][0];
  CHECK(operation["calls"] == 12);
  CHECK(operation["median_ns"].is_null());
  CHECK(operation["busbw_gbps"].is_null());
}

TEST_CASE("sizes that are written alike and are not the same are told in bytes") {
  statistics::OperationRow row = timed_row();
  row.bytes_from = 16'384;
  const auto text = [&row] { return report::stats_text(test::missing_call_run(), {row}); };
  row.bytes_to = 16'384;
  CHECK(text().find("16.0 KiB ") != std::string::npos);
  row.bytes_to = 16'388;
  CHECK(text().find("16384 - 16388 B") != std::string::npos);
  row.bytes_to = 32'768;
  CHECK(text().find("16.0 KiB - 32.0 KiB") != std::string::npos);
}

TEST_CASE("what there is to know of the files is in the table for programs") {
  trace::Run run = test::missing_call_run();
  run.issues = {{.file = "a.ring", .text = "was cut off"}};
  const auto json = nlohmann::json::parse(report::stats_json(run, {timed_row()}));
  REQUIRE(json["issues"].size() == 1);
  CHECK(json["issues"].dump().find("was cut off") != std::string::npos);
}

TEST_CASE("times that hold the host's launch are told of, and none where none do") {
  statistics::OperationRow row = timed_row();
  const auto text = [&row] { return report::stats_text(test::missing_call_run(), {row}); };
  CHECK(text().find("launch on the host") == std::string::npos);
  row.with_launch = 1;
  CHECK(text().find("1 of ") != std::string::npos);
  CHECK(text().find(" times hold a part of NCCL's launch on the host") != std::string::npos);
}

TEST_CASE("where no call was timed, stats says whether times were wanted") {
  statistics::OperationRow row = timed_row();
  row.timed = 0;
  trace::Run run = test::missing_call_run();
  CHECK(report::stats_text(run, {row}).find("ROLLCALL_GPU_TIMING=off") != std::string::npos);
  run.processes[0].meta["gpu_timing"] = "off (no CUDA driver)";
  const std::string text = report::stats_text(run, {row});
  CHECK(text.find("GPUs were to be timed") != std::string::npos);
  CHECK(text.find("ROLLCALL_GPU_TIMING=off") == std::string::npos);
}

TEST_CASE("kernel phases are summed up by communicator, with the rank that waits least") {
  trace::Run run = test::missing_call_run();
  CHECK(report::stats_text(run, {timed_row()}).find("kernel phases") == std::string::npos);
  for (size_t at : {0, 2}) {
    run.processes[at].comms[0].phases = {.operations = 4,
                                         .ns = {at == 0 ? 40'000u : 0u, 50'000, 0}};
  }
  const std::string text = report::stats_text(run, {timed_row()});
  INFO(text);
  CHECK(text.find("kernel phases") != std::string::npos);
  CHECK(text.find("28.6 %") != std::string::npos);
  CHECK(text.find("71.4 %") != std::string::npos);
  CHECK(text.find("rank 2, 0.0 us") != std::string::npos);
  const auto json = nlohmann::json::parse(report::stats_json(run, {timed_row()}));
  run.processes[0].comms[0].phases.ns[0] = 0;  // nobody waits
  CHECK(report::stats_text(run, {timed_row()}).find("rank 2, 0.0 us") == std::string::npos);
  run.processes[2].superseded = true;
  CHECK(nlohmann::json::parse(report::stats_json(run, {}))["kernel_phases"].size() == 1);
  REQUIRE(json["kernel_phases"].size() == 2);
  CHECK(json["kernel_phases"][0]["rank"] == 0);
  CHECK(json["kernel_phases"][0]["phases_ns"]["initial_sync"] == 40'000);
  CHECK(json["kernel_phases"][1]["operations"] == 4);
}

TEST_CASE("the links of a run with network steps are in both, and of no other run") {
  trace::Run run = test::missing_call_run();
  CHECK(report::stats_text(run, {timed_row()}).find("over the network") == std::string::npos);
  CHECK(nlohmann::json::parse(report::stats_json(run, {}))["links"].empty());
  for (const size_t rank : {0, 1}) {
    trace::NetworkChannel& channel = run.processes[rank].channels.emplace_back();
    channel.comm = 0;
    channel.peer = static_cast<int32_t>(rank + 1);
    channel.is_send = true;
    channel.operations_started = 2;
    channel.operations_done = 1;
    channel.steps = 4;
    channel.bytes = 4096;
    channel.wait_ns[static_cast<size_t>(ChannelWait::send_network)] = rank == 0 ? 1000 : 4000;
  }
  const std::string text = report::stats_text(run, {timed_row()});
  INFO(text);
  CHECK(text.find("sends over the network") != std::string::npos);
  CHECK(text.find("receives over the network") == std::string::npos);
  const auto json = nlohmann::json::parse(report::stats_json(run, {}));
  REQUIRE(json["links"].size() == 2);
  CHECK(
      json["links"][0].dump() ==
      R"({"bytes":4096,"channels":1,"comm":"112233445566778899aabbccddeeff00","comm_name":"world",)"
      R"("direction":"send","longest_wait":"send_network","mean_waits_ns":{)"
      R"("send_gpu":0.0,"send_network":1000.0,"send_peer":0.0},"network_to_median":4.0,)"
      R"("nranks":4,"operations_done":1,"operations_started":2,"peer":2,"rank":1,"steps":4,)"
      R"("waits_ns":{"send_gpu":0,"send_network":4000,"send_peer":0}})");
}

TEST_CASE("of a newest attempt without operations it is said that older ones had some") {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) process.superseded = true;
  const std::string text = report::stats_text(run, {});
  CHECK(text.find("of older ones did") != std::string::npos);
  CHECK(text.find("of this run called no operation") == std::string::npos);
}

TEST_CASE("a run without operations says so") {
  const std::string text = report::stats_text(test::missing_call_run(), {});
  CHECK(text.find("no operation") != std::string::npos);
}

}  // namespace test_stats
}  // namespace rollcall
