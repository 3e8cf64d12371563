// The tabs of waits and of bandwidth.
#include <cstdint>
#include <string>
#include <vector>

#include "report/page/bandwidth.h"
#include "report/page/page.h"
#include "report/page/wait_states.h"
#include "report/page/waits.h"
#include "report/terms.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_page_waits {

using namespace rollcall;
using report::WaitRow;
using report::WaitState;

constexpr int64_t kMicrosecond = 1'000;

void time_on_gpu(trace::Op& op, int64_t duration_us) {
  op.started_ns = op.called_ns + 10 * kMicrosecond;
  op.finished_ns = op.started_ns + duration_us * kMicrosecond;
  op.state = trace::OpState::finished;
}

// Two calls of four ranks, of which rank 2 came last: its own took 100 us.
trace::Run timed_run(OpKind kind = OpKind::AllReduce, int32_t root = -1) {
  constexpr int64_t kDurations[] = {400, 300, 100, 200};
  trace::Run run = test::missing_call_run();
  for (size_t rank = 0; rank < run.processes.size(); ++rank) {
    trace::Process& process = run.processes[rank];
    process.meta["frame.1"] = "train.py:63 metrics_of";
    for (size_t at = 0; at < 2; ++at) {
      trace::Op& op = process.ops[at];
      op.kind = kind;
      op.root_or_peer = root;
      op.frames = 1;
      time_on_gpu(op, kDurations[rank]);
    }
  }
  return run;
}

trace::Op transfer(OpKind kind, int32_t peer, int64_t duration_us) {
  trace::Op op;
  op.kind = kind;
  op.root_or_peer = peer;
  op.count = 1024;
  op.datatype = 7;
  op.stream = 0x7f00;
  op.ticket = 1;
  op.called_ns = test::kStartNs;
  op.returned_ns = op.called_ns + 5 * kMicrosecond;
  time_on_gpu(op, duration_us);
  return op;
}

// Rank 0 sends to rank 1.
trace::Run transfer_run(int64_t send_us, int64_t recv_us) {
  trace::Run run = test::missing_call_run();
  for (trace::Process& process : run.processes) {
    process.ops.clear();
    process.comms[0].collectives = 0;
  }
  run.processes[0].ops.push_back(transfer(OpKind::Send, 1, send_us));
  run.processes[1].ops.push_back(transfer(OpKind::Recv, 0, recv_us));
  return run;
}

std::vector<WaitRow> rows_of(const trace::Run& run) {
  const analysis::Index index(run);
  return report::wait_rows(index);
}

analysis::Wait wait_of(std::vector<int32_t> ranks, std::vector<int32_t> for_ranks) {
  analysis::Wait wait;
  wait.ranks = std::move(ranks);
  wait.for_ranks = std::move(for_ranks);
  wait.comm = test::kWorldKey;
  wait.seq = 1;
  return wait;
}

statistics::OperationRow operation(uint64_t comm, uint64_t bytes, double bus_gbps) {
  statistics::OperationRow row;
  row.comm = {comm, comm};
  row.comm_name = "comm " + std::to_string(comm);
  row.nranks = 4;
  row.bytes_from = row.bytes_to = bytes;
  row.calls = row.timed = 100;
  row.median_ns = 1'000'000;
  row.p99_ns = 2'000'000;
  row.median_bandwidth = statistics::Bandwidth{.algorithm_gbps = 0, .bus_gbps = bus_gbps};
  return row;
}

TEST_CASE("in a collective of all ranks those wait that came before the last, by Cube's name") {
  const std::vector<WaitRow> rows = rows_of(timed_run());
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].state == WaitState::wait_at_nxn);
  CHECK(rows[0].kind == OpKind::AllReduce);
  CHECK(rows[0].line == "train.py:63 metrics_of");
  CHECK(rows[0].calls == 8);
  CHECK(rows[0].waited_ns == 2 * (300 + 200 + 0 + 100) * kMicrosecond);
  CHECK(rows[0].longest_ns == 300 * kMicrosecond);
  CHECK(rows[0].duration_ns == 2 * 1000 * kMicrosecond);
  CHECK(rows[0].awaited == 2);
  CHECK(rows[0].awaited_ns == rows[0].waited_ns);
}

TEST_CASE("in a broadcast the others wait for the root, in a reduction the root for the others") {
  const std::vector<WaitRow> broadcast = rows_of(timed_run(OpKind::Broadcast, 2));
  REQUIRE(broadcast.size() == 1);
  CHECK(broadcast[0].state == WaitState::late_broadcast);
  CHECK(broadcast[0].calls == 6);
  CHECK(broadcast[0].awaited == 2);
  const std::vector<WaitRow> reduce = rows_of(timed_run(OpKind::Reduce, 0));
  REQUIRE(reduce.size() == 1);
  CHECK(reduce[0].state == WaitState::early_reduce);
  CHECK(reduce[0].calls == 2);
  CHECK(reduce[0].waited_ns == 2 * 300 * kMicrosecond);
  // Which of them came last their times do not tell.
  CHECK(reduce[0].awaited == analysis::kNone);
}

TEST_CASE("a receive waits for a late sender, and a send for a late receiver") {
  const std::vector<WaitRow> late_sender = rows_of(transfer_run(50, 500));
  REQUIRE(late_sender.size() == 2);
  CHECK(late_sender[0].state == WaitState::late_sender);
  CHECK(late_sender[0].kind == OpKind::Recv);
  CHECK(late_sender[0].waited_ns == 450 * kMicrosecond);
  CHECK(late_sender[0].awaited == 0);
  CHECK(late_sender[1].state == WaitState::late_receiver);
  CHECK(late_sender[1].waited_ns == 0);
  const std::vector<WaitRow> late_receiver = rows_of(transfer_run(500, 50));
  REQUIRE(late_receiver.size() == 2);
  CHECK(late_receiver[0].state == WaitState::late_receiver);
  CHECK(late_receiver[0].awaited == 1);
}

TEST_CASE("in a broadcast nobody waited for a root that came before them") {
  // The root's own took 300 us, and those of ranks 2 and 3 less.
  const std::vector<WaitRow> rows = rows_of(timed_run(OpKind::Broadcast, 1));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].calls == 6);
  CHECK(rows[0].waited_ns == 2 * 100 * kMicrosecond);
  CHECK(rows[0].awaited == 1);
  CHECK(rows[0].awaited_ns == rows[0].waited_ns);
}

TEST_CASE("a wait is the least that it may have been where an arrival is in doubt") {
  trace::Run run = timed_run();
  // Rank 2 was still in its calls when its stream had come to them: that it came last is no more
  // than likely.
  for (trace::Op& op : run.processes[2].ops) {
    if (op.started_ns == 0) continue;
    op.returned_ns = op.started_ns + 50 * kMicrosecond;
    op.finished_ns = op.started_ns + 250 * kMicrosecond;
  }
  const std::vector<WaitRow> rows = rows_of(run);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].waited_ns == 2 * (150 + 50 + 0 + 0) * kMicrosecond);
  CHECK(rows[0].longest_ns == 150 * kMicrosecond);
}

TEST_CASE("of calls of one group a wait is told of the one that waits so") {
  trace::Run run = timed_run();
  for (trace::Process& process : run.processes) {
    process.ops[0].kind = OpKind::Broadcast;
    process.ops[0].root_or_peer = 0;
    process.ops[0].group = process.ops[1].group = 1;
  }
  const std::vector<WaitRow> rows = rows_of(run);
  REQUIRE_FALSE(rows.empty());
  for (const WaitRow& row : rows) {
    CHECK((row.state == WaitState::wait_at_nxn) == (row.kind == OpKind::AllReduce));
  }
}

TEST_CASE("the time at which a watchdog saw that calls were through makes no wait") {
  trace::Run run = test::missing_call_run();
  CHECK_FALSE(report::has_gpu_times(run));
  for (trace::Process& process : run.processes) {
    for (trace::Op& op : process.ops) op.finished_ns = op.called_ns + 1'000 * kMicrosecond;
  }
  CHECK_FALSE(report::has_gpu_times(run));
  CHECK(report::has_gpu_times(timed_run()));
}

TEST_CASE("times that no sum holds are the largest that one does") {
  const trace::Run run = timed_run();
  std::vector<WaitRow> rows = rows_of(run);
  REQUIRE(rows.size() == 1);
  rows[0].waited_ns = rows[0].duration_ns = INT64_MAX - 1;
  rows.push_back(rows[0]);
  const std::string html = report::waits_html(analysis::Index(run), {}, rows);
  CHECK(html.find("<td>world</td><td>-") == std::string::npos);
  CHECK(html.find("The GPUs spent -") == std::string::npos);
  CHECK(html.find("<td>world</td><td>" + report::duration(INT64_MAX)) != std::string::npos);
}

TEST_CASE("nobody waited where a rank that takes part has no GPU time") {
  trace::Run run = timed_run();
  for (trace::Op& op : run.processes[3].ops) op.started_ns = op.finished_ns = 0;
  CHECK(rows_of(run).empty());
  CHECK(rows_of(test::missing_call_run()).empty());
}

TEST_CASE("a wait that goes on has a name where the record justifies it") {
  const trace::Run all = timed_run();
  const analysis::Index index(all);
  analysis::Wait wait = wait_of({0, 1, 3}, {2});
  CHECK(report::wait_state_of(index, wait) == "Wait at NxN");
  const trace::Run rooted = timed_run(OpKind::Broadcast, 2);
  const analysis::Index broadcast(rooted);
  CHECK(report::wait_state_of(broadcast, wait) == "Late Broadcast");
  // They wait for another one than the root.
  wait.for_ranks = {1};
  CHECK(report::wait_state_of(broadcast, wait).empty());
  const trace::Run reduction = timed_run(OpKind::Reduce, 0);
  const analysis::Index reduce(reduction);
  // Of the others it holds not.
  CHECK(report::wait_state_of(reduce, wait).empty());
  wait.ranks = {0};
  CHECK(report::wait_state_of(reduce, wait) == "Early Reduce");
  wait.ranks = {1, 3};
  CHECK(report::wait_state_of(reduce, wait).empty());
  wait.comm.reset();
  wait.call = "Recv of 4 uint8 from 3, p2p seq 2 of world";
  CHECK(report::wait_state_of(reduce, wait) == "Late Sender");
  wait.call = "Send of 4 uint8 to 3, p2p seq 2 of world";
  CHECK(report::wait_state_of(reduce, wait) == "Late Receiver");
  wait.call = "the creation of world";
  CHECK(report::wait_state_of(reduce, wait).empty());
}

TEST_CASE("waits are a tree of communicator, wait state and line") {
  const trace::Run run = timed_run();
  analysis::Report report = test::missing_call_report();
  report.findings[0].waits.push_back(wait_of({0, 1, 3}, {2}));
  report.findings[0].waits[0].text = "ranks 0-1,3 wait in AllReduce for rank 2";
  const std::string page = report::page_html(run, report);
  CHECK(page.find("href=\"#waits\">Waits</a>") != std::string::npos);
  CHECK(page.find("<td>rank 2</td><td></td><td>Wait at NxN</td>") != std::string::npos);
  const size_t branch = page.find("<tr class=\"branch\"><td>world</td><td>1 ms</td>");
  const size_t twig = page.find("<tr class=\"twig\"><td>Wait at NxN, AllReduce</td>");
  const size_t leaf = page.find("<tr class=\"leaf\"><td>train.py:63 metrics_of</td>");
  CHECK(branch != std::string::npos);
  CHECK(twig != std::string::npos);
  CHECK(leaf != std::string::npos);
  CHECK(branch < twig);
  CHECK(twig < leaf);
  CHECK(page.find("<td>60 %</td><td>300 us</td><td>rank 2 (100 %)</td>") != std::string::npos);
  // The call that the verdict is about.
  CHECK(page.find("<td>ranks 0-1,3</td><td>rank 2</td><td>AllReduce, seq 2 of world</td>"
                  "<td>Wait at NxN</td>") != std::string::npos);
  report.findings.clear();
  CHECK(report::page_html(test::missing_call_run(), report).find("href=\"#waits\"") ==
        std::string::npos);
}

TEST_CASE("only who has made the call that the verdict is about waits in it") {
  trace::Run run = timed_run();
  analysis::Report report = test::missing_call_report();
  const auto row = [&] {
    const std::string html = report::waits_html(analysis::Index(run), report, {});
    const size_t begin = html.find("<tbody>");
    const size_t end = html.find("</tbody>");
    return begin == std::string::npos ? std::string() : html.substr(begin + 8, end - begin - 8);
  };
  // Rank 1 waits elsewhere, for one of them; rank 3 is through.
  run.processes[1].ops.pop_back();
  run.processes[1].comms[0].collectives = 2;
  time_on_gpu(run.processes[3].ops[2], 50);
  CHECK(row() ==
        "<tr><td>rank 0</td><td>rank 2</td><td>AllReduce, seq 2 of world</td>"
        "<td>Wait at NxN</td></tr>\n");
  // The one at fault called something else there: what the others called, they wait in.
  trace::Op other = run.processes[0].ops[2];
  other.kind = OpKind::Broadcast;
  other.root_or_peer = 0;
  run.processes[2].ops.push_back(other);
  run.processes[2].comms[0].collectives = 3;
  report.findings[0].culprits[0].op = "Broadcast";
  CHECK(row() ==
        "<tr><td>rank 0</td><td>rank 2</td><td>AllReduce, seq 2 of world</td>"
        "<td>-</td></tr>\n");
  // Its stream has not come to its call.
  run.processes[2].ops[2].kind = OpKind::AllReduce;
  report.findings[0].verdict = analysis::Verdict::stream_blocked;
  CHECK(row().find("<td>Wait at NxN</td>") != std::string::npos);
  // Nobody is left.
  time_on_gpu(run.processes[0].ops[2], 50);
  CHECK(row().empty());
}

TEST_CASE("bandwidth stands beside that of peers and what no larger operations reached") {
  const trace::Run run = test::missing_call_run();
  const analysis::Index index(run);
  constexpr uint64_t kMebibyte = 1 << 20;
  std::vector<statistics::OperationRow> operations = {
      operation(1, kMebibyte, 100), operation(2, kMebibyte, 120), operation(3, kMebibyte, 50),
      operation(1, kMebibyte / 64, 20)};
  operations.push_back(operation(4, kMebibyte, 10));
  operations.back().nranks = 8;  // of another shape
  operations.push_back(operation(5, kMebibyte, 10));
  operations.back().timed = report::kTellingCalls - 1;
  const std::vector<report::BandwidthRow> rows = report::bandwidth_rows(index, operations);
  REQUIRE(rows.size() == operations.size());
  // Half as fast as its peers: most was lost there.
  CHECK(rows[0].operation == 2);
  CHECK(rows[0].peers == 2);
  CHECK(rows[0].of_peers == 100.0);  // of two the lower one, as in the table's other medians
  CHECK(rows[0].reached == 120.0);
  for (const report::BandwidthRow& row : rows) {
    if (row.operation == 3) {
      CHECK(row.peers == 0);
      CHECK(row.reached == 20.0);  // a larger one counts for nothing
    }
    if (row.operation == 4) CHECK(row.reached == 10.0);
    if (row.operation == 5) CHECK_FALSE(row.reached.has_value());
  }
  const std::string html = report::bandwidth_html(index, operations);
  CHECK(html.find("<td>50.00</td><td>50 % of 100.00 (2)</td><td>42 % of 120.00</td>") !=
        std::string::npos);
  CHECK(report::bandwidth_html(index, {}).empty());
}

TEST_CASE("without GPU times there is no bandwidth, and the page says so") {
  const trace::Run run = test::missing_call_run();
  const std::string page = report::page_html(run, test::missing_call_report());
  CHECK(page.find("No call has a GPU time: there is no bandwidth.") != std::string::npos);
}

}  // namespace test_page_waits
