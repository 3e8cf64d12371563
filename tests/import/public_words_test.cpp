// Words of public logs that name nobody to blame, or whom they blame is not who they name.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

namespace rollcall::trace {
namespace {

using analysis::Confidence;
using analysis::Verdict;
using Texts = std::vector<std::string>;
using Culprits = std::vector<int32_t>;

void check_no_accusation(const std::string& log, const std::string& words) {
  const Judged found = judged(log);
  INFO(found.summary);
  CHECK(found.verdict == Verdict::insufficient);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, words));
}

std::vector<int32_t> victims_of(const std::string& log) {
  return judge_log(log).findings.front().victims;
}

std::string described(const std::string& log) { return read_log(log).issues.back().text; }

}  // namespace

TEST_CASE("a rank that waited for others until its time was over is not accused") {
  for (const std::string& words :
       Texts{"RuntimeError: DeepEP error: timeout (dispatch CPU)",
             "RuntimeError: DeepEP error: CPU recv timeout", "RuntimeError: Socket Timeout",
             "RuntimeError: Getting socket times out. Reason: Remote Rank did not send the data"}) {
    const std::string log = "[rank5]: " + words + "\n";
    check_no_accusation(log, ": rank 5 waited for ");
    CHECK(victims_of(log) == Culprits{5});
  }
  check_no_accusation(
      "[rank1]: RuntimeError: InnerRunOpApi:OpParamMaker.cpp:281 OPS function error: "
      "HcclAllreduce, error code is 6\n",
      "HCCL returned an error; rank 1 tells so");
  // An error about a time-out is none.
  for (const std::string& words :
       Texts{"ValueError: timeout must be positive", "TypeError: unexpected argument 'timeout'"}) {
    CHECK(judged("[rank5]: " + words + "\n").culprits == Culprits{5});
  }
}

TEST_CASE("a heartbeat that did not come to JAX is no end, and process 0 tells none of itself") {
  const auto lost = [](int task) {
    const std::string name = "/job:jax_worker/replica:0/task:" + std::to_string(task);
    return "E x/coordination_service.cc:1170] " + name +
           " has been set to ERROR in coordination service: UNAVAILABLE: Task " + name +
           " heartbeat timeout. This indicates that the remote task has failed\n";
  };
  const Judged other = judged(lost(6));
  CHECK(other.verdict == Verdict::rank_dead);
  CHECK(other.confidence == Confidence::open);
  CHECK(other.culprits == Culprits{6});
  CHECK(holds(other.summary, "rank 6 sent no heartbeat: it had ended, or did not move"));
  check_no_accusation(lost(0), "rank 0 sent no heartbeat");
  CHECK(victims_of(lost(0)) == Culprits{0});
}

TEST_CASE("an error by which somebody gave up a wait is not called a log without a hang") {
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 3\n";
  for (const std::string& words :
       Texts{"RuntimeError: [unbound_buffer.cc:72] Timed out waiting 1800000ms for recv operation",
             "RuntimeError: DeepEP error: timeout (dispatch CPU)"}) {
    check_no_accusation(trace + words + "\n", "waited for others until its time was over");
    CHECK(!holds(described(trace + words + "\n"), "tells of no hang"));
  }
  const std::string of_stream = described(trace + "RuntimeError: ACL stream synchronize failed.\n");
  CHECK(holds(of_stream, "holds an error that somebody raised, in 3 lines"));
  CHECK(!holds(of_stream, "tells of no hang"));
  CHECK(holds(described(trace + "ValueError: bad sample\n"), "tells of no hang"));
}

TEST_CASE("what a warning means is not told beside the words of another") {
  const std::string refused =
      "NCCL WARN NET/FasTrak (0) x: INVALID_ARGUMENT: Buffer registration request does not have "
      "a valid fd set.\n";
  const std::string broken =
      "NCCL WARN NET/FasTrak (0) x: FAILED_PRECONDITION: receive() error: 32: Broken pipe\n";
  CHECK(holds(judged(refused + broken).summary, "could not register memory"));
  const Judged unknown = judged("NCCL WARN something new\n" + broken);
  CHECK(holds(unknown.summary, "another process ended; its words: NCCL WARN NET/FasTrak"));
}

TEST_CASE("an error of NCCL is known by its second line where the first is missing") {
  const std::string error =
      "ncclSystemError: System call (e.g. socket, malloc) or external library call failed\n"
      "Last error:\n\n"
      "n4:2352:2352 [3] NCCL INFO comm 0xa6 rank 11 nranks 16 cudaDev 3 - Abort COMPLETE\n";
  const Judged found = judged(error);
  CHECK(holds(found.summary, "a system call or the network failed inside NCCL"));
  CHECK(!holds(found.summary, "Abort COMPLETE"));
  const std::string whole =
      "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system "
      "error, "
      "NCCL version 2.18.1\n";
  CHECK(read_log(whole + error).logs.front().sayings.size() ==
        read_log(whole).logs.front().sayings.size());
}

TEST_CASE("who told torchrun to end is not known of a signal that its own starter may send") {
  const std::string front = "W1130 12:13:49.388000 124326 x/api.py:723] Received ";
  const std::string behind = " death signal, shutting down workers\n";
  check_no_accusation(front + "15" + behind, "or the program that started it");
  check_no_accusation(front + "2" + behind, "as by Ctrl-C");
  const std::string raised = "x.api.SignalException: Process 1313 got signal: ";
  check_no_accusation(raised + "2\n", "as by Ctrl-C");
  check_no_accusation(raised + "15\n", "or the program that started it");
}

TEST_CASE("ends of jobs from outside are known in the words of submitit") {
  const std::string front =
      "submitit WARNING (2022-07-12 04:18:45,881) - Caught signal SIGHUP on n3: ";
  check_no_accusation(front + "this job is preempted.\n", "to make room for another");
  check_no_accusation(front + "this job is timed-out.\n", "when its time was over");
  CHECK(read_log(front + "a job is watched.\n").logs.empty());
}

TEST_CASE("the launcher of Composer names the rank that ended, and how") {
  const Judged found = judged("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -11\n");
  CHECK(found.verdict == Verdict::rank_dead);
  CHECK(found.culprits == Culprits{2});
  // Its watchdog ended it.
  check_no_accusation("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -6\n", "abort()");
}

TEST_CASE("lines that milabench puts into JSON are read") {
  const std::string text = "[rank1]: torch.AcceleratorError: HIP error: unspecified launch failure";
  const std::string line = "{\"event\": \"line\", \"data\": \"" + text + "\\n\"";
  CHECK(judged(line + ", \"pipe\": \"stderr\"}\n").culprits == Culprits{1});
  CHECK(read_log(line + "}\n").logs.empty());
}

TEST_CASE("tasks of JAX that ended because of another are told, and accuse nobody") {
  check_no_accusation(
      "F0929 17:42:48.5 1044529 client.h:77] Terminating process because the JAX distributed "
      "service detected fatal errors. This most likely indicates that another task died\n",
      "another task of JAX ended");
  check_no_accusation("[rank3] WatchTasksAsync failed for task 3: UNAVAILABLE: failed to connect\n",
                      "rank 3 could not reach the process with JAX's coordination service");
  CHECK(read_log("the JAX distributed service is up\n").logs.empty());
}

TEST_CASE("processes of JAX that did not all come are told") {
  const Judged found = judged("Stopping coordination service as cluster registration failed.\n");
  CHECK(found.verdict == Verdict::init_incomplete);
  CHECK(found.confidence == Confidence::open);
  CHECK(holds(found.summary, "not all processes of JAX had come"));
  CHECK(
      judged("DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0.\n")
          .verdict == Verdict::init_incomplete);
  CHECK(read_log("Waiting at [Init]Wait_for_all_tasks_to_register::0\n").logs.empty());
}

TEST_CASE("ranks that waited in a call of DeepEP are told, and accuse nobody") {
  const std::string log =
      "DeepEP timeout check failed: rank = 6, thread = 5, value = 1024)\n"
      "DeepEP timeout check failed: rank = 2, thread = 5, value = 1024)\n";
  // The ranks are those of its group, which need not be the job.
  check_no_accusation(log, "each of DeepEP's ranks 2,6 waited in a call of DeepEP");
  CHECK(victims_of(log).empty());
  const std::string counts = "Global rank: 6, num_recv_tokens: ";
  check_no_accusation(counts + "-1, num_rdma_recv_tokens: -1\n",
                      "DeepEP's rank 6 waited in a call");
  CHECK(read_log(counts + "12, num_rdma_recv_tokens: 3\n").logs.empty());
}

TEST_CASE("old versions of Horovod name who had submitted a tensor") {
  const std::string stalled =
      "WARNING: One or more tensors were submitted by subset of ranks. Stalled ops: "
      "allreduce.conv1.weight [ready ranks: 5, 1, 4, 7, 2, 3], allreduce.bn1 [ready ranks: 5, 1]\n";
  check_no_accusation(stalled, "each of ranks 1-5,7 submitted a tensor");
}

TEST_CASE("a GPU that nvidia-smi cannot reach no longer answers") {
  const Judged found =
      judged("Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n");
  CHECK(found.verdict == Verdict::cuda_error);
  CHECK(holds(found.summary, "a GPU no longer answers"));
}

TEST_CASE("the other side of a broken connection is told by its whole address") {
  const Judged found = judged(
      "n0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer "
      "192.0.2.236<54862> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n");
  CHECK(holds(found.summary, "the other side is 192.0.2.236"));
  CHECK(!holds(found.summary, "192...."));
}

TEST_CASE("a process with a rank that its job does not have was started with wrong settings") {
  CHECK(holds(judged("n1:25:25 [0] init.cc:981 NCCL WARN Invalid rank requested : 2/2\n").summary,
              "a process was given a rank that the job does not have"));
}

TEST_CASE("a time-out that its watchdog throws is read where a terminal broke it") {
  const std::string front =
      "[rank1]:[E307 05:30:20.0 ProcessGroupNCCL.cpp:2057] [PG ID 0 PG GUID 0(default_pg) Rank 1] "
      "Process group watchdog thread terminated with exception: ";
  const Judged found = judged(front +
                              "[Rank 1] Watchdog caught collectiv\ne operation timeout: "
                              "WorkNCCL(SeqNum=13, OpType=SCATTER, NumelIn=384, NumelOut=0, "
                              "Timeout(ms)=1800000) ran for 1800085 milliseconds before\n");
  CHECK(holds(found.summary, "rank 1 waited in SCATTER, call 13 of default_pg"));
  CHECK(read_log(front + "[Rank 1] Watchdog saw nothing\n").logs.empty());
}

TEST_CASE("workers of SGLang whose step did not end are told by their places") {
  const auto late = [](const std::string& place) {
    return "[2025-03-09 00:57:15 " + place + "] Watchdog timeout (self.watchdog_timeout=300)\n";
  };
  check_no_accusation(late("TP0") + late("TP1"), "TP0, TP1 tell so");
  check_no_accusation(late("TP0"), "TP0 tells so");
}

}  // namespace rollcall::trace
