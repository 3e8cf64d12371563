// Traces of PyTorch's profiler as parts of a Perfetto trace. That Perfetto opens these is
// tests/clients/perfetto_reads.py.
#include <fmt/format.h>

#include <set>

#include "report/perfetto/kineto_trace.h"
#include "report/perfetto/sequence.h"
#include "tests/catch.h"
#include "tests/report/perfetto_reader.h"

namespace test_kineto_trace {

using namespace rollcall;
using report::perfetto::KinetoLimits;
using report::perfetto::KinetoLosses;
using report::perfetto::KinetoTitle;
using report::perfetto::TraceState;
using test::PerfettoEvent;
using test::PerfettoReader;

constexpr int64_t kOffsetNs = 1'700'000'000'000'000'000;
constexpr uint64_t kParent = 7;

struct Rewritten {
  std::string bytes;
  KinetoLosses losses;
  TraceState state;
};

void rewrite(const std::string& text, Rewritten& into, KinetoLimits limits = {.events = 1000},
             const std::string& name = "PyTorch") {
  trace::MemoryStream stream({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  KinetoTitle title;
  title.parent = kParent;
  title.name = name;
  title.offset_ns = kOffsetNs;
  const auto sink = [&](const std::string& piece) {
    into.bytes += piece;
    return true;
  };
  CHECK(write_kineto(stream, title, into.state, sink, into.losses, limits));
}

std::string file_of(const std::string& events) {
  return R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}";
}

Rewritten rewritten(const std::string& events, KinetoLimits limits = {.events = 1000}) {
  Rewritten result;
  result.state.next_uuid = kParent + 1;
  rewrite(file_of(events), result, limits);
  return result;
}

// The track that it is all below, which is the caller's.
PerfettoReader read(const Rewritten& written) {
  std::string bytes;
  report::perfetto::Track parent;
  parent.uuid = kParent;
  parent.name = "rank 3";
  report::perfetto::append_track(bytes, 99, parent);
  return PerfettoReader(bytes + written.bytes);
}

std::string slice(const std::string& name, const std::string& times, const std::string& more = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 4711, "tid": 12, {}{}}})", name, times,
      more);
}

std::vector<std::string> names_of(const std::vector<PerfettoEvent>& events) {
  std::vector<std::string> names;
  for (const PerfettoEvent& event : events) {
    if (event.type != 2) names.push_back(event.name);
  }
  return names;
}

// "name" and its events' times behind the offset.
std::vector<int64_t> times_of(const std::vector<PerfettoEvent>& events) {
  std::vector<int64_t> times;
  for (const PerfettoEvent& event : events) times.push_back(event.time_ns - kOffsetNs);
  return times;
}

TEST_CASE(
    "processes, threads and streams of the profiler are tracks by their own names, in order") {
  const Rewritten written = rewritten(
      R"({"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}},
      {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
      {"ph": "M", "name": "process_sort_index", "pid": 0, "tid": 0, "args": {"sort_index": 500}},
      {"ph": "M", "name": "process_name", "pid": 4711, "tid": 0, "args": {"name": "python"}},
      {"ph": "M", "name": "process_sort_index", "pid": 4711, "tid": 0, "args": {"sort_index": 47}},
      {"ph": "M", "name": "thread_name", "pid": 0, "tid": 13, "args": {"name": "stream 13"}},
      {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "unused"}},
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 13, "ts": 5, "dur": 1},
      {"ph": "X", "cat": "Trace", "name": "all", "pid": "Spans", "tid": "Profiler", "ts": 0,
       "dur": 9},)" +
      slice("aten::mm", R"("ts": 1.001, "dur": 2.5)"));
  CHECK(written.losses.left_out.empty());
  CHECK(written.losses.trouble.empty());
  const PerfettoReader trace = read(written);
  const std::vector<PerfettoEvent> host = trace.on("rank 3/PyTorch/python 4711/thread 12");
  CHECK(names_of(host) == std::vector<std::string>{"aten::mm"});
  CHECK(times_of(host) == std::vector<int64_t>{1'001, 3'501});
  CHECK(host[0].category == "cpu_op");
  CHECK(names_of(trace.on("rank 3/PyTorch/python 0 (GPU 0)/stream 13")) ==
        std::vector<std::string>{"gemm"});
  CHECK(names_of(trace.on("rank 3/PyTorch/process Spans/thread Profiler")) ==
        std::vector<std::string>{"all"});
  std::map<uint64_t, std::string> order;
  for (const auto& [uuid, track] : trace.tracks) {
    if (trace.path(uuid).find("PyTorch/") == std::string::npos) continue;
    if (trace.tracks.at(track.parent).name == "PyTorch") order[track.order] = track.name;
  }
  // By "process_sort_index"; those without events are no tracks.
  CHECK(order == std::map<uint64_t, std::string>{
                     {1, "process Spans"}, {2, "python 4711"}, {3, "python 0 (GPU 0)"}});
  CHECK(written.state.slices == 3);
}

TEST_CASE("slices lie in each other as in the file, which has them in any order") {
  const PerfettoReader trace = read(rewritten(
      slice("inner", R"("ts": 10, "dur": 5)") + "," + slice("across", R"("ts": 12, "dur": 20)") +
      "," + slice("outer", R"("ts": 10, "dur": 10)") + "," + slice("moment", R"("ts": 10)")));
  std::map<uint64_t, std::vector<std::string>> by_track;
  for (const PerfettoEvent& event : trace.on("/thread 12")) {
    by_track[event.track].push_back(event.type == 1 ? event.name : "end");
  }
  REQUIRE(by_track.size() == 2);
  CHECK(by_track.begin()->second ==
        std::vector<std::string>{"outer", "inner", "moment", "end", "end", "end"});
  CHECK(by_track.rbegin()->second == std::vector<std::string>{"across", "end"});
}

TEST_CASE("arguments of every kind are kept") {
  const Rewritten written = rewritten(slice("op", R"("ts": 1, "dur": 1)", R"(, "args": {
      "External id": 102, "id": 18446744073709551615, "less": -3, "share": 0.5, "is": true,
      "nothing": null, "Input Dims": [[1024, 2], [], "a\"b"], "of": {"x": {"y": [1]}, "z": {}}})"));
  const PerfettoReader trace = read(written);
  CHECK(trace.on("/thread 12")[0].arguments ==
        std::map<std::string, std::string>{{"External id", "102"},
                                           {"id", "18446744073709551615"},
                                           {"less", "-3"},
                                           {"share", "0.500000"},
                                           {"is", "true"},
                                           {"nothing", "null"},
                                           {"Input Dims", R"([[1024, 2], [], "a\"b"])"},
                                           {"of", R"({"x": {"y": [1]}, "z": []})"}});
}

TEST_CASE("moments are kept, also of threads that have nothing else") {
  const PerfettoReader trace = read(rewritten(
      R"({"ph": "i", "s": "g", "name": "Iteration Start", "pid": "Traces", "tid": "t", "ts": 3})"));
  const std::vector<PerfettoEvent> events = trace.on("/process Traces/thread t");
  REQUIRE(events.size() == 1);
  CHECK(events[0].type == 3);
  CHECK(times_of(events) == std::vector<int64_t>{3'000});
}

TEST_CASE("an arrow joins what it joins in its file, and no other file's") {
  const std::string events =
      slice("outer", R"("ts": 1, "dur": 9)") + "," + slice("launch", R"("ts": 2, "dur": 1)") +
      R"(, {"ph": "X", "cat": "kernel", "name": "kernel", "pid": 0, "tid": 13, "ts": 5, "dur": 1},
      {"ph": "s", "id": 5, "cat": "ac2g", "name": "ac2g", "pid": 4711, "tid": 12, "ts": 2.5},
      {"ph": "f", "id": 5, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 13, "ts": 5, "bp": "e"},
      {"ph": "s", "id": 5, "cat": "fwdbwd", "name": "x", "pid": 4711, "tid": 12, "ts": 4},
      {"ph": "s", "id": 6, "cat": "ac2g", "name": "x", "pid": 4711, "tid": 12, "ts": 4000},
      {"ph": "f", "id": 6, "cat": "ac2g", "name": "x", "pid": 4711, "tid": 99, "ts": 2})";
  Rewritten written = rewritten(events);
  rewrite(file_of(events), written, {}, "PyTorch 2");
  const PerfettoReader trace = read(written);
  std::map<uint64_t, std::vector<std::string>> ends;
  for (const PerfettoEvent& event : trace.events) {
    for (const uint64_t flow : event.flows) ends[flow].push_back(event.name);
  }
  std::multiset<std::vector<std::string>> joined;
  for (const auto& [flow, names] : ends) joined.insert(names);
  // Of the second, whose category is another one, the other end is missing; the third has no slice,
  // in either file.
  CHECK(joined == std::multiset<std::vector<std::string>>{
                      {"launch", "kernel"}, {"launch", "kernel"}, {"outer"}, {"outer"}});
  CHECK(written.losses.left_out ==
        std::map<std::string, uint64_t>{{"of arrows that touch no slice", 4}});
}

TEST_CASE("what a trace cannot hold is counted by its reason") {
  const Rewritten written = rewritten(
      slice("a", R"("ts": 1, "dur": 1)") + "," + slice("b", R"("dur": 1)") + "," +
          slice("c", R"("ts": -5, "dur": 1)") + "," + slice("d", R"("ts": 1e300, "dur": 1)") + "," +
          slice("e", R"("ts": 3, "dur": 1)") + "," + slice("f", R"("ts": 4, "dur": 1)") + "," +
          slice("g", R"("ts": "5", "dur": 1)") + "," + slice("h", R"("ts": null, "dur": 1)") +
          R"(, {"ph": "C", "name": "n", "pid": 1, "tid": 1, "ts": 1, "args": {"x": 1}}, {}, 5, [],
          {"ph": "Complete"}, {"ph": "CC"})",
      {.events = 2});
  CHECK(names_of(read(written).on("/thread 12")) == std::vector<std::string>{"a", "e"});
  CHECK(written.losses.left_out == std::map<std::string, uint64_t>{{"beyond the first 2", 1},
                                                                   {"of the kind \"C\"", 1},
                                                                   {"of other kinds", 4},
                                                                   {"without a time", 5}});
}

TEST_CASE("times since the epoch are exact, and a child that ends with its parent is within it") {
  const PerfettoReader trace =
      read(rewritten(slice("parent", R"("ts": 1700000817077201, "dur": 235)") + "," +
                     slice("child", R"("ts": 1700000817077321, "dur": 115)")));
  const std::vector<PerfettoEvent> events = trace.on("/thread 12");
  constexpr int64_t kBeginNs = 1'700'000'817'077'201'000;
  CHECK(times_of(events) ==
        std::vector<int64_t>{kBeginNs, kBeginNs + 120'000, kBeginNs + 235'000, kBeginNs + 235'000});
  std::set<uint64_t> tracks;
  for (const PerfettoEvent& event : events) tracks.insert(event.track);
  CHECK(tracks.size() == 1);
}

TEST_CASE("a duration that is no number is none") {
  const PerfettoReader trace = read(rewritten(slice("a", R"("ts": 3, "dur": true)")));
  CHECK(times_of(trace.on("/thread 12")) == std::vector<int64_t>{3'000, 3'000});
}

TEST_CASE("of an event with many arguments the first are kept, and the others are counted") {
  std::string arguments = R"("x0": 0)";
  for (int i = 1; i < 300; ++i) arguments += fmt::format(R"(, "x{}": "{}")", i, i);
  const Rewritten written =
      rewritten(slice("a", R"("ts": 1)", fmt::format(R"(, "args": {{{}}})", arguments)) + "," +
                slice("left out", R"("dur": 1)", fmt::format(R"(, "args": {{{}}})", arguments)) +
                "," + slice("b", R"("ts": 2)", R"(, "args": {"y": 1})"));
  const std::vector<PerfettoEvent> events = read(written).on("/thread 12");
  REQUIRE(events.size() == 4);
  CHECK(events[0].arguments.size() == 256);
  CHECK(events[0].arguments.at("x255") == "255");
  CHECK(events[2].arguments == std::map<std::string, std::string>{{"y", "1"}});
  CHECK(written.losses.arguments == 44);
}

TEST_CASE("texts are bounded, and those of events that are left out take nothing") {
  std::string events;
  for (int i = 0; i < 100; ++i) {
    const std::string text = fmt::format("{:01000}", i);
    const std::string more = fmt::format(R"(, "args": {{"text": "{}", "[]": ["{}"]}})", text, text);
    events += slice("left out", R"("dur": 1)", more) + ",";
    events += fmt::format(R"({{"ph": "M", "name": "process_name", "pid": 1{}}},)", more);
    events += slice("kept", fmt::format(R"("ts": {})", i), more) + ",";
  }
  events += "{}";
  const Rewritten written = rewritten(events, {.events = 1000, .text_bytes = 10'000});
  const size_t kept = names_of(read(written).on("/thread 12")).size();
  CHECK(kept >= 3);
  CHECK(kept <= 5);
  CHECK(written.losses.left_out.at("beyond the first 10000 bytes of texts") == 100 - kept);
  CHECK(written.bytes.size() < 20'000);
}

TEST_CASE("a file that ends in the middle is there up to its end, and is said to end there") {
  Rewritten written;
  written.state.next_uuid = kParent + 1;
  const std::string text =
      file_of(slice("a", R"("ts": 1, "dur": 1)") + "," + slice("b", R"("ts": 2, "dur": 1)"));
  rewrite(text.substr(0, text.size() - 20), written);
  CHECK(names_of(read(written).on("/thread 12")) == std::vector<std::string>{"a"});
  CHECK(written.losses.trouble.starts_with("ends in the middle"));
  Rewritten nothing;
  nothing.state.next_uuid = kParent + 1;
  rewrite("no trace", nothing);
  CHECK_FALSE(nothing.losses.trouble.empty());
  CHECK(read(nothing).events.empty());
}

TEST_CASE("hostile names and numbers change no more than themselves") {
  const std::string huge(1 << 20, 'x');
  std::string many;
  for (int i = 0; i < 20'000; ++i) {
    many += fmt::format(R"(, {{"ph": "M", "name": "thread_name", "pid": 1, "tid": {}}})", i);
  }
  const Rewritten written = rewritten(
      slice("<b>\\u202e", R"("ts": 1, "dur": -7)") + "," +
      slice(huge, R"("ts": 2, "dur": 1e300)",
            fmt::format(R"(, "args": {{"{}": "{}", "list": ["{}"]}})", huge, huge, huge)) +
      R"(, {"ph": ["X"], "name": {"name": "x"}, "ts": "1", "pid": [[1]], "args": [1, [2]]})" +
      many + R"(, {"ph": "X", "name": "late", "pid": 1, "tid": 99999, "ts": 1, "dur": 1})");
  const PerfettoReader trace = read(written);
  const std::vector<PerfettoEvent> events = trace.on("/thread 12");
  REQUIRE(events.size() == 4);
  CHECK(events[0].name == "<b>\u202e");
  CHECK(times_of(events) == std::vector<int64_t>{1'000, 1'000, 2'000, 2'000});
  CHECK(events[2].name.size() == 1 << 14);
  for (const auto& [name, value] : events[2].arguments) {
    CHECK(name.size() <= 1 << 14);
    CHECK(value.size() <= 1 << 14);
  }
  CHECK(written.losses.left_out.at("of more than 16384 threads") == 1);
  CHECK(written.bytes.size() < 1 << 18);
}

TEST_CASE("many texts are handed on in pieces, and a sink that wants no more gets none") {
  std::string events = slice("0", R"("ts": 0, "dur": 1)");
  for (int i = 1; i < 5'000; ++i) {
    events += "," + slice(fmt::format("a long name {:060}", i), fmt::format(R"("ts": {})", i));
  }
  const std::string text = file_of(events);
  size_t pieces = 0;
  size_t longest = 0;
  const auto write = [&](size_t wanted) {
    trace::MemoryStream stream({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    TraceState state;
    KinetoLosses losses;
    pieces = 0;
    return write_kineto(
        stream, {}, state,
        [&](const std::string& piece) {
          longest = std::max(longest, piece.size());
          return ++pieces < wanted;
        },
        losses);
  };
  CHECK(write(1000));
  CHECK(pieces > 5);
  CHECK(longest < 1 << 17);
  CHECK_FALSE(write(2));
  CHECK(pieces == 2);
}

}  // namespace test_kineto_trace
