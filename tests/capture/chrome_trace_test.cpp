// The trace that is written while the job runs: what it says, and that it can be read cut off.
#include "core/capture/chrome_trace.h"

#include <sys/syscall.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/clock.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"
#include "tests/file_bytes.h"

namespace rollcall {
namespace chrome_trace_test {

using nlohmann::json;
using test::ended_well;
using test::file_bytes;
using test::in_own_process;
using test::TemporaryDirectory;

// The end of the JSON object that starts at `at`; nothing when the text ends before it.
std::optional<size_t> end_of_object(std::string_view text, size_t at) {
  int depth = 0;
  bool in_string = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return at + 1;
    }
  }
  return std::nullopt;
}

// As a viewer reads it: an array of objects, whose end may be missing anywhere. Nothing when there
// is something else between the objects, or an object is no JSON.
std::optional<std::vector<json>> read_as_viewer(std::string_view text) {
  std::vector<json> events;
  if (text.empty()) return events;
  if (text[0] != '[') return std::nullopt;
  for (size_t at = 1; at < text.size();) {
    if (text[at] != '{') {
      if (text[at] != ',' && text[at] != '\n') return std::nullopt;
      ++at;
      continue;
    }
    const auto end = end_of_object(text, at);
    if (!end) return events;
    json event = json::parse(text.substr(at, *end - at), nullptr, false);
    if (event.is_discarded()) return std::nullopt;
    events.push_back(std::move(event));
    at = *end;
  }
  return events;
}

struct Traced {
  std::string text;
  std::vector<json> events;
  test::RingContents ring;
};

Traced trace_of(const TemporaryDirectory& directory, const std::function<void()>& body) {
  REQUIRE(ended_well(in_own_process(directory.path(), [&] {
    setenv("ROLLCALL_CHROME_TRACE", "1", 1);
    set_fake_clock(1'000'000, 1'001);
    body();
    capture::flush_at_exit();
  })));
  Traced traced;
  traced.text = file_bytes(directory.files(".trace.json").at(0));
  const auto events = read_as_viewer(traced.text);
  REQUIRE(events);
  traced.events = *events;
  traced.ring = test::read_ring(directory.files(".ring").at(0));
  return traced;
}

char comm;

capture::OpCall call_of(OpKind kind, int32_t root_or_peer) {
  capture::OpCall call = test::all_reduce(&comm, 4096);
  call.kind = kind;
  call.root_or_peer = root_or_peer;
  call.send = reinterpret_cast<const void*>(uintptr_t{0x7f00beef0000});
  call.recv = reinterpret_cast<const void*>(uintptr_t{0x7f00beef1000});
  call.stream = reinterpret_cast<const void*>(uintptr_t{0x55aa});
  if (!traits_of(kind).reduces) call.reduction = kUnknown8;
  return call;
}

void record_one_of_each() {
  setenv("RANK", "3", 1);
  test::open_test_comm(&comm, 0xdef);
  capture::end_op(capture::begin_op(call_of(OpKind::AllReduce, -1)), 0);
  capture::end_op(capture::begin_op(call_of(OpKind::Broadcast, 5)), 0);
  capture::end_op(capture::begin_op(call_of(OpKind::Send, 6)), 3);
  capture::OpCall odd = call_of(OpKind::AllGather, -1);
  odd.datatype = 200;  // a datatype newer than the table
  capture::end_op(capture::begin_op(odd), 0);
  capture::begin_op(call_of(OpKind::AllReduce, -1));  // never comes back
}

TEST_CASE("the continuous trace has a line for the process and one for each call that returned") {
  const TemporaryDirectory directory;
  const Traced traced = trace_of(directory, record_one_of_each);
  REQUIRE(traced.events.size() == 5);
  const json& process = traced.events[0];
  CHECK(process["ph"] == "M");
  CHECK(process["name"] == "process_name");
  CHECK(process["pid"] == traced.ring.header.pid);
  const std::string name = process["args"]["name"];
  CHECK(name.starts_with("rank 3, "));
  const char* kNames[] = {"AllReduce", "Broadcast", "Send", "AllGather"};
  for (uint64_t ticket = 1; ticket <= 4; ++ticket) {
    const json& event = traced.events[ticket];
    const OpRecord& op = traced.ring.ops.at(ticket);
    INFO(event.dump());
    CHECK(event["ph"] == "X");
    CHECK(event["cat"] == "nccl");
    CHECK(event["name"] == kNames[ticket - 1]);
    CHECK(event["pid"] == traced.ring.header.pid);
    CHECK(event["tid"] == traced.ring.header.pid);  // the main thread
    // Microseconds with three decimals; a tick of the fake clock is a nanosecond. A double holds a
    // time of this size to a quarter of a microsecond.
    const double called_us = static_cast<double>(kFakeEpochNs + op.called_ticks) / 1000;
    CHECK(std::abs(event["ts"].get<double>() - called_us) < 0.5);
    const auto duration_ns = static_cast<double>(op.returned_ticks - op.called_ticks);
    CHECK(std::abs(event["dur"].get<double>() - duration_ns / 1000) < 1e-6);
    CHECK(event["args"]["ticket"] == ticket);
    CHECK(event["args"]["seq"] == op.seq);
  }
  CHECK(traced.text.find("\"ts\":1700000000") != std::string::npos);
}

TEST_CASE("a call in the continuous trace carries every field, unknown ones as null") {
  const TemporaryDirectory directory;
  const Traced traced = trace_of(directory, record_one_of_each);
  REQUIRE(traced.events.size() == 5);
  const json& reduce = traced.events[1]["args"];
  CHECK(reduce["count"] == 4096);
  CHECK(reduce["dtype"] == "float32");
  CHECK(reduce["redop"] == "sum");
  CHECK(reduce["root"].is_null());
  CHECK(reduce["comm"] == "0000000000000abc0000000000000def");
  CHECK(reduce["comm_rank"] == 0);
  CHECK(reduce["nranks"] == 8);
  CHECK(reduce["send"] == "0x7f00beef0000");
  CHECK(reduce["recv"] == "0x7f00beef1000");
  CHECK(reduce["stream"] == "0x55aa");
  CHECK(reduce["result"] == 0);
  const json& broadcast = traced.events[2]["args"];
  CHECK(broadcast["root"] == 5);
  CHECK(broadcast["redop"].is_null());
  const json& send = traced.events[3]["args"];
  CHECK(send["peer"] == 6);
  CHECK_FALSE(send.contains("root"));
  CHECK(send["result"] == 3);
  CHECK(traced.events[4]["args"]["dtype"] == 200);
  for (const char* unobserved : {"launched_ns", "started_ns", "finished_ns"}) {
    CHECK_FALSE(reduce.contains(unobserved));
  }
}

TEST_CASE("a call that returns late is in the trace when it has returned, once") {
  const TemporaryDirectory directory;
  const Traced traced = trace_of(directory, [] {
    setenv("ROLLCALL_RING_SLOTS", "256", 1);
    const capture::OpToken slow = capture::begin_op(call_of(OpKind::AllReduce, -1));
    for (int n = 0; n < 1000; ++n) {
      capture::end_op(capture::begin_op(call_of(OpKind::Broadcast, 0)), 0);
    }
    capture::end_op(slow, 0);
  });
  int slow_ones = 0;
  for (const json& event : traced.events) slow_ones += event["name"] == "AllReduce";
  CHECK(slow_ones == 1);
}

TEST_CASE("a continuous trace that is cut off at any byte is readable up to there") {
  const TemporaryDirectory directory;
  const Traced traced = trace_of(directory, record_one_of_each);
  std::vector<size_t> ends;
  for (size_t at = traced.text.find('{'); at != std::string::npos; at = traced.text.find('{', at)) {
    const auto end = end_of_object(traced.text, at);
    REQUIRE(end);
    ends.push_back(*end);
    at = *end;
  }
  REQUIRE(ends.size() == traced.events.size());
  size_t whole = 0;
  for (size_t length = 0; length <= traced.text.size(); ++length) {
    while (whole < ends.size() && ends[whole] <= length) ++whole;
    const auto events = read_as_viewer(std::string_view(traced.text).substr(0, length));
    INFO("cut off at " << length);
    REQUIRE(events);
    REQUIRE(events->size() == whole);
    REQUIRE(std::equal(events->begin(), events->end(), traced.events.begin()));
  }
  // Cut between two lines, and closed by hand, it is plain JSON.
  const size_t last = traced.text.rfind(',');
  CHECK(json::accept(traced.text.substr(0, last) + "]"));
}

TEST_CASE("a continuous trace whose beginning could not be written begins as one later on") {
  const TemporaryDirectory directory;
  const std::string inside = directory.path() + "/later";
  SelfStatistics statistics{};
  const auto trace = std::make_unique<capture::ChromeTrace>();
  trace->begin({.directory = inside.c_str(),
                .stem = "node-1.4711.63",
                .pid = 4711,
                .job_rank = 3,
                .comms = nullptr,
                .threads = nullptr,
                .stats = &statistics});
  OpRecord op{};
  op.comm_index = kCommUnknown;
  op.thread_index = kThreadsMax;
  trace->observe(op);
  trace->flush();
  CHECK(statistics.history_errors == 1);
  std::filesystem::create_directory(inside);
  for (int i = 0; i < 2; ++i) {
    trace->observe(op);
    trace->flush();
  }
  CHECK(statistics.history_errors == 1);
  const auto events = read_as_viewer(file_bytes(inside + "/node-1.4711.63.trace.json"));
  REQUIRE(events);
  REQUIRE(events->size() == 3);
  CHECK((*events)[0]["name"] == "process_name");
  CHECK((*events)[1]["ph"] == "X");
}

TEST_CASE("without the variable no trace is written") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    record_one_of_each();
    capture::flush_at_exit();
  })));
  CHECK(directory.files(".ring").size() == 1);
  CHECK(directory.files(".trace.json").empty());
}

}  // namespace chrome_trace_test
}  // namespace rollcall
