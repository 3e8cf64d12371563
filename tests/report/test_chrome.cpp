#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/chrome.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_chrome {

using namespace rollcall;

std::string trace_of(const trace::Run& run) {
  std::string text;
  report::chrome_trace(run, [&](const std::string& piece) {
    text += piece;
    return true;
  });
  return text;
}

// 3 ranks' worth of everything a trace can hold.
trace::Run rich_run() {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) {
    process.ops[0].started_ns = process.ops[0].called_ns + 7'000;
    process.ops[0].finished_ns = process.ops[0].called_ns + 9'000;
    trace::Event event{};
    event.kind = EventKind::CommSplit;
    event.called_ns = test::kStartNs - 500'000;
    event.returned_ns = event.called_ns + 100;
    process.events.push_back(event);
  }
  trace::Op send = run.processes[0].ops[0];
  send.kind = OpKind::Send;
  send.root_or_peer = 1;
  send.ticket = 9;
  run.processes[0].ops.push_back(send);
  send.kind = OpKind::Recv;
  send.root_or_peer = 0;
  run.processes[1].ops.push_back(send);
  return run;
}

TEST_CASE("a trace of two calls is the documented document, byte for byte") {
  trace::Run run = test::missing_call_run();
  run.processes.resize(1);
  run.processes[0].ops.resize(1);
  CHECK(
      trace_of(run) ==
      R"trace({"displayTimeUnit":"ns","otherData":{"recorder":"rollcall","origin_ns":1700000000000000000},"traceEvents":[
{"ph":"M","name":"process_name","pid":0,"args":{"name":"rank 0 node0 pid 100"}},
{"ph":"M","name":"process_sort_index","pid":0,"args":{"sort_index":0}},
{"ph":"M","name":"thread_name","pid":0,"tid":100,"args":{"name":"main (thread 100)"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":100,"args":{"sort_index":0}},
{"ph":"M","name":"thread_name","pid":0,"tid":8388608,"args":{"name":"stream 0x7f00"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":8388608,"args":{"sort_index":2}},
{"ph":"X","cat":"host","name":"AllReduce","pid":0,"tid":100,"ts":0.000,"dur":5.000,"args":{"comm_key":"112233445566778899aabbccddeeff00","comm_rank":0,"comm_nranks":4,"seq":0,"count":1024,"dtype":"float32","bytes":4096,"redop":"sum","stream":"0x7f00","state":"returned","result":"ncclSuccess","in_place":false,"api":"ncclAllReduce","called_ns":1700000000000000000,"returned_ns":1700000000000005000,"ticket":1}},
{"ph":"i","cat":"enqueued","name":"AllReduce","pid":0,"tid":8388608,"ts":0.000,"s":"t","args":{"comm_key":"112233445566778899aabbccddeeff00","comm_rank":0,"comm_nranks":4,"seq":0,"count":1024,"dtype":"float32","bytes":4096,"redop":"sum","stream":"0x7f00","state":"returned","result":"ncclSuccess","in_place":false,"api":"ncclAllReduce","called_ns":1700000000000000000,"returned_ns":1700000000000005000,"ticket":1}}
]}
)trace");
}

TEST_CASE("a slice tells the kernel and its launch") {
  trace::Run run = test::missing_call_run();
  run.processes.resize(1);
  run.processes[0].ops.resize(1);
  run.processes[0].meta["kernel.1"] = "_Z6kernelv";
  run.processes[0].ops[0].kernel = 1;
  run.processes[0].ops[0].launched_ns = test::kStartNs + 7;
  const std::string trace = trace_of(run);
  CHECK(trace.find(R"("kernel":"kernel")") != std::string::npos);
  CHECK(trace.find(R"("launched_ns":1700000000000000007)") != std::string::npos);
}

TEST_CASE("kernel phases are slices inside their operation's, and never longer") {
  trace::Run run = test::missing_call_run();
  run.processes.resize(1);
  trace::Process& process = run.processes[0];
  process.ops.resize(1);
  process.ops[0].started_ns = test::kStartNs + 1'000;
  process.ops[0].finished_ns = test::kStartNs + 2'000;
  process.phases.push_back({.ticket = process.ops[0].ticket, .operations = 1, .ns = {300, 0, 900}});
  const auto json = nlohmann::json::parse(trace_of(run));
  std::vector<std::string> seen;
  for (const auto& event : json["traceEvents"]) {
    if (event.value("cat", "") != "phase") continue;
    seen.push_back(event["name"].get<std::string>() + " " + event["dur"].dump());
  }
  CHECK(seen == std::vector<std::string>{"initial_sync 0.3", "final_sync 0.7"});
}

TEST_CASE("times never go backwards on a track, and every named track has events") {
  const auto json = nlohmann::json::parse(trace_of(rich_run()));
  std::map<std::pair<int64_t, int64_t>, double> latest;
  std::set<std::pair<int64_t, int64_t>> named;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") named.emplace(event["pid"], event["tid"]);
      continue;
    }
    const std::pair<int64_t, int64_t> track(event["pid"], event["tid"]);
    CHECK(event["ts"].get<double>() >= latest[track]);
    latest[track] = event["ts"];
  }
  REQUIRE(latest.size() == 8);  // a thread and a stream for each of four ranks
  for (const auto& [track, time] : latest) CHECK(named.count(track) == 1);
}

TEST_CASE("every arrow has one beginning and one end, bound to slices at its times") {
  const auto json = nlohmann::json::parse(trace_of(rich_run()));
  std::map<int64_t, std::string> phases;
  std::map<int64_t, double> latest;
  std::set<std::string> slices;
  const auto place = [](const auto& event) {
    return event["pid"].dump() + "/" + event["tid"].dump() + "/" + event["ts"].dump();
  };
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X" || event["ph"] == "B") slices.insert(place(event));
  }
  for (const auto& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase != "s" && phase != "t" && phase != "f") continue;
    CHECK(slices.count(place(event)) == 1);
    phases[event["id"]] += phase;
  }
  REQUIRE(phases.size() == 4);  // three collectives and a send with its receive
  unsigned of_all_ranks = 0;
  for (auto& [id, text] : phases) {
    CHECK(std::count(text.begin(), text.end(), 's') == 1);
    CHECK(std::count(text.begin(), text.end(), 'f') == 1);
    of_all_ranks += text.size() == 4 ? 1 : 0;
  }
  CHECK(of_all_ranks == 2);  // the third was never called by rank 2
}

TEST_CASE("a call that never returned is a beginning without an end") {
  const auto json = nlohmann::json::parse(trace_of(test::missing_call_run()));
  std::set<int64_t> open;
  for (const auto& event : json["traceEvents"]) {
    CHECK(event["ph"] != "E");
    if (event["ph"] == "B") open.insert(event["pid"].get<int64_t>());
  }
  CHECK(open == std::set<int64_t>{0, 1, 3});
}

TEST_CASE("two processes that claim one rank are two processes in the trace") {
  trace::Run run = test::missing_call_run();
  run.processes[1].job_rank = 0;
  const auto json = nlohmann::json::parse(trace_of(run));
  std::set<int64_t> pids;
  for (const auto& event : json["traceEvents"]) pids.insert(event["pid"].get<int64_t>());
  CHECK(pids.size() == 4);
}

TEST_CASE("an older attempt is not drawn among the newest") {
  trace::Run run = test::missing_call_run();
  run.processes[1].superseded = true;
  const auto json = nlohmann::json::parse(trace_of(run));
  std::set<int64_t> pids;
  for (const auto& event : json["traceEvents"]) pids.insert(event["pid"].get<int64_t>());
  CHECK(pids == std::set<int64_t>{0, 2, 3});
}

TEST_CASE("an empty run is a trace without events") {
  const auto json = nlohmann::json::parse(trace_of({}));
  CHECK(json["traceEvents"].empty());
}

}  // namespace test_chrome
