// What is said of logs as they stand in public: parts of logs, logs that were cut, and lines that
// several ranks, launchers or reports print alike. Nobody is accused of what others left out, and
// nothing is well where a line says otherwise.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;
using Ranks = std::vector<int32_t>;

namespace public_verdicts {

std::string init(int rank, const std::string& what, int nranks = 2) {
  const std::string number = std::to_string(rank);
  return "gpu7:41" + number + ":52" + number + " [" + number +
         "] NCCL INFO ncclCommInitRank comm 0x5f10a" + number + "0 rank " + number + " nranks " +
         std::to_string(nranks) + " cudaDev " + number + " nvmlDev " + number +
         " busId 4f000 commId 0x7ab19c2200d1e4f3 - " + what + "\n";
}

std::string call(int rank, int number) {
  const std::string name = std::to_string(rank);
  return "gpu7:41" + name + ":41" + name + " [" + name + "] NCCL INFO AllReduce: opCount " +
         std::to_string(number) +
         " sendbuff 0x7e1000000000 recvbuff 0x7e1000000000 count 64 datatype 7 op 0 root 0 comm "
         "0x5f10a" +
         name + "0 [nranks=2] stream 0x61\n";
}

std::string in_step() {
  std::string log;
  for (const char* what : {"Init START", "Init COMPLETE"}) log += init(0, what) + init(1, what);
  for (int number = 0; number < 3; ++number) log += call(0, number) + call(1, number);
  return log;
}

std::string watchdog(int rank, const std::string& work) {
  const std::string name = std::to_string(rank);
  return "[E ProcessGroupNCCL.cpp:475] [Rank " + name +
         "] Watchdog caught collective operation timeout: WorkNCCL(" + work +
         "Timeout(ms)=1200000) ran for 1200044 milliseconds before timing out.\n";
}

std::string timeout_at(int rank, int number, const std::string& group = "PG 0") {
  const std::string name = std::to_string(rank);
  return "[rank" + name + "]:[E702 03:14:15.1 ProcessGroupNCCL.cpp:1537] [" + group + " Rank " +
         name + "] Timeout at NCCL work: " + std::to_string(number) +
         ", last enqueued NCCL work: " + std::to_string(number) +
         ", last completed NCCL work: " + std::to_string(number - 1) + ".\n";
}

std::string of_kind(int rank, const std::string& op, int number, const std::string& sizes) {
  const std::string name = std::to_string(rank);
  return "[rank" + name + "]:[E702 03:14:15.1 ProcessGroupNCCL.cpp:607] [Rank " + name +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" +
         std::to_string(number) + ", OpType=" + op + ", " + sizes +
         ", Timeout(ms)=1200000) ran for 1200044 milliseconds before timing out.\n";
}

std::string report_of_ras(const std::string& total, const std::string& row,
                          const std::string& errors) {
  return "NCCL version 2.26.5 compiled with CUDA 12.8\n\nJob summary\n===========\n\n"
         "  Nodes  Processes         GPUs  Processes     GPUs\n"
         "(total)   per node  per process    (total)  (total)\n" +
         total + "\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n" +
         row + "\n\nErrors\n======\n\n" + errors;
}

bool is_shown_once(const analysis::Finding& finding, const std::string& record) {
  return std::count_if(finding.evidence.begin(), finding.evidence.end(),
                       [&](const auto& shown) { return shown.record == record; }) == 1;
}

}  // namespace public_verdicts
using namespace public_verdicts;

TEST_CASE("calls in step are no all-clear beside an error that names no rank") {
  const std::string traceback =
      "Traceback (most recent call last):\n  File \"fit.py\", line 31, in step\n"
      "ValueError: no such column\n";
  const analysis::Report report = judge_log(in_step() + traceback);
  const analysis::Finding& lead = report.findings.front();
  CAPTURE(lead.summary);
  CHECK(lead.verdict == Verdict::insufficient);
  CHECK(lead.culprits.empty());
  CHECK(report.status == 3);
  CHECK(holds(lead.summary, "in line 13 a rank that the log does not name raised ValueError"));
  CHECK(holds(lead.summary, "all 2 processes made the same calls"));
  CHECK_FALSE(holds(lead.next, "nothing to do"));
  // Without it they are.
  const analysis::Report clear = judge_log(in_step());
  CHECK(clear.findings.front().verdict == Verdict::in_lockstep);
  CHECK(clear.status == 0);
}

TEST_CASE("calls in step are no all-clear beside a time-out or an error of a rank") {
  const Judged waited = judged(in_step() + gave_up(1));
  CHECK(waited.verdict == Verdict::insufficient);
  CHECK(waited.culprits.empty());
  CHECK(holds(waited.summary, "rank 1 waited in ALLREDUCE, call 41"));
  CHECK(judge_log(in_step() + gave_up(1)).status == 3);
  const Judged raised = judged(in_step() + "[rank1]: KeyError: 'mask'\n");
  CHECK(raised.verdict == Verdict::rank_dead);
  CHECK(raised.culprits == Ranks{1});
}

TEST_CASE("a log that ends while a communicator is made accuses no rank of not coming") {
  const std::string start = init(0, "Init START");
  const analysis::Report report = judge_log(start);
  CAPTURE(report.findings.front().summary);
  CHECK(report.findings.front().verdict == Verdict::insufficient);
  CHECK(report.findings.front().culprits.empty());
  CHECK(report.status == 3);
  CHECK(holds(report.findings.front().summary,
              "of its rank 1 the log holds nothing: whether it "
              "came it does not tell"));
  CHECK_FALSE(holds(report.findings.front().summary, "0 us"));
  for (const char* words : {"Bootstrap timings total 0.41 (create 0.01, send 0.02, recv 0.3)",
                            "Connected all rings", "Connected all rings, use ring PXN 0 GDR 1"}) {
    CAPTURE(words);
    const Judged met = judged(start + "gpu7:410:520 [0] NCCL INFO " + words + "\n");
    CHECK(met.verdict == Verdict::insufficient);
    CHECK(holds(met.summary, "but all had come, for NCCL had begun to connect them"));
  }
  // What another thread says is of another communicator.
  CHECK_FALSE(holds(judged(start + "gpu7:410:599 [0] NCCL INFO Connected all rings\n").summary,
                    "all had come"));
}

TEST_CASE("time-outs in calls of several kinds without numbers accuse nobody who is silent") {
  const Judged found =
      judged(watchdog(0, "OpType=ALLREDUCE, ") + watchdog(1, "OpType=BROADCAST, ") +
             watchdog(3, "OpType=BROADCAST, "));
  CAPTURE(found.summary);
  CHECK(found.verdict == Verdict::insufficient);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, "rank 0 waited in ALLREDUCE, and ranks 1,3 waited in BROADCAST"));
  // In one kind of call the silent one is named, and with numbers the difference.
  const Judged alike =
      judged(watchdog(0, "OpType=ALLREDUCE, ") + watchdog(1, "OpType=ALLREDUCE, ") +
             watchdog(3, "OpType=ALLREDUCE, ") + kGoesOn);
  CHECK(alike.culprits == Ranks{2});
  const Judged numbered = judged(watchdog(0, "SeqNum=5, OpType=ALLREDUCE, ") +
                                 watchdog(1, "SeqNum=5, OpType=BROADCAST, "));
  CHECK(numbered.verdict == Verdict::op_mismatch);
}

TEST_CASE("a rank that tells at which call its time was over has waited there") {
  const Judged both = judged(timeout_at(2, 17) + timeout_at(3, 17));
  CAPTURE(both.summary);
  CHECK(both.verdict == Verdict::insufficient);
  CHECK(both.summary.starts_with("ranks 2-3 waited in call 17 of group 0, and gave up"));
  const Judged apart = judged(gave_up(1) + timeout_at(0, 42));
  CHECK_FALSE(holds(apart.summary, "rank 0 prints no time-out"));
  CHECK(apart.culprits.empty());
  // Of an error the watchdog tells so, too.
  const Judged failed = judged(
      "[rank3]:[E702 03:14:15.1 ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
      "Process group watchdog thread terminated with exception: CUDA error: an illegal memory "
      "access was encountered\n" +
      timeout_at(3, 17));
  CHECK(failed.verdict == Verdict::cuda_error);
  CHECK(failed.culprits == Ranks{3});
}

TEST_CASE("a rank whose watchdog tells of a failed call is not silent, whatever it was") {
  const std::string failed =
      "[rank0]:[E702 03:14:15.1 ProcessGroupNCCL.cpp:1664] [PG 4 Rank 0] Exception (either an "
      "error or timeout) detected by watchdog at work: 12, last enqueued NCCL work: 12, last "
      "completed NCCL work: 11.\n";
  CHECK(judged(failed + gave_up(1) + gave_up(2) + kGoesOn).culprits.empty());
  CHECK(judged(gave_up(1) + gave_up(2) + kGoesOn).culprits == Ranks{0});
}

TEST_CASE("a rank whose time-out lost the head of its line, or its end, is not silent") {
  const std::string headless =
      " ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for "
      "600026 milliseconds before timing out.\n";
  const std::string others = gave_up(0) + gave_up(2);
  CHECK(judged(headless + others + kGoesOn).culprits.empty());
  CHECK(judged(others + kGoesOn).culprits == Ranks{1});
  const std::string whole = gave_up(2);
  for (const size_t length : {whole.find(" ran for ") + 5, whole.find(", NumelOut") + 4,
                              whole.find("WorkNCCL"), whole.find("collective")}) {
    const std::string cut = whole.substr(0, length);
    const std::string front = gave_up(0) + cut;
    const std::string behind = gave_up(1) + gave_up(3) + kGoesOn;
    for (const std::string& log : {three_gave_up() + cut, front + "\n" + behind, front + behind}) {
      const Judged found = judged(log);
      CAPTURE(found.summary);
      CHECK(found.culprits.empty());
    }
  }
  CHECK(judged(three_gave_up() + kGoesOn).culprits == Ranks{2});
}

TEST_CASE("the sizes of a call tell how many ranks its group has at least") {
  const std::string sizes = "NumelIn=8192, NumelOut=1024";
  const Judged found = judged(of_kind(0, "_REDUCE_SCATTER_BASE", 9, sizes) +
                              of_kind(3, "_REDUCE_SCATTER_BASE", 9, sizes) +
                              of_kind(4, "_REDUCE_SCATTER_BASE", 9, sizes));
  CAPTURE(found.summary);
  CHECK(found.verdict == Verdict::insufficient);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, "ranks 1-2,5-7 print no time-out"));
  const std::string gathered = "NumelIn=1024, NumelOut=4096";
  CHECK(judged(of_kind(0, "_ALLGATHER_BASE", 9, gathered) +
               of_kind(1, "_ALLGATHER_BASE", 9, gathered) +
               of_kind(3, "_ALLGATHER_BASE", 9, gathered) + kGoesOn)
            .culprits == Ranks{2});
  // Of four of a larger job nobody tells which these are.
  CHECK(judged(of_kind(0, "_ALLGATHER_BASE", 9, gathered) +
               of_kind(1, "_ALLGATHER_BASE", 9, gathered) +
               of_kind(7, "_ALLGATHER_BASE", 9, gathered))
            .culprits.empty());
}

TEST_CASE("each side of a mismatch has the number that PyTorch prints of it") {
  const auto mismatch = [](const std::string& number) {
    return "RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running "
           "collective: CollectiveFingerPrint(SequenceNumber=57, OpType=ALLGATHER, "
           "TensorShape=[4], TensorDtypes=Long, TensorDeviceTypes=x), but Rank 5 is running "
           "collective: CollectiveFingerPrint(SequenceNumber=" +
           number + "OpType=REDUCE).\n";
  };
  const analysis::Report report = judge_log(mismatch("3"));
  const analysis::Finding& lead = report.findings.front();
  REQUIRE(lead.culprits.size() == 2);
  CHECK(lead.culprits[0].seq == 57u);
  CHECK(lead.culprits[1].seq == 3u);
  CHECK(lead.confidence == Confidence::likely);
  CHECK(holds(lead.summary, "calls 57 and 3 of the group"));
  const Judged same = judged(mismatch("57"));
  CHECK(same.confidence == Confidence::certain);
  CHECK_FALSE(holds(same.summary, "of the group, so"));
}

// As torchrun tells of the process of its own that failed first.
std::string report_of_torchrun(int rank, int pid, const std::string& clock) {
  const std::string name = std::to_string(rank);
  const std::string time =
      clock.empty() ? std::string() : "  time      : 2024-05-06_" + clock + "\n";
  return "Root Cause (first observed failure):\n[0]:\n" + time +
         "  host      : n1\n  rank      : " + name +
         " (local_rank: 0)\n  exitcode  : 1 (pid: " + std::to_string(pid) + ")\n";
}

TEST_CASE("of two reports of torchrun of one time neither process is called the first") {
  const std::string clock = "07:08:09";
  // Seven hours are the zone of another host, in which it was the same minute.
  for (const std::string& later :
       {clock, std::string("07:08:13"), std::string("14:08:51"), std::string()}) {
    const Judged found =
        judged(report_of_torchrun(0, 611, clock) + report_of_torchrun(8, 622, later));
    CHECK(found.culprits == Ranks{0, 8});
    CHECK(found.confidence == Confidence::open);
    CHECK(holds(found.summary, "so did rank 8"));
  }
  const Judged one = judged(report_of_torchrun(8, 622, clock));
  CHECK(one.culprits == Ranks{8});
  CHECK(one.confidence == Confidence::likely);
}

TEST_CASE("of two reports of torchrun the earlier leads by its time, wherever it stands") {
  const std::string later = report_of_torchrun(0, 611, "00:00:04");
  const std::string earlier = report_of_torchrun(8, 622, "23:59:51");
  for (const std::string& log : {later + earlier, earlier + later}) {
    const Judged found = judged(log);
    CHECK(found.culprits == Ranks{8});
    CHECK(found.confidence == Confidence::likely);
    CHECK(holds(found.summary, "by the times in the launchers' reports rank 0 ended later"));
  }
}

TEST_CASE("ranks that warn of the same are named together") {
  const auto warning = [](int rank) {
    const std::string name = std::to_string(rank);
    return "[1," + name + "]<stdout>:n3:77" + name + ":78" + name + " [" + name +
           "] enqueue.cc:91 NCCL WARN Cuda failure 'invalid argument'\n";
  };
  const Judged found = judged(warning(0) + warning(3) + gave_up(1));
  CHECK(found.culprits == Ranks{0, 3});
  CHECK(holds(found.summary, "so it does in rank 3"));
  CHECK(judged(warning(0) + gave_up(1)).culprits == Ranks{0});
}

TEST_CASE("all ranks that were given one GPU are named") {
  const auto warning = [](int rank, int other) {
    const std::string name = std::to_string(rank);
    return "[1," + name + "]<stdout>:n3:77" + name + ":78" + name +
           " [0] init.cc:511 NCCL WARN Duplicate GPU detected : rank " + name + " and rank " +
           std::to_string(other) + " both on CUDA device 4f000\n";
  };
  const Judged found = judged(warning(2, 0) + warning(4, 0) + warning(0, 1));
  CHECK(found.culprits == Ranks{0, 1, 2, 4});
  CHECK(holds(found.summary, "ranks 0-2,4 were given GPUs that others have, too"));
  const Judged pair = judged(warning(1, 0));
  CHECK(pair.culprits == Ranks{0, 1});
  CHECK(holds(pair.summary, "two ranks were given the same GPU"));
}

TEST_CASE("a few ranks that RAS finds ahead accuse nobody, and no call is made up") {
  const std::string text = report_of_ras(
      "      2          4            1          8        8",
      "    0         1         2         4         8         8   RUNNING  MISMATCH",
      "#0-0 (7c01de5512aa9f30) MISMATCH\n"
      "  Communicator ranks have different AllGather operation counts\n"
      "  6 ranks have launched up to operation 72\n  2 ranks have launched up to operation 73\n"
      "  Rank 4 -- GPU 0 managed by process 901 on node 192.0.2.9\n"
      "  Rank 5 -- GPU 1 managed by process 902 on node 192.0.2.9\n");
  const analysis::Report report = judge_log(text);
  const analysis::Finding& lead = report.findings.front();
  CAPTURE(lead.summary);
  CHECK(lead.verdict == Verdict::insufficient);
  CHECK(lead.culprits.empty());
  CHECK(report.status == 3);
  CHECK(lead.victims == Ranks{4, 5});
  CHECK(lead.summary.starts_with("ranks 4-5 had made AllGather, seq 72 of "));
  CHECK(holds(lead.summary, "and 6 others of 8 had not"));
  for (const auto& shown : lead.evidence) CHECK_FALSE(holds(shown.text, "last call"));
  for (const auto& row : report.table) CHECK_FALSE(holds(row.last_common, "AllReduce"));
  // One that is behind most others is named.
  std::string behind = text;
  behind.replace(behind.find("6 ranks"), 7, "2 ranks");
  behind.replace(behind.find("2 ranks have launched up to operation 73"), 7, "6 ranks");
  CHECK(judge_log(behind).findings.front().verdict != Verdict::in_lockstep);
}

TEST_CASE("a process that RAS had no answer of is not told as dead, nor by a rank of a part") {
  const std::string incomplete =
      "INCOMPLETE\n  Missing communicator data from 1 job process\n"
      "  Process 733 on node 192.0.2.9 managing GPU 0\n\n#0-0 (7c01de5512aa9f30) INCOMPLETE\n"
      "  Missing communicator data from 1 rank\n"
      "  Rank 1 -- GPU 0 managed by process 733 on node 192.0.2.9\n";
  const std::string row =
      "    0         1         1         2         2         2   RUNNING  INCOMPLETE";
  const auto lead_of = [&](const std::string& total) {
    return judge_log(report_of_ras(total, row, incomplete)).findings.front();
  };
  const analysis::Finding part = lead_of("      2          5            1         10       10");
  CHECK(part.verdict == Verdict::rank_dead);
  CHECK(part.confidence == Confidence::open);
  CHECK(part.summary.starts_with(
      "pid 733 on 192.0.2.9 does not answer RAS: it may be dead, stopped, or slow"));
  const analysis::Finding whole = lead_of("      1          2            1          2        2");
  CHECK(whole.summary.starts_with("rank 1 does not answer RAS"));
}

TEST_CASE("work that the driver removed after another Xid is told by that one") {
  const std::string xid = "kernel: NVRM: Xid (PCI:0000:3f:00): 45, pid=4400, name=python3, Ch 0000";
  const Judged after = judged(xid + " caused by previous Xid 149\n");
  CHECK(holds(after.summary, "after Xid 149, an error of NVLink"));
  CHECK(after.verdict == Verdict::cuda_error);
  CHECK(holds(judged(xid + " caused by previous Xid 13\n").summary, "after an earlier Xid"));
  CHECK(holds(judged(xid + "\n").summary, "because its process ended"));
}

TEST_CASE("an adapter that failed is no link that came or went") {
  const std::string event =
      "n5:61:67 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : ";
  CHECK(holds(judged(event + "local catastrophic error\n").summary,
              "a network adapter of this host failed"));
  CHECK(holds(judged(event + "GID table change\n").summary, "a link came or went"));
  const Judged lost =
      judged(event +
             "port error\nn6:71:77 [4] transport/net_ib.cc:1271 NCCL WARN NET/IB : Got completion "
             "from peer n5<40412> with error 12, opcode 2, len 1, vendor err 129\n" +
             gave_up(1));
  CHECK(
      holds(lost.summary, "in front of it a port of a network adapter went down, as n5:61 tells"));
}

TEST_CASE("memory that a job used up is told without a status that nobody printed") {
  const Judged found = judged("srun: error: n17: tasks 4-6: Out Of Memory\n");
  CHECK(found.verdict == Verdict::rank_dead);
  CHECK(holds(found.summary, "tasks 4-6 on n17 ended: the memory of the job was used up"));
  CHECK_FALSE(holds(found.summary, "-9"));
  CHECK(holds(judged("srun: error: n17: task 4: Killed\n").summary, "ended with status -9"));
}

TEST_CASE("a report of RAS in the log tells how many ranks the job has") {
  const std::string report = report_of_ras(
      "      2          4            1          8        8",
      "    0         1         2         4         8         8   RUNNING      OK", "");
  const Judged found = judged(report + gave_up(5));
  CAPTURE(found.summary);
  CHECK(holds(found.summary, "ranks 0-4,6-7 print no time-out"));
  CHECK(found.culprits.empty());
  // Nothing tells it here.
  const Judged alone = judged(gave_up(5));
  CHECK(holds(alone.summary, "no other rank prints one"));
  CHECK_FALSE(holds(alone.summary, "ranks 0-4"));
}

TEST_CASE("what XLA quotes of NCCL, and the replica that it names, are told") {
  const std::string failed =
      "Execution of replica 5 failed: INTERNAL: NCCL operation ncclCommInitRank(&comm, n, id, r) "
      "failed: unhandled cuda error. Last NCCL warning(error) log entry (may be unrelated) 'Cuda "
      "failure 2 'out of memory''.; current tracing scope: all-gather-start.7\n";
  const Judged found = judged(failed);
  CHECK(holds(found.summary, "NCCL reported an error to replica 5"));
  CHECK(holds(found.summary, "the memory of a GPU was used up"));
  CHECK_FALSE(holds(found.summary, "tracing scope"));
  const Judged nobody =
      judged("x.py: NCCL operation ncclAllReduce(a) failed: unhandled cuda error\n");
  CHECK(holds(nobody.summary, "NCCL reported an error, in a line that names no rank"));
}

TEST_CASE("the last warning behind an error of NCCL is told whatever it means") {
  const std::string error =
      "torch.distributed.DistBackendError: NCCL error in: x.cpp:317, unhandled system error, NCCL "
      "version 2.21.5\nncclSystemError: System call failed.\n";
  CHECK(holds(judged(error + "Last error:\nnvmlDeviceGetName(3) failed: Not Found\n").summary,
              "NCCL's last warning: \"nvmlDeviceGetName(3) failed: Not Found\""));
  CHECK_FALSE(holds(judged(error).summary, "last warning"));
}

TEST_CASE("numbers of calls in groups that nobody names are told, and not which ran ahead") {
  const Judged found = judged(watchdog(0, "SeqNum=806, OpType=ALLREDUCE, ") +
                              watchdog(3, "SeqNum=522, OpType=ALLREDUCE, "));
  CAPTURE(found.summary);
  CHECK(holds(found.summary, "calls 522 and 806 of a group that the log does not name"));
  CHECK(holds(found.summary, "or these are calls of several groups"));
}

TEST_CASE("a line that Ray prints for several processes blames none of them for sure") {
  const std::string died =
      "(raylet) A worker died or was killed while executing a task. Worker PID: 512";
  const Judged several = judged(died + " [repeated 4x across cluster]\n" + gave_up(0) + gave_up(1));
  CAPTURE(several.summary);
  CHECK(several.confidence == Confidence::open);
  CHECK(holds(several.summary, "one of several processes ended"));
  CHECK_FALSE(holds(several.summary, "before anybody gave up"));
  const Judged one = judged(died + "\n" + gave_up(0) + gave_up(1));
  CHECK(one.confidence == Confidence::likely);
  CHECK(holds(one.summary, "before anybody gave up"));
}

TEST_CASE("a line that tells of several ranks is shown once") {
  const analysis::Report report =
      judge_log("[Rank 0]: Ranks 4, 5, 6 failed to pass monitoredBarrier in 900000 ms\n");
  const analysis::Finding& lead = report.findings.front();
  CHECK(lead.culprits.size() == 3);
  CHECK(is_shown_once(lead, "line 1"));
}

TEST_CASE("one rank that waits, and one element, are told in the singular") {
  std::string alone = gave_up(1);
  alone.erase(alone.find("01:45:40.1 "), 11);
  CHECK(holds(judged(alone).summary, "; it waited for 10.0 min"));
  const std::string pair = "NumelIn=1, NumelOut=1";
  CHECK(holds(judged(of_kind(0, "ALLREDUCE", 4, pair) + of_kind(5, "BROADCAST", 4, pair)).summary,
              "of 1 element "));
}

TEST_CASE("a log that ends with time-outs accuses nobody who may have been about to print one") {
  // Blank lines, and a time-out that a rank repeats, are no sign that the others had time to.
  for (const std::string& end : {std::string(), std::string("\n \n\n"), gave_up(0)}) {
    const Judged found = judged(three_gave_up() + end);
    CAPTURE(found.summary);
    CHECK(found.verdict == Verdict::insufficient);
    CHECK(found.culprits.empty());
    CHECK(holds(found.summary, "; rank 2 prints none, but the log ends with these lines"));
  }
  // Any other line is, though nothing ends it.
  for (const std::string& end : {kGoesOn, std::string("step 41"), std::string("step 41\n\n")}) {
    const Judged found = judged(three_gave_up() + end);
    CAPTURE(found.summary);
    CHECK(found.verdict == Verdict::missing_call);
    CHECK(found.culprits == Ranks{2});
    CHECK_FALSE(holds(found.summary, "the log ends"));
  }
}

TEST_CASE("a time-out that a terminal broke ends the log as one in a single line does") {
  std::string broken;
  for (const char c : three_gave_up()) {
    const size_t begin = broken.rfind('\n') + 1;
    if (c != '\n' && broken.size() - begin == 100) broken += '\n';
    broken += c;
  }
  CHECK(judged(broken).summary == judged(three_gave_up()).summary);
  CHECK(judged(broken + kGoesOn).culprits == Ranks{2});
}
