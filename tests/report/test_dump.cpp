#include <nlohmann/json.hpp>
#include <sstream>

#include "report/dump.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_dump {

using namespace rollcall;

std::vector<std::string> dump_lines(const trace::Process& process) {
  std::string all;
  report::dump_process(process, [&](const std::string& lines) {
    all += lines;
    return true;
  });
  std::vector<std::string> lines;
  std::istringstream stream(all);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("a process is dumped as run, comm, ops and stats, byte for byte") {
  const std::vector<std::string> lines = dump_lines(test::missing_call_run().processes[2]);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] ==
        R"({"type":"run","schema":"rollcall.dump/1","file":"run/node0.102.a.ring","host":"node0",)"
        R"("pid":102,"job_rank":2,"started_ns":1699999999995000000,"versions":{"nccl":"2.29.7",)"
        R"("cuda":"12.4","driver":null,"rollcall":"0.1.0"},"coverage":["plt","dlsym"],)"
        R"("run_id":null,"recorder":"rollcall","liveness":"running","liveness_evidence":null,)"
        R"("heartbeat_ns":null,"exited_ns":null,"meta":{"coverage":"plt,dlsym",)"
        R"("cuda_runtime_version":"12040","nccl_version":"22907","rollcall_version":"0.1.0"}})");
  CHECK(lines[2] ==
        R"({"type":"op","pid":102,"job_rank":2,"comm":"112233445566778899aabbccddeeff00",)"
        R"("comm_rank":2,"seq":0,"p2p_seq":null,"op":"AllReduce","count":1024,"dtype":"float32",)"
        R"("redop":"sum","root":null,"peer":null,"stream":"0x7f00","thread":102,"group":null,)"
        R"("graph":null,"api":"ncclAllReduce","result":0,"state":"returned",)"
        R"("called_ns":1700000000000020000,"returned_ns":1700000000000025000,"started_ns":null,)"
        R"("finished_ns":null,"frame":null,"ticket":1,"caller":null,"in_place":false,)"
        R"("from":"ring"})");
  CHECK(lines[4].find(R"("type":"stats","pid":102,"recorded":2,"dropped":{"dropped_off":0})") !=
        std::string::npos);
}

TEST_CASE("a position that nobody knows is null in the dump") {
  trace::Process process = test::missing_call_run().processes[0];
  process.ops[0].kind = OpKind::Send;
  process.ops[1].kind = OpKind::Send;
  process.ops[1].flags |= kOpSeqUnknown;
  size_t seen = 0;
  for (const std::string& line : dump_lines(process)) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] != "op") continue;
    ++seen;
    if (json["ticket"] == process.ops[0].ticket) CHECK(json["p2p_seq"] == process.ops[0].seq);
    if (json["ticket"] == process.ops[1].ticket) CHECK(json["p2p_seq"].is_null());
  }
  CHECK(seen == process.ops.size());
}

TEST_CASE("the kernel and its launch are in the dump where they are on record, and only there") {
  trace::Process process = test::missing_call_run().processes[0];
  process.meta["kernel.1"] = "_Z6kernelv";
  process.ops[0].kernel = 1;
  process.ops[0].launched_ns = test::kStartNs + 7;
  for (const std::string& line : dump_lines(process)) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] != "op") continue;
    const bool is_first = json["ticket"] == process.ops[0].ticket;
    CHECK(json.contains("kernel") == is_first);
    CHECK(json.contains("launched_ns") == is_first);
    if (is_first) CHECK(json["kernel"] == "kernel");
  }
}

TEST_CASE("kernel phases are in the dump where they are on record, and only there") {
  trace::Process process = test::missing_call_run().processes[0];
  process.phases.push_back({.ticket = process.ops[0].ticket, .operations = 1, .ns = {7, 8, 9}});
  process.comms[0].phases = {.operations = 3, .ns = {70, 80, 90}};
  for (const std::string& line : dump_lines(process)) {
    const auto json = nlohmann::json::parse(line);
    const bool is_first = json["type"] == "op" && json["ticket"] == process.ops[0].ticket;
    const bool is_comm = json["type"] == "comm";
    CHECK(json.contains("phases_ns") == (is_first || is_comm));
    CHECK(json.contains("phased_operations") == is_comm);
    if (is_first) CHECK(json["phases_ns"]["final_sync"] == 9);
    if (is_comm) CHECK(json["phases_ns"]["initial_sync"] == 70);
  }
}

TEST_CASE("bytes that the library did not tell are null in the line of a channel") {
  trace::Process process = test::missing_call_run().processes[0];
  trace::NetworkChannel channel;
  channel.steps = 5;
  process.channels = {channel, {}};
  const std::vector<std::string> lines = dump_lines(process);
  CHECK(nlohmann::json::parse(lines[2])["bytes"].is_null());
  CHECK(nlohmann::json::parse(lines[3])["bytes"] == 0);  // no step, nothing moved
}

TEST_CASE("the sums of a channel are a line, with what it waits for if it does") {
  trace::Process process = test::missing_call_run().processes[0];
  trace::NetworkChannel channel;
  channel.comm = 0;
  channel.peer = 1;
  channel.channel = 3;
  channel.is_send = true;
  channel.waiting = ChannelWait::send_peer;
  channel.waiting_since_ns = test::kStartNs;
  channel.operations_started = 2;
  channel.operations_done = 1;
  channel.steps = 5;
  channel.bytes = 4096;
  channel.wait_ns[static_cast<size_t>(ChannelWait::send_network)] = 77;
  process.channels = {channel, {}};
  const std::vector<std::string> lines = dump_lines(process);
  CHECK(lines[2] ==
        R"({"type":"channel","pid":100,"job_rank":0,"comm":"112233445566778899aabbccddeeff00",)"
        R"("comm_rank":0,"peer":1,"channel":3,"direction":"send","operations_started":2,)"
        R"("operations_done":1,"steps":5,"bytes":4096,"waits_ns":{"send_gpu":0,)"
        R"("send_peer":0,"send_network":77},"waiting":"send_peer",)"
        R"("waiting_since_ns":1700000000000000000})");
  CHECK(lines[3] ==
        R"({"type":"channel","pid":100,"job_rank":0,"comm":null,"comm_rank":null,"peer":null,)"
        R"("channel":0,"direction":"recv","operations_started":0,"operations_done":0,"steps":0,)"
        R"("bytes":0,"waits_ns":{"recv_network":0,"recv_flush":0,"recv_gpu":0},)"
        R"("waiting":null,"waiting_since_ns":null})");
}

TEST_CASE("an event is dumped under the name of its NCCL function") {
  trace::Process process = test::missing_call_run().processes[0];
  trace::Event event{};
  event.kind = EventKind::CommAbort;
  event.called_ns = test::kStartNs;
  event.text = "broken \xff text";
  process.events.push_back(event);
  event.kind = EventKind::CaptureOff;
  process.events.push_back(event);
  const std::vector<std::string> lines = dump_lines(process);
  const auto first = nlohmann::json::parse(lines[lines.size() - 3]);
  CHECK(first["name"] == "ncclCommAbort");
  CHECK(first["comm"].is_null());
  CHECK(first["text"] == "broken ? text");
  CHECK(nlohmann::json::parse(lines[lines.size() - 2])["name"] == "CaptureOff");
}

TEST_CASE("a dump stops when nobody reads it any more") {
  trace::Process process = test::missing_call_run().processes[0];
  for (int at = 0; at < 10000; ++at) process.ops.push_back(process.ops[0]);
  int pieces = 0;
  report::dump_process(process, [&](const std::string&) {
    ++pieces;
    return false;
  });
  CHECK(pieces == 1);
}

TEST_CASE("an algorithm and a protocol of a newer recorder are dumped by their numbers") {
  trace::Process process = test::missing_call_run().processes[0];
  process.ops.resize(2);
  process.ops[0].method = method_of(2, 3);
  process.ops[1].method = method_of(12, 14);
  std::vector<std::string> methods;
  for (const std::string& line : dump_lines(process)) {
    const auto json = nlohmann::json::parse(line);
    if (json["type"] != "op") continue;
    methods.push_back(json["algorithm"].get<std::string>() + "/" +
                      json["protocol"].get<std::string>());
  }
  CHECK(methods == std::vector<std::string>{"RING/SIMPLE", "unknown 12/unknown 14"});
}

}  // namespace test_dump
