// Whom public logs name other than by a rank: what these names are, and what they are not.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

namespace rollcall::trace {
namespace {

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"t.py\", line 3, in run\n";

void check_told(const std::string& log, const std::string& words) {
  const Judged found = judged(log);
  INFO(found.summary);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, words));
}

}  // namespace

TEST_CASE("LMDeploy names the rank in front of its traceback") {
  const std::string front = "2024-10-21 10:42:00,218 - lmdeploy - ERROR - model_agent.py:489 - ";
  const std::string error = kTraceback + "RuntimeError: ACL stream synchronize failed.\n";
  check_told(front + "Rank[2] failed.\n" + error, "in line 4 rank 2 raised RuntimeError");
  // Two that failed at once may print in any order.
  check_told(front + "Rank[2] failed.\n" + front + "Rank[3] failed.\n" + error + error,
             "a rank that the log does not name raised RuntimeError");
  check_told(front + "Rank[2] failed.\n\nround 1\nround 2\nround 3\n" + error,
             "a rank that the log does not name raised RuntimeError");
  CHECK(read_log(front + "Rank[2] failed.\n").logs.empty());
}

TEST_CASE("a task of HCCL that timed out is told of the rank whose error stands in front of it") {
  const std::string error = kTraceback + "RuntimeError: ACL stream synchronize failed.\n";
  const std::string task =
      "EI9999: The error from device(chipId:3), hccl fftsplus task timeout occurred during task "
      "execution\n";
  const std::string named = "x - ERROR - a.py:1 - Rank[2] failed.\n" + error;
  check_told(named + "EI9999: Inner Error!\n" + task,
             "rank 2 waited for others until its time was over");
  check_told(task, "a process that the log does not name waited for others until its time was");
  CHECK(read_log("hccl task timeout is set to 30min\n").logs.empty());
}

TEST_CASE("the number of a process is told as the rank of the communicator that NCCL names it in") {
  const auto aborted = [](const std::string& host, int pid, int rank, int nranks = 16) {
    const std::string id = std::to_string(pid);
    return host + ":" + id + ":" + id + " [0] NCCL INFO comm 0xa9 rank " + std::to_string(rank) +
           " nranks " + std::to_string(nranks) + " cudaDev 0 busId 7000 - Abort COMPLETE\n";
  };
  const std::string end =
      "[2023-09-18 11:04:56,998] x.api: [ERROR] failed (exitcode: 1) local_rank: 0 (pid: 2349) of "
      "binary: python\n";
  check_told(aborted("n3", 2349, 8) + aborted("n3", 2350, 9) + end,
             "local rank 0 (pid 2349, on n3 rank 8 of 16 by NCCL) ended with status 1");
  // The largest one is nearest to the job.
  check_told(aborted("n3", 2349, 0, 8) + aborted("n3", 2349, 8) + end, "rank 8 of 16");
  // Hosts may have processes of one number.
  check_told(aborted("n3", 2349, 8) + aborted("n4", 2349, 0) + end,
             "local rank 0 (pid 2349) ended with status 1");
  check_told(aborted("n3", 23491, 8) + end, "local rank 0 (pid 2349) ended with status 1");
  CHECK(read_log(aborted("n3", 2349, 8)).logs.empty());
}

TEST_CASE("who ended behind an error of NCCL that names nobody is told beside it") {
  const std::string error = "ncclSystemError: System call (e.g. socket, malloc) failed\n";
  const std::string end = "failed (exitcode: 1) local_rank: 0 (pid: 2349) of binary: python\n";
  check_told(error + end, "behind it local rank 0 (pid 2349) ended with status 1");
  CHECK(!holds(judged(end + error).summary, "behind it"));
}

TEST_CASE("Ray names the process of a worker, its host, and how it ended") {
  const auto worker = [](const std::string& address) {
    return "(raylet) A worker died or was killed while executing a task by an unexpected system "
           "error. RayTask ID: ff Worker ID: d8 Node ID: 84 Worker IP address: " +
           address +
           " Worker port: 10185 Worker PID: 90738 Worker exit type: SYSTEM_ERROR Worker exit "
           "detail: Worker unexpectedly exits with a connection error code 2. End of file.\n";
  };
  for (const char* address : {"10.0.0.7", "[10.0.0.7](http://10.0.0.7/)"}) {
    const std::string log = worker(address);
    check_told(log, "pid 90738 on 10.0.0.7 ended: its process crashed or was killed");
    CHECK(read_log(log).logs.front().sayings.size() == 1);
  }
}

TEST_CASE("an actor of Ray is named by the block in front of what became of it") {
  const std::string death =
      "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
      "Worker exit detail: x\n";
  const std::string block =
      "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
      "\tclass_name: Worker\n\tpid: 1373150\n\tname: Worker_0:0\n\tip: 10.0.0.7\n";
  check_told(block + death, "the actor Worker_0:0 of Ray (pid 1373150 on 10.0.0.7) ended");
  check_told(death, "an actor of Ray ended");
  const std::string far = "\n1\n2\n3\n4\n5\n6\n7\n8\n9\n";
  check_told(block + far + death, "an actor of Ray ended");
}

TEST_CASE("the driver names the GPU that fell off the bus some lines in front") {
  const std::string gpu = "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n";
  const std::string lost =
      "    NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
      "    NVRM: fallen off the bus and is not responding to commands.\n";
  check_told(gpu + lost, "GPU 0000:b3:00.0: the GPU no longer answers");
  CHECK(holds(judged("x\n" + lost).summary, "the GPU no longer answers"));
  CHECK(!holds(judged(gpu + "x\nx\nx\n" + lost).summary, "b3:00"));
  CHECK(read_log(gpu).logs.empty());
}

TEST_CASE("the pod of NCCL's last error is told where a collector puts it in front of each line") {
  const std::string pod = "trainer-1: ";
  check_told(pod +
                 "x.DistBackendError: NCCL error in: x.cpp:1197, unhandled cuda error, NCCL "
                 "version 2.18.3\n" +
                 pod + "Last error:\n" + pod + "Cuda failure 'initialization error'\n",
             "NCCL warns in trainer-1: \"Cuda failure 'initialization error'\"");
}

TEST_CASE("tasks of srun are named where NCCL does not know its host") {
  const auto warned = [](const std::string& task) {
    return task +
           ": :41367:41367 [1] enqueue.cc:422 NCCL WARN Error : no algorithm/protocol "
           "available\n";
  };
  check_told(warned("201"), "NCCL warns in task 201: ");
  CHECK(!holds(judged(warned("201")).summary, "so it does in"));
  check_told(warned("201") + warned("202") + warned("255"), "so it does in tasks 202,255");
}

TEST_CASE("kernels of DeepEP that waited for others are told by their ranks in its group") {
  const std::string kernel = "DeepEP dispatch NVL receiver timeout, channel: 8, RDMA: 1, nvl: 5, ";
  check_told(kernel + "src RDMA: 1, src nvl: 1, start: 0, end: 0\n",
             "DeepEP's rank 13 waited in a call of DeepEP");
  check_told(
      "DeepEP dispatch forwarder timeout (RDMA meta), channel: 8, RDMA: 0, nvl: 5, src RDMA "
      "lane: 1\n",
      "DeepEP's rank 5 waited");
  check_told("DeepEP timeout for combine receivers, rank 3, responsible_channel = 7, expect = 9\n",
             "DeepEP's rank 3 waited");
  CHECK(read_log("DeepEP dispatch took 3 ms\n").logs.empty());
}

TEST_CASE("a request whose KV cache did not come fails by itself, and accuses nobody") {
  const std::string target = "E1210 03:24:54.778028 2548307 ascend_direct_transport.cpp:820] ";
  check_told(target + "Failed to connect to target: 192.0.2.99:25389, status: 103900\n",
             "the log says of no rank that it went wrong: a process that transfers KV caches could "
             "not be reached");
  check_told(
      "[2025-09-17 16:23:13 TP1] Decode transfer failed for request rank=1 "
      "decode_req.req.rid='3c' with exception KVTransferError(bootstrap_room=16): Failed\n",
      "the log says of no rank that it went wrong");
  CHECK(read_log("Failed to connect to target: a host\n").logs.empty());
}

TEST_CASE("a process of TensorRT-LLM that ends with an error of MPI is told, and which it is not") {
  const std::string front = "  what():  [TensorRT-LLM][ERROR] Assertion failed: ";
  check_told(front + "Failed: MPI error x/mpiUtils.cpp:211 '6' (x/mpiUtils.cpp:211)\n",
             "a call of MPI failed");
  CHECK(read_log(front + "hidden size\n").logs.empty());
}

TEST_CASE("a limit that healthy ranks overrun explains a wait by itself") {
  const auto waited = [](const std::string& limit) {
    return "[rank3]:[E816 01:45:40.1 x.cpp:607] [Rank 3] Watchdog caught collective operation "
           "timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=" +
           limit + ") ran for 90 milliseconds before timing out.\n";
  };
  check_told(waited("1"), "the limit of this wait is 1 ms");
  CHECK(!holds(judged(waited("600000")).summary, "the limit"));
}

}  // namespace rollcall::trace
