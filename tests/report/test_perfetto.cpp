// The native Perfetto trace, taken apart by a reader of its own (proto_reader.h). That Perfetto
// reads it, too, is tests/e2e/perfetto.py.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/perfetto/choice.h"
#include "report/perfetto/lanes.h"
#include "report/perfetto/perfetto.h"
#include "report/perfetto/protobuf.h"
#include "report/perfetto/rank_state.h"
#include "tests/catch.h"
#include "tests/report/perfetto_reader.h"
#include "tests/report/proto_reader.h"
#include "tests/report/world.h"

namespace test_perfetto {

using namespace rollcall;
using report::perfetto::RankState;
using test::ProtoReader;
using Trace = test::PerfettoReader;
using Event = test::PerfettoEvent;

std::string trace_of(const trace::Run& run, const report::PerfettoOptions& options = {}) {
  std::string bytes;
  report::perfetto_trace(run, options, [&](const std::string& piece) {
    bytes += piece;
    return true;
  });
  return bytes;
}

// The GPU's times of the first call, and a send with its receive.
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
  trace::Op send = run.processes[0].ops[1];
  send.kind = OpKind::Send;
  send.root_or_peer = 1;
  send.called_ns += 10'000;
  send.returned_ns += 10'000;
  run.processes[0].ops.push_back(send);
  send.kind = OpKind::Recv;
  send.root_or_peer = 0;
  run.processes[1].ops.push_back(send);
  return run;
}

bool is_near(double value, double expected) {
  return std::abs(value - expected) <= 1e-9 * std::abs(expected);
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string unspaced(std::string text) {
  std::erase(text, ' ');
  return text;
}

TEST_CASE("protobuf fields are the bytes of the documentation of the wire format") {
  std::string bytes;
  report::perfetto::Message message(bytes);
  message.number(1, 150);  // the documentation's own example
  CHECK(hex(bytes) == "089601");
  bytes.clear();
  message.text(2, "testing");
  CHECK(hex(bytes) == "120774657374696e67");
  bytes.clear();
  message.number(16, UINT64_MAX);
  CHECK(hex(bytes) == "8001ffffffffffffffffff01");
  bytes.clear();
  message.fixed64(47, 0x0102030405060708);
  CHECK(hex(bytes) == "f9020807060504030201");
  bytes.clear();
  message.real(44, 1.0);
  CHECK(hex(bytes) == "e102000000000000f03f");
}

TEST_CASE("a message in a message has its length in front, also where that takes two bytes") {
  for (const size_t size : {0u, 1u, 125u, 126u, 300u}) {
    std::string bytes;
    report::perfetto::Message outer(bytes);
    {
      report::perfetto::Nested middle(outer, 1);
      report::perfetto::Nested inner(middle, 3);
      inner.text(2, std::string(size, 'x'));
    }
    outer.number(4, 7);
    const ProtoReader reader(bytes);
    CHECK(reader.message(1).message(3).text(2).size() == size);
    CHECK(reader.number(4) == 7);
  }
}

TEST_CASE("a trace of one call is the documented packets, byte for byte") {
  trace::Run run = test::missing_call_run();
  run.processes.resize(1);
  run.processes[0].ops.resize(1);
  run.processes[0].comms[0].name = "world";
  std::vector<std::string> packets;
  for (const std::string& packet : ProtoReader(trace_of(run)).texts(1)) {
    packets.push_back(hex(packet));
  }
  // 50: the sequence. e203: a track, with 08 its number, 28 that of its parent, 12 its name, 58 03
  // for children in explicit order, 60 its place among siblings, 72 a description.
  const std::vector<std::string> expected = {
      "50 01 e2030d 08 01 12 05 72616e6b73 58 03 60 00",  // "ranks"
      // 68 01: nothing interned is valid. The realtime clock was 1699999999995000000 where the
      // sequence's own one, 64, which tells differences, was 0.
      "50 02 68 01 32 18 0a 0c 08 01 10 c0e9f6aee39fe7cb17 0a 06 08 40 10 00 18 01 10 01",
      "50 02 da03 07 5a 02 58 04 d003 40",  // from now on: track 4, clock 64
      "50 02 e203 35 08 02 28 01 12 14 72616e6b2030206e6f646530207069642031303058 03 60 00"
      "72 15 5265636f7264656420627920726f6c6c63616c6c2e",
      "50 02 e203 42 08 03 28 02 12 05 776f726c64 58 03 60 01"
      "72 31 52616e6b2030206f6620342c206b657920"
      "3131323233333434353536363737383839396161626263636464656566663030",
      "50 02 e203 0f 08 04 28 03 12 05 63616c6c73 58 03 60 00",  // "calls"
      // 40: 5 ms later. 68 02: needs what is interned. 62: "state" and "in a call" are. 5a: a slice
      // (48 01) of category 1 (18) and name 1 (50) begins on track 2 (58).
      "40 c096b102 50 02 68 02 62 1a 0a 09 08 01 12 05 7374617465 12 0d 08 01"
      "12 09 696e20612063616c6c 5a 08 48 01 18 01 50 01 58 02",
      // At the same time, on the track of the calls: "call", "AllReduce", the arguments "seq", 0,
      // and "call", "AllReduce 1024 float32 sum"; the correlation id is 1.
      "40 00 50 02 68 02 62 4d 0a 08 08 02 12 04 63616c6c 12 0d 08 02 12 09 416c6c526564756365"
      "1a 07 08 01 12 03 736571 1a 08 08 02 12 04 63616c6c"
      "ea01 1e 08 01 12 1a 416c6c526564756365203130323420666c6f617433322073756d"
      "5a 16 48 01 18 02 50 02 22 04 08 01 18 00 22 05 08 02 8801 01 a003 01",
      "40 8827 50 02 68 02 5a 04 48 02 58 02",  // 5 us later both end
      "40 00 50 02 68 02 5a 02 48 02",
  };
  REQUIRE(packets.size() == expected.size());
  for (size_t at = 0; at < expected.size(); ++at) CHECK(packets[at] == unspaced(expected[at]));
}

TEST_CASE("ranks, communicators and what they do are a tree in explicit order") {
  trace::Run run = test::missing_call_run();
  const trace::Process one = run.processes[0];
  run.processes.clear();
  for (int32_t rank = 0; rank < 12; ++rank) {
    run.processes.push_back(one);
    run.processes.back().job_rank = rank;
  }
  const Trace trace(trace_of(run));
  std::map<uint64_t, std::string> ranks;
  for (const auto& [uuid, track] : trace.tracks) {
    if (track.name.starts_with("rank ")) ranks[track.order] = track.name;
  }
  REQUIRE(ranks.size() == 12);
  CHECK(ranks[9] == "rank 9 node0 pid 100");
  CHECK(ranks[10] == "rank 10 node0 pid 100");
  CHECK(trace.on("ranks/rank 10 node0 pid 100/communicator ddeeff00/calls").size() == 5);
}

TEST_CASE("slices of a track lie within each other, and only calls that hang have no end") {
  const Trace trace(trace_of(rich_run()));
  std::map<uint64_t, std::vector<Event>> open;
  std::map<uint64_t, int64_t> latest;
  for (const Event& event : trace.events) {
    CHECK(event.time_ns >= latest[event.track]);
    latest[event.track] = event.time_ns;
    if (event.type == 1) open[event.track].push_back(event);
    if (event.type != 2) continue;
    REQUIRE_FALSE(open[event.track].empty());
    open[event.track].pop_back();
  }
  std::set<std::string> hanging;
  for (const auto& [track, events] : open) {
    for (const Event& event : events) {
      if (event.category == "state") continue;
      hanging.insert(trace.path(track));
      CHECK(event.arguments.at("seq") == "2");
      CHECK(event.arguments.at("state") == "called");
    }
  }
  CHECK(hanging == std::set<std::string>{"ranks/rank 0 node0 pid 100/communicator ddeeff00/calls",
                                         "ranks/rank 1 node0 pid 101/communicator ddeeff00/calls",
                                         "ranks/rank 3 node0 pid 103/communicator ddeeff00/calls"});
}

TEST_CASE("a call's slice has its times, its place and its arguments") {
  trace::Run run = rich_run();
  run.processes[0].meta["frame.1"] = "train.py:63 step";
  run.processes[0].ops[0].frames = 1;
  const Trace trace(trace_of(run));
  const std::vector<Event> calls = trace.on("rank 0 node0 pid 100/communicator ddeeff00/calls");
  REQUIRE(calls.size() == 7);
  CHECK(calls[0].time_ns == test::kStartNs);
  CHECK(calls[1].time_ns == test::kStartNs + 5'000);
  CHECK(calls[0].name == "AllReduce");
  CHECK(calls[0].category == "call");
  CHECK(calls[0].arguments ==
        std::map<std::string, std::string>{
            {"seq", "0"}, {"call", "AllReduce 1024 float32 sum"}, {"line", "train.py:63 step"}});
  const std::vector<Event> gpu = trace.on("rank 0 node0 pid 100/communicator ddeeff00/GPU");
  REQUIRE(gpu.size() == 2);
  CHECK(gpu[0].time_ns == test::kStartNs + 7'000);
  CHECK(gpu[1].time_ns == test::kStartNs + 9'000);
  CHECK(gpu[0].category == "gpu");
}

TEST_CASE("a collective has one correlation id on all its ranks, and another has another") {
  const Trace trace(trace_of(rich_run()));
  std::map<std::string, std::set<uint64_t>> by_seq;
  std::map<uint64_t, size_t> uses;
  for (const Event& event : trace.events) {
    if (event.correlation == 0) continue;
    by_seq[event.arguments.at("seq")].insert(event.correlation);
    ++uses[event.correlation];
  }
  REQUIRE(by_seq.size() == 3);
  REQUIRE(uses.size() == 3);
  for (const auto& [seq, ids] : by_seq) CHECK(ids.size() == 1);
  CHECK(uses[*by_seq["0"].begin()] == 8);  // the hosts' calls, and what the GPUs did
  CHECK(uses[*by_seq["2"].begin()] == 3);
}

TEST_CASE("an arrow joins a send with its receive, and nothing else has one") {
  const Trace trace(trace_of(rich_run()));
  std::map<uint64_t, std::vector<std::string>> ends;
  for (const Event& event : trace.events) {
    for (const uint64_t flow : event.flows) ends[flow].push_back(event.name);
  }
  REQUIRE(ends.size() == 1);
  CHECK(ends.begin()->second == std::vector<std::string>{"Send", "Recv"});
}

TEST_CASE("the speed of operations is a counter that falls back to nothing") {
  const Trace trace(trace_of(rich_run()));
  const std::vector<Event> values = trace.on("rank 0 node0 pid 100/communicator ddeeff00/busbw");
  REQUIRE(values.size() == 2);
  CHECK(values[0].type == 4);
  CHECK(trace.tracks.at(values[0].track).axis == "busbw");  // which all ranks share
  // 4096 bytes in 2 us, times 2 (n - 1) / n of 4 ranks.
  CHECK(is_near(values[0].value, 4096 / 2000.0 * 1.5));
  CHECK(values[0].time_ns == test::kStartNs + 7'000);
  CHECK(values[1].value == 0);
  CHECK(values[1].time_ns == test::kStartNs + 9'000);
}

TEST_CASE("a rank's own track says what the rank does") {
  trace::Run run = rich_run();
  run.processes[2].liveness = trace::Liveness::dead;
  run.processes[2].heartbeat_ns = test::kStartNs + 80'000'000;
  const auto states = [](const trace::Process& process) {
    std::vector<std::pair<int64_t, RankState>> seen;
    for (const auto& change : report::perfetto::states_of(process)) {
      seen.emplace_back(change.time_ns - test::kStartNs, change.state);
    }
    return seen;
  };
  run.processes[2].events.clear();
  CHECK(states(run.processes[2]) ==
        std::vector<std::pair<int64_t, RankState>>{{20'000, RankState::in_call},
                                                   {25'000, RankState::enqueued},
                                                   {27'000, RankState::on_gpu},
                                                   {29'000, RankState::outside},
                                                   {1'020'000, RankState::in_call},
                                                   {1'025'000, RankState::outside},
                                                   {80'000'000, RankState::dead}});
  CHECK(states(run.processes[3]).back() ==
        std::pair<int64_t, RankState>{2'030'000, RankState::in_call});
  const Trace trace(trace_of(run));
  const std::vector<Event> own = trace.on("rank 2 node0 pid 102");
  REQUIRE_FALSE(own.empty());
  CHECK(own.back().name == "process dead");
  CHECK(own.back().type == 1);
}

TEST_CASE("slices that overlap are on tracks of one name") {
  trace::Run run = test::missing_call_run();
  run.processes.resize(1);
  trace::Process& process = run.processes[0];
  process.ops.resize(2);
  process.ops[0].started_ns = test::kStartNs + 1'000;
  process.ops[0].finished_ns = test::kStartNs + 3'000;
  process.ops[1].started_ns = test::kStartNs + 2'000;
  process.ops[1].finished_ns = test::kStartNs + 4'000;
  const Trace trace(trace_of(run));
  const std::vector<Event> gpu = trace.on("/GPU");
  REQUIRE(gpu.size() == 4);
  std::set<uint64_t> tracks;
  for (const Event& event : gpu) tracks.insert(event.track);
  CHECK(tracks.size() == 2);
  // The speeds of both are added up while both run.
  std::vector<double> values;
  for (const Event& event : trace.on("/busbw")) values.push_back(event.value);
  const double one = 4096 / 2000.0 * 1.5;
  REQUIRE(values.size() == 4);
  CHECK(is_near(values[0], one));
  CHECK(is_near(values[1], 2 * one));
  CHECK(is_near(values[2], one));
  CHECK(values[3] == 0);
}

TEST_CASE("lanes keep slices apart that lie across each other, and no more") {
  using report::perfetto::lanes_of;
  using report::perfetto::Slice;
  CHECK(lanes_of({}).empty());
  CHECK(lanes_of({{0, 10, 0}, {2, 8, 1}, {10, 20, 2}}).size() == 1);
  CHECK(lanes_of({{0, 10, 0}, {5, 15, 1}, {10, 20, 2}}).size() == 2);
  CHECK(lanes_of({{0, 10, 0}, {0, 10, 1}}).size() == 1);
  // One without an end holds whatever comes later.
  CHECK(lanes_of({{0, report::perfetto::kOpenEnd, 0}, {5, 15, 1}}).size() == 1);
  // An end before the beginning, of a damaged file, is the beginning.
  const auto steps = lanes_of({{10, 5, 0}});
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].back().time_ns == 10);
  std::vector<Slice> many;
  for (uint32_t i = 0; i < 100; ++i) many.push_back({i, 1000 + i, i});
  const auto lanes = lanes_of(many, 8);
  CHECK(lanes.size() == 8);
  size_t count = 0;
  for (const auto& lane : lanes) count += lane.size();
  CHECK(count == 200);
}

TEST_CASE("kernel phases lie inside the slice of their operation on the GPU") {
  trace::Run run = test::missing_call_run();
  run.processes.resize(1);
  trace::Process& process = run.processes[0];
  process.ops.resize(1);
  process.ops[0].started_ns = test::kStartNs + 1'000;
  process.ops[0].finished_ns = test::kStartNs + 2'000;
  process.phases.push_back({.ticket = process.ops[0].ticket, .operations = 1, .ns = {300, 0, 900}});
  std::vector<std::string> seen;
  for (const Event& event : Trace(trace_of(run)).on("/GPU")) {
    seen.push_back(event.name + " " + std::to_string(event.time_ns - test::kStartNs));
  }
  CHECK(seen == std::vector<std::string>{"AllReduce 1000", "initial_sync 1000", " 1300",
                                         "final_sync 1300", " 2000", " 2000"});
}

TEST_CASE("what a damaged file says makes a trace that can be read") {
  trace::Run run = rich_run();
  trace::Process& process = run.processes[0];
  process.host = "node\xff";
  process.ops[0].comm = 77;
  process.ops[0].seq = UINT64_MAX;
  process.ops[1].returned_ns = 1;
  process.ops[1].started_ns = 5;
  process.ops[1].finished_ns = 2;
  process.ops[2].thread = 99;
  process.ops[2].called_ns = 3;
  process.events[0].comm = 99;
  process.events[0].text = "\xc3\x28";
  const Trace trace(trace_of(run));
  CHECK(trace.on("rank 0 node? pid 100/other calls").size() == 4);
}

TEST_CASE("only the processes that are asked for are written, with what is said of them") {
  report::PerfettoOptions options;
  options.processes = {2};
  options.remarks[2] = "culprit";
  options.comm_names[{test::kWorldKey.high, test::kWorldKey.low}] = "world";
  const Trace trace(trace_of(rich_run(), options));
  CHECK(trace.on("ranks/rank 2 node0 pid 102 (culprit)/world/calls").size() == 4);
  for (const auto& [uuid, track] : trace.tracks) CHECK(track.name.find("rank 0") != 0);
}

TEST_CASE("a sink that wants no more ends the trace") {
  size_t calls = 0;
  report::perfetto_trace(rich_run(), {}, [&](const std::string&) { return ++calls < 2; });
  CHECK(calls == 2);
}

// 100 ranks in one communicator, of which one has not made the last call.
trace::Run large_run(int32_t ranks) {
  const trace::Run small = test::missing_call_run();
  trace::Run run = small;
  run.processes.clear();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    run.processes.push_back(small.processes[rank == 77 ? 2 : 0]);
    run.processes.back().job_rank = rank;
    run.processes.back().comms[0].rank = rank;
    run.processes.back().comms[0].nranks = ranks;
  }
  return run;
}

analysis::Report report_of(int32_t ranks) {
  analysis::Report report = test::missing_call_report();
  const std::vector<analysis::RankRow> rows = report.table;
  report.table.clear();
  report.comms[0].ranks.clear();
  for (int32_t rank = 0; rank < ranks; ++rank) {
    report.table.push_back(rows[rank == 77 ? 2 : 0]);
    report.table.back().rank = rank;
    report.table.back().process = static_cast<uint32_t>(rank);
    report.comms[0].ranks.push_back(rank);
  }
  analysis::Culprit& culprit = report.findings[0].culprits[0];
  culprit.rank = culprit.comm_rank = 77;
  culprit.process = 77;
  return report;
}

TEST_CASE("a run of many ranks is written as its culprit, neighbours, and some of each kind") {
  const std::vector<uint32_t> chosen = report::ranks_that_matter(large_run(100), report_of(100));
  CHECK(chosen.size() == report::kRanksWhole);
  for (const uint32_t rank : {0u, 1u, 76u, 77u, 78u}) {
    CHECK(std::count(chosen.begin(), chosen.end(), rank) == 1);
  }
  CHECK(std::count(chosen.begin(), chosen.end(), 79u) == 0);
  CHECK(std::is_sorted(chosen.begin(), chosen.end()));
}

TEST_CASE("a run of few ranks is written whole, without what an older run left") {
  trace::Run run = test::missing_call_run();
  run.processes[1].superseded = true;
  CHECK(report::ranks_that_matter(run, test::missing_call_report()) ==
        std::vector<uint32_t>{0, 2, 3});
}

TEST_CASE("of more culprits than a viewer shows some are left out") {
  analysis::Report report = report_of(600);
  const analysis::Culprit culprit = report.findings[0].culprits[0];
  for (int32_t rank = 0; rank < 600; ++rank) {
    report.findings[0].culprits.push_back(culprit);
    report.findings[0].culprits.back().rank = rank;
  }
  const std::vector<uint32_t> chosen = report::ranks_that_matter(large_run(600), report);
  CHECK(chosen.size() == report::kRanksMax);
  CHECK(std::count(chosen.begin(), chosen.end(), 77u) == 1);
}

TEST_CASE("the verdict is drawn from the oldest call on that waits") {
  const trace::Run run = test::missing_call_run();
  report::PerfettoOptions options;
  report::add_verdict(run, test::missing_call_report(), options);
  const Trace trace(trace_of(run, options));
  const std::vector<Event> told = trace.on("ranks");
  REQUIRE(told.size() == 1);
  CHECK(told[0].name ==
        "RC-MISSING-CALL: Rank 2 never called AllReduce seq 2 on world; 3 ranks wait in it.");
  CHECK(told[0].type == 1);
  CHECK(told[0].time_ns == test::kStartNs + 2'000'000);
  CHECK(trace.on("ranks/rank 2 node0 pid 102 (culprit)/world/calls").size() == 4);
  CHECK(trace.on("ranks/rank 3 node0 pid 103/world/calls").size() == 5);
}

TEST_CASE("a rank's help says how well its host's clock agrees with others") {
  trace::Run run = test::missing_call_run();
  run.processes[1].clock_bound_ns = 250'000;
  run.processes[2].clock_moved_ns = 3'600'000'000'000;
  run.processes[2].clock_doubt_ns = run.processes[2].clock_bound_ns = 40'000'000;
  const Trace trace(trace_of(run));
  std::map<std::string, std::string> helps;
  for (const auto& [uuid, track] : trace.tracks) helps[track.name] = track.description;
  CHECK(helps["rank 0 node0 pid 100"] == "Recorded by rollcall.");
  CHECK(helps["rank 1 node0 pid 101"] ==
        "Recorded by rollcall. The clock of node0 agrees with those of the other hosts within 250 "
        "us, as the communicators prove that they share.");
  CHECK(helps["rank 2 node0 pid 102"] ==
        "Recorded by rollcall. The clock of node0 was wrong: its times were moved, and may still "
        "be off by 40 ms.");
}

TEST_CASE("what belongs below a rank is written behind it, and what belongs to none at the end") {
  const trace::Run run = test::missing_call_run();
  report::PerfettoOptions options;
  options.processes = {1, 3};
  std::vector<std::pair<std::optional<uint32_t>, uint64_t>> asked;
  bool goes_on = true;
  options.write_below = [&](std::optional<uint32_t> process, uint64_t track,
                            report::perfetto::TraceState&, const report::perfetto::Sink&) {
    asked.emplace_back(process, track);
    return goes_on;
  };
  const Trace trace(trace_of(run, options));
  REQUIRE(asked.size() == 3);
  CHECK(asked[0].first == 1u);
  CHECK(trace.path(asked[0].second) == "ranks/rank 1 node0 pid 101");
  CHECK(asked[1].first == 3u);
  CHECK(trace.path(asked[1].second) == "ranks/rank 3 node0 pid 103");
  CHECK_FALSE(asked[2].first.has_value());
  CHECK(trace.path(asked[2].second) == "ranks");
  goes_on = false;
  asked.clear();
  trace_of(run, options);
  CHECK(asked.size() == 1);
}

TEST_CASE("a process that is read again is written as it was read then") {
  const trace::Run run = test::missing_call_run();
  report::PerfettoOptions options;
  std::vector<uint32_t> asked;
  options.read_whole = [&](uint32_t at) {
    asked.push_back(at);
    if (at != 1) return std::optional<trace::Process>();
    std::optional<trace::Process> process = run.processes[1];
    process->ops.resize(1);
    return process;
  };
  const Trace trace(trace_of(run, options));
  CHECK(asked == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(trace.on("rank 1 node0 pid 101/communicator ddeeff00/calls").size() == 2);
  CHECK(trace.on("rank 0 node0 pid 100/communicator ddeeff00/calls").size() == 5);
}

TEST_CASE("around a position is what a rank did from 20 calls before to 20 behind") {
  trace::Process process = test::missing_call_run().processes[0];
  const trace::Op one = process.ops[0];
  process.ops.clear();
  for (uint64_t seq = 0; seq < 100; ++seq) {
    process.ops.push_back(one);
    process.ops.back().seq = seq;
    process.ops.back().called_ns += static_cast<int64_t>(seq) * 1000;
  }
  trace::Process last = process;
  report::keep_around(process, test::kWorldKey, 50);
  REQUIRE(process.ops.size() == 41);
  CHECK(process.ops.front().seq == 30);
  CHECK(process.ops.back().seq == 70);
  trace::Process absent = last;
  report::keep_around(last, test::kWorldKey, 99);
  CHECK(last.ops.size() == 21);
  report::keep_around(absent, test::kWorldKey, 500);
  CHECK(absent.ops.empty());
}

}  // namespace test_perfetto
