// Logs of jobs: what PyTorch, NCCL, launchers and the kernel say in words.
#include "trace/import/job_log.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/judge_log.h"
#include "trace/import/log_pattern.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;

namespace {

std::string number(int64_t value) { return std::to_string(value); }

// As PyTorch 2.6 writes it: a time-out, then the position of the rank that gave up.
std::string gave_up(int rank, int64_t seq, const std::string& op, int64_t elements,
                    const std::string& group = "0(default_pg)", int64_t completed = 40) {
  const std::string head = "[rank" + number(rank) + "]:[E816 01:45:40.1 ProcessGroupNCCL.cpp:607] ";
  return head + "[Rank " + number(rank) +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + number(seq) +
         ", OpType=" + op + ", NumelIn=" + number(elements) + ", NumelOut=" + number(elements) +
         ", Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n" + head +
         "[PG ID 0 PG GUID " + group + " Rank " + number(rank) +
         "]  failure detected by watchdog at work sequence id: " + number(seq) +
         " PG status: last enqueued work: " + number(seq) +
         ", last completed work: " + number(completed) + "\n";
}

std::string dump_signal(int rank, int64_t enqueued) {
  return "[rank" + number(rank) +
         "]:[E816 01:45:41.1 ProcessGroupNCCL.cpp:1685] [PG ID 0 PG GUID 0(default_pg) Rank " +
         number(rank) +
         "] Received a dump signal due to a collective timeout from  rank 0 and we will try our "
         "best to dump the debug info. Last enqueued NCCL work: " +
         number(enqueued) + ", last completed NCCL work: " + number(enqueued) + ".\n";
}

std::string world(int size) {
  return "n:10:1 [0] NCCL INFO ncclCommInitRank comm 0x0a rank 0 nranks " + number(size) +
         " cudaDev 0 commId 0x5 - Init COMPLETE\n";
}

std::vector<int32_t> culprits(const analysis::Report& report) {
  std::vector<int32_t> ranks;
  for (const auto& culprit : report.findings.front().culprits) ranks.push_back(culprit.rank);
  return ranks;
}

const analysis::Finding& lead(const analysis::Report& report) { return report.findings.front(); }

}  // namespace

TEST_CASE("a pattern matches with and without what stands in braces") {
  LogValues values;
  const char* const pattern =
      "W({SeqNum=<seq>, }OpType=<op>{, In=<in>{, Out=<out>}}) ran for <ran> ms";
  REQUIRE(match_log_pattern(pattern, "x W(OpType=ALL_X) ran  for 12 ms", values));
  CHECK(values["op"] == "ALL_X");
  CHECK_FALSE(values.has("seq"));
  REQUIRE(match_log_pattern(pattern, "W(SeqNum=7, OpType=A, In=3, Out=-4) ran for 12 ms", values));
  CHECK(values.number("seq", 0) == 7);
  CHECK(values.number("out", 0) == -4);
  CHECK_FALSE(match_log_pattern(pattern, "W(SeqNum=x, OpType=A) ran for 12 ms", values));
  CHECK_FALSE(match_log_pattern(pattern, "W(OpType=A) ran for 12", values));
}

TEST_CASE("a rank that is behind the call that others gave up is named") {
  std::string log = world(4);
  for (const int rank : {0, 1, 3}) log += gave_up(rank, 50, "ALLREDUCE", 10);
  const analysis::Report report = judge_log(log + dump_signal(2, 49));
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(culprits(report) == std::vector<int32_t>{2});
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3});
  CHECK(lead(report).summary.find("the call began at 01:35:39") != std::string::npos);
  CHECK(report.status == 1);
}

TEST_CASE("a rank that has made the call, too, is not behind") {
  std::string log = world(4);
  for (const int rank : {0, 1, 3}) log += gave_up(rank, 50, "ALLREDUCE", 10);
  const analysis::Report report = judge_log(log + dump_signal(2, 50));
  CHECK(lead(report).confidence == Confidence::open);
}

TEST_CASE("a position in another group says nothing of the call that others gave up") {
  std::string log;
  for (const int rank : {0, 1}) log += gave_up(rank, 50, "ALLREDUCE", 10, "17(tp)");
  const analysis::Report report = judge_log(log + dump_signal(2, 3));
  CHECK(lead(report).confidence == Confidence::open);
  CHECK(lead(report).culprits.empty());
}

TEST_CASE("calls of other kinds at one position of a group are a mismatch") {
  std::string log = world(4);
  for (const int rank : {0, 1, 3}) log += gave_up(rank, 50, "ALLREDUCE", 10);
  const analysis::Report report = judge_log(log + gave_up(2, 50, "BROADCAST", 5056));
  CHECK(lead(report).verdict == Verdict::op_mismatch);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(culprits(report) == std::vector<int32_t>{2});
}

TEST_CASE("sizes that may differ between ranks are no mismatch") {
  for (const char* op : {"BROADCAST", "ALLTOALL_BASE", "GATHER", "SCATTER", "SEND", "COALESCED"}) {
    CAPTURE(op);
    const analysis::Report report =
        judge_log(world(2) + gave_up(0, 50, op, 10) + gave_up(1, 50, op, 20));
    CHECK(lead(report).verdict == Verdict::stuck_on_gpu);
    CHECK(lead(report).confidence == Confidence::open);
  }
}

TEST_CASE("an all-reduce of other sizes at one position is a mismatch") {
  const analysis::Report report =
      judge_log(world(2) + gave_up(0, 50, "ALLREDUCE", 10) + gave_up(1, 50, "ALLREDUCE", 20));
  CHECK(lead(report).verdict == Verdict::count_mismatch);
  CHECK(culprits(report) == std::vector<int32_t>{0, 1});
}

TEST_CASE("ranks of different groups that wait at one number made no different calls") {
  const analysis::Report report = judge_log(gave_up(0, 50, "ALLREDUCE", 10, "3(dp)") +
                                            gave_up(1, 50, "ALLGATHER", 20, "4(tp)"));
  for (const auto& finding : report.findings) CHECK(finding.confidence == Confidence::open);
  CHECK(report.status != 0);
}

TEST_CASE("ranks that print no time-out are named, and not accused for certain") {
  std::string log = world(8);
  for (const int rank : {1, 2, 3, 4, 6, 7}) log += gave_up(rank, 9, "ALLGATHER", 10);
  log += "step 9 was not finished\n";
  const analysis::Report report = judge_log(log);
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).confidence == Confidence::open);
  CHECK(culprits(report) == std::vector<int32_t>{0, 5});
}

TEST_CASE("the first call ever of a group that nobody finishes is a communicator that fails") {
  std::string log = world(2);
  for (const int rank : {0, 1}) log += gave_up(rank, 1, "ALLREDUCE", 1, "0(default_pg)", -1);
  CHECK(lead(judge_log(log)).verdict == Verdict::init_incomplete);
}

TEST_CASE("two ranks whose calls PyTorch compared are named for certain") {
  const analysis::Report report = judge_log(
      "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
      "CollectiveFingerPrint(SequenceNumber=513876813OpType=ALLREDUCE, TensorShape=[2], "
      "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float)), but Rank 1 is running "
      "collective: CollectiveFingerPrint(SequenceNumber=513876813OpType=REDUCE, TensorShape=[2], "
      "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float)).\n");
  CHECK(lead(report).verdict == Verdict::op_mismatch);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK(culprits(report) == std::vector<int32_t>{0, 1});
}

TEST_CASE("shapes that PyTorch compared tell the kind of the mismatch") {
  const std::string begin =
      "Detected mismatch between collectives on ranks. Rank 3 is running inconsistent collective: "
      "CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[2, 4], TensorDtypes=Float, x), but "
      "Rank 1 is running inconsistent collective: CollectiveFingerPrint(OpType=ALLREDUCE, ";
  CHECK(lead(judge_log(begin + "TensorShape=[2, 5], TensorDtypes=Float, x)\n")).verdict ==
        Verdict::count_mismatch);
  CHECK(lead(judge_log(begin + "TensorShape=[2, 4], TensorDtypes=Half, x)\n")).verdict ==
        Verdict::dtype_mismatch);
}

TEST_CASE("a log that holds equal calls and a time-out is not in lockstep") {
  const auto call = [](const char* pid, const char* comm) {
    return std::string("n:") + pid +
           ":1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 " +
           "count 10 datatype 7 op 0 root 0 comm " + comm + " [nranks=2] stream 0x1\n";
  };
  const std::string calls =
      world(2) +
      "n:11:1 [1] NCCL INFO ncclCommInitRank comm 0x1a rank 1 nranks 2 cudaDev 1 commId 0x5 - Init "
      "COMPLETE\n" +
      call("10", "0x0a") + call("11", "0x1a");
  CHECK(lead(judge_log(calls)).verdict == Verdict::in_lockstep);
  const analysis::Report timed_out = judge_log(calls + gave_up(0, 1, "ALLREDUCE", 10));
  CHECK(timed_out.status != 0);
  for (const auto& finding : timed_out.findings) CHECK(finding.verdict != Verdict::in_lockstep);
  const analysis::Report warned = judge_log(
      calls + "n:10:9 [0] transport/x.cc:1 NCCL WARN something that nobody has ever seen\n");
  CHECK(warned.status == 3);
  CHECK(lead(warned).summary.find("nobody has ever seen") != std::string::npos);
}

TEST_CASE("what NCCL warns of in every job is no sign of a hang") {
  const Run run =
      read_log(world(2) + "n:10:9 [0] misc/x.cc:1 NCCL WARN lib wrapper not initialized.\n" +
               "n:10:9 [0] NCCL INFO transport/net_ib.cc:52 -> 3\n");
  CHECK(run.logs.empty());
}

TEST_CASE("an error in front of the first time-out leads, one behind it does not") {
  const std::string xid = "kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  const std::string waits = world(2) + gave_up(0, 9, "ALLREDUCE", 10);
  CHECK(lead(judge_log(xid + waits)).verdict == Verdict::cuda_error);
  CHECK(lead(judge_log(xid + waits)).summary.find("Xid 79") != std::string::npos);
  CHECK(lead(judge_log(waits + xid)).verdict != Verdict::cuda_error);
}

TEST_CASE("a process that its own watchdog ended is not the one that began it") {
  const std::string died = "failed (exitcode: -6) local_rank: 1 (pid: 471) of binary: python\n";
  const analysis::Report report = judge_log(died);
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(report.status == 3);
  const analysis::Report killed =
      judge_log("failed (exitcode: -9) local_rank: 1 (pid: 471) of binary: python\n");
  CHECK(lead(killed).verdict == Verdict::rank_dead);
}

TEST_CASE("a rank of an old PyTorch is the one that its line names") {
  const std::string log =
      "[E ProcessGroupNCCL.cpp:475] [Rank 7] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=12, OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800116 milliseconds "
      "before timing out.\n"
      "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800116 milliseconds "
      "before timing out.\n";
  const analysis::Report report = judge_log(log);
  CHECK(lead(report).verdict == Verdict::op_mismatch);
  CHECK(culprits(report) == std::vector<int32_t>{3, 7});
}

TEST_CASE("each log says how many lines were read, and who spoke") {
  const Run run = read_log(world(4) + gave_up(2, 9, "ALLREDUCE", 10));
  REQUIRE_FALSE(run.issues.empty());
  CHECK(run.issues.back().text.find("3 lines read, 2 facts") != std::string::npos);
  CHECK(run.issues.back().text.find("1 rank speaks in them, of 4 in the job") != std::string::npos);
}

namespace {

// The time of day of every line, which is 01:45 in what gave_up and dump_signal make.
std::string at_time(std::string text, const std::string& time) {
  for (size_t at = 0; (at = text.find("01:45:4", at)) != std::string::npos;) {
    text.replace(at, 8, time);
  }
  return text;
}

std::string restarted(int left, const std::string& time) {
  return "[2024-08-16 " + time +
         ",000] torch.distributed.elastic.agent.server.api: [INFO] [default] Worker group "
         "FAILED. " +
         number(left) + "/3 attempts left; will restart worker group\n";
}

// Rank 2 of 4 does not make call `seq`.
std::string behind_at(int64_t seq) {
  std::string log;
  for (const int rank : {0, 1, 3}) log += gave_up(rank, seq, "ALLREDUCE", 10);
  return log + dump_signal(2, seq - 1);
}

bool says(const analysis::Finding& finding, const std::string& words) {
  return finding.summary.find(words) != std::string::npos;
}

// Findings that are about an attempt.
int64_t attempts_told(const analysis::Report& report) {
  return std::count_if(report.findings.begin(), report.findings.end(),
                       [](const auto& finding) { return finding.summary.starts_with("attempt "); });
}

}  // namespace

TEST_CASE("a job that was started again and went on is judged by the attempt that failed") {
  const std::string log =
      world(4) + behind_at(50) + restarted(3, "01:45:50") + "[rank2]: step 51 loss 0.5\n" +
      "torchrun: failed (exitcode: -15) local_rank: 1 (pid: 471) of binary: python\n";
  const analysis::Report report = judge_log(log);
  CHECK(lead(report).verdict == Verdict::missing_call);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(culprits(report) == std::vector<int32_t>{2});
  CHECK(says(lead(report), "attempt 0 of the job (from line 1 on)"));
  CHECK(says(lead(report),
             "the job was started again after that, and attempt 1 of the job (from "
             "line 9 on"));
}

TEST_CASE("a job that fails twice is judged by its last attempt, and nothing of the first") {
  std::string second;
  for (const int rank : {0, 1, 2}) second += gave_up(rank, 70, "ALLGATHER", 10);
  second += dump_signal(3, 69);
  const std::string log =
      world(4) + behind_at(50) + restarted(3, "01:45:50") + at_time(second, "03:00:00");
  const analysis::Report report = judge_log(log);
  CHECK(culprits(report) == std::vector<int32_t>{3});
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 2});
  CHECK(says(lead(report), "attempt 1 of the job (from line 9 on: the launcher starts"));
  CHECK(says(lead(report), "call 70 of default_pg"));
  REQUIRE(attempts_told(report) == 2);
  CHECK(says(report.findings[1], "attempt 0 of the job"));
  CHECK(report.findings[1].culprits.front().rank == 2);
}

TEST_CASE("a job that fails twice alike is judged by its first attempt") {
  const std::string log =
      world(4) + behind_at(50) + restarted(3, "01:45:50") + at_time(behind_at(50), "03:00:00");
  const analysis::Report report = judge_log(log);
  CHECK(culprits(report) == std::vector<int32_t>{2});
  CHECK(says(lead(report), "attempt 0 of the job (from line 1 on)"));
  CHECK(says(lead(report), "attempt 1 failed alike"));
  CHECK(attempts_told(report) == 1);
}

TEST_CASE("attempts are told apart by times where no launcher tells of them") {
  std::string second;
  for (const int rank : {0, 1, 2}) second += gave_up(rank, 70, "ALLGATHER", 10);
  second += dump_signal(3, 69);
  const analysis::Report report = judge_log(world(4) + behind_at(50) + at_time(second, "03:00:00"));
  CHECK(culprits(report) == std::vector<int32_t>{3});
  CHECK(says(lead(report), "attempt 1 of the job (from line 9 on: rank 0 had given up before)"));
}

TEST_CASE("attempts are told apart by the calls' numbers where lines have no times") {
  const std::string first = at_time(world(4) + behind_at(50), "        ");
  std::string second;
  for (const int rank : {0, 1, 2}) second += gave_up(rank, 7, "ALLGATHER", 10);
  second += dump_signal(3, 6);
  const analysis::Report report = judge_log(first + at_time(second, "        "));
  CHECK(culprits(report) == std::vector<int32_t>{3});
  CHECK(says(lead(report), "attempt 1 of the job (from line 9 on"));
}

TEST_CASE("new processes that become the same ranks after a failure are another attempt") {
  const std::string again =
      "n:99:1 [0] NCCL INFO ncclCommInitRank comm 0x0b rank 0 nranks 4 cudaDev 0 commId 0x6 - Init "
      "START\n";
  const std::string calls = behind_at(50);
  CHECK(says(lead(judge_log(world(4) + calls + again)), "attempt 0 of the job (from line 1 on)"));
  // Before anything failed it is a communicator like others.
  CHECK_FALSE(says(lead(judge_log(world(4) + again + calls)), "attempt"));
}

TEST_CASE("time-outs of two groups of one attempt are no attempts") {
  std::string log = world(4);
  for (const int rank : {0, 1, 3}) log += gave_up(rank, 50, "ALLREDUCE", 10);
  log += gave_up(0, 7, "ALLGATHER", 10, "17(tp)") + gave_up(1, 9, "ALLGATHER", 10, "18(dp)");
  const analysis::Report report = judge_log(log + dump_signal(2, 49));
  CHECK(culprits(report) == std::vector<int32_t>{2});
  for (const auto& finding : report.findings) CHECK_FALSE(says(finding, "attempt"));
  // Nor without times: numbers of two groups say nothing of each other.
  for (const auto& finding : judge_log(at_time(log, "        ")).findings) {
    CHECK_FALSE(says(finding, "attempt"));
  }
}

TEST_CASE("a line of a slower host behind the restart is still of the attempt before") {
  // The call that rank 3 gives up a second after the restart began ten minutes before it.
  std::string log = world(4);
  for (const int rank : {0, 1}) log += gave_up(rank, 50, "ALLREDUCE", 10);
  log += restarted(3, "01:45:50") + at_time(gave_up(3, 50, "ALLREDUCE", 10), "01:45:51") +
         at_time(dump_signal(2, 49), "01:45:52");
  const analysis::Report report = judge_log(log);
  CHECK(culprits(report) == std::vector<int32_t>{2});
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3});
}

TEST_CASE("a launcher's directories tell the attempts of the logs in them") {
  CHECK(attempt_in_path("logs/attempt_2/0/stderr.log") == 2);
  CHECK(attempt_in_path("logs/attempt_2.log") == kUntold);
  CHECK(attempt_in_path("logs/my_attempt_2/x.log") == kUntold);
  Run run;
  const auto add = [&](const char* path, const std::string& text) {
    import_bytes(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, run.processes,
                 run.issues, &run.logs);
  };
  for (const char* rank : {"0", "1"}) {
    const int number = rank[0] - '0';
    add((std::string("l/attempt_0/") + rank + "/stderr.log").c_str(),
        gave_up(number, 50, "ALLREDUCE", 10));
    add((std::string("l/attempt_1/") + rank + "/stderr.log").c_str(),
        gave_up(number, 60, number == 0 ? "ALLGATHER" : "BROADCAST", 10));
  }
  const analysis::Report report = analysis::analyse(run);
  CHECK(lead(report).verdict == Verdict::op_mismatch);
  CHECK(says(lead(report), "attempt 1 of the job"));
}

TEST_CASE("logs that count their attempts each for itself are judged no surer than open") {
  Run run;
  const auto add = [&](const char* path, const std::string& text) {
    import_bytes(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, run.processes,
                 run.issues, &run.logs);
  };
  add("a.log",
      gave_up(0, 50, "ALLREDUCE", 10) + at_time(gave_up(0, 60, "ALLGATHER", 10), "03:00:00"));
  add("b.log", at_time(gave_up(1, 60, "ALLGATHER", 10), "03:00:00"));
  const analysis::Report report = analysis::analyse(run);
  for (const auto& finding : report.findings) CHECK(finding.confidence == Confidence::open);
  CHECK(says(lead(report), "do not tell which of their lines are of one attempt"));
}

TEST_CASE("a rank whose lines were left out of a log with too many of them is not accused") {
  const std::string before =
      world(4) + gave_up(0, 50, "ALLREDUCE", 10) + gave_up(1, 50, "ALLREDUCE", 10);
  std::string warnings;
  for (int i = 0; i < 100'000; ++i) {
    warnings += "n:1" + number(i % 2) + ":1 [0] p2p.cc:7 NCCL WARN thing " + number(i) + "\n";
  }
  const std::string behind = gave_up(2, 50, "ALLREDUCE", 10) + gave_up(3, 50, "ALLREDUCE", 10);

  const analysis::Report few = judge_log(before + warnings.substr(0, 5000));
  CHECK(few.findings.front().verdict == Verdict::missing_call);

  const Run run = read_log(before + warnings + behind);
  REQUIRE(run.logs.size() == 1);
  CHECK(run.logs.front().sayings.size() == 100'000);
  CHECK(run.logs.front().left_out_from == 100'002);
  CHECK(run.issues.back().text.find("more of them, from line 100002 on, were left out") !=
        std::string::npos);
  const analysis::Report report = analysis::analyse(run);
  for (const auto& finding : report.findings) CHECK(finding.verdict != Verdict::missing_call);
  CHECK(says(lead(report), "others may have, too, in lines that were left out"));
  // What makes no saying is read on.
  CHECK(read_log(before + warnings + world(8)).logs.front().world_size == 8);
}

TEST_CASE("a line of a form that goes on may be longer than what is shown of it") {
  const std::string script =
      "#0 " + std::string(300, ' ') + "forward from " + std::string(500, 'x') + "/model.py:12\n";
  const Run run = read_log(gave_up(0, 50, "ALLREDUCE", 10) +
                           "[rank0]: Stack trace of the failed collective:\n" + script);
  REQUIRE(run.logs.size() == 1);
  REQUIRE(run.logs.front().sayings.back().kind == SayingKind::script_line);
  CHECK(run.logs.front().sayings.back().quote.starts_with("#0 "));
}

TEST_CASE("a line of many colours in a container's log is read as without them") {
  std::string coloured = R"({"log":")";
  for (const char c : gave_up(0, 50, "ALLREDUCE", 10)) {
    if (c == '\n') break;
    // Marks are looked for in the file as it is.
    const bool is_digit = c >= '0' && c <= '9';
    coloured +=
        is_digit ? R"(\u001b[1;31m)" + std::string(1, c) + R"(\u001b[0m)" : std::string(1, c);
  }
  coloured += R"(\n","stream":"stderr","time":"2024-08-16T01:45:40.1Z"})"
              "\n";
  const Run run = read_log(coloured);
  REQUIRE(run.logs.size() == 1);
  CHECK(run.logs.front().sayings.front().rank == 0);
  CHECK(run.logs.front().sayings.front().seq == 50);
}
