// Lines of public logs by which a rank, a host or a cause was blamed that they do not prove.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;
using Ranks = std::vector<int32_t>;

TEST_CASE("a flush that failed is told of the host that warns, and of no other one") {
  const std::string words =
      "node95:214034:214782 [3] transport/net_ib.cc:1696 NCCL WARN NET/IB : Got completion from "
      "peer 10.140.24.106<37760> with status=11 opcode=129 len=0 vendor err 137";
  const Judged flush = judged(words + " (Flush)\n");
  CHECK(holds(flush.summary, "the network adapter of this host could not read the memory"));
  CHECK_FALSE(holds(flush.summary, "the other side"));
  const Judged send = judged(words + " (Send)\n");
  CHECK(holds(send.summary, "the other side is 10.140.24.106"));
}

TEST_CASE("the number of a node that SkyPilot prints is no rank") {
  const std::string error = "RuntimeError: CUDA error: an illegal memory access was encountered\n";
  for (const char* front :
       {"(head, rank=0, pid=5634) ", "(worker1, rank=1, pid=2972, ip=10.0.0.5) "}) {
    CAPTURE(front);
    CHECK(judged(front + error).culprits.empty());
  }
  CHECK(judged("(TrainWorker[rank=3] pid=4711, ip=10.0.0.7) [rank3]: " + error).culprits ==
        Ranks{3});
}

TEST_CASE("the end of a worker that had given up itself is no cause, wherever Ray shows it") {
  const std::string died =
      "WARNING worker.py:2074 -- A worker died or was killed while executing a task by an "
      "unexpected system error. Worker ID: 0e4b Node ID: 9c6f Worker PID: ";
  const std::string wait = gave_up(0, "(RayWorker pid=1080651) ") +
                           "(RayWorker pid=1080651) [E ProcessGroupNCCL.cpp:488] Some NCCL "
                           "operations have failed or timed out.\n";
  const Judged own = judged(died + "1080651 Worker exit type: SYSTEM_ERROR\n" + wait);
  CAPTURE(own.summary);
  CHECK(own.verdict == Verdict::insufficient);
  CHECK(own.culprits.empty());
  const Judged other = judged(died + "1080652 Worker exit type: SYSTEM_ERROR\n" + wait);
  CHECK(other.verdict == Verdict::rank_dead);
  CHECK(holds(other.summary, "pid 1080652 ended"));
}

TEST_CASE("a process group that is not the job's first proves that everybody had started") {
  const auto barrier = [](int rank, int key) {
    return "RuntimeError: Timed out initializing process group in store based barrier on rank: " +
           std::to_string(rank) + ", for key: store_based_barrier_key:" + std::to_string(key) +
           " (world_size=8, worker_count=4, timeout=0:30:00)\n";
  };
  const Judged later = judged(barrier(7, 32) + barrier(5, 32));
  CHECK(later.verdict == Verdict::init_incomplete);
  CHECK(later.confidence == Confidence::open);
  CHECK(later.culprits.empty());
  CHECK(holds(later.summary, "ranks 5,7 waited while process group number 32 of the job was made"));
  CHECK_FALSE(holds(later.summary, "never started"));
  const Judged first = judged(barrier(7, 1));
  CHECK(first.confidence == Confidence::likely);
  CHECK(holds(first.summary, "4 of 8 processes had come when rank 7 gave up: the others never"));
}

TEST_CASE("a time-out by whatever words is no fault of the rank that waited") {
  for (const char* words : {"NPU function error: aclrtSynchronizeDevice, error code is 507046",
                            "ACL stream synchronize failed, error code:507048",
                            "Gloo connectFullMesh failed with [pair.cc:144] no error",
                            "[pair.cc:799] connect [127.0.1.1]:29591: Connection refused",
                            "Stop_waiting response is expected"}) {
    CAPTURE(words);
    const Judged found = judged(std::string("[rank1]: RuntimeError: ") + words + "\n");
    CHECK(found.verdict == Verdict::insufficient);
    CHECK(found.culprits.empty());
  }
  // Other numbers of the same library are errors.
  CHECK(judged("[rank1]: RuntimeError: NPU function error: error code is 507018\n").culprits ==
        Ranks{1});
}

TEST_CASE("a time limit of a driver, a loader or a service is no wait for another rank") {
  const Judged kernel =
      judged("[rank1]: RuntimeError: CUDA error: the launch timed out and was terminated\n");
  CHECK(kernel.verdict == Verdict::cuda_error);
  CHECK(holds(kernel.summary, "a kernel ran longer than the driver allows"));
  const Judged loader = judged("[rank1]: RuntimeError: DataLoader timed out after 60 seconds\n");
  CHECK(loader.culprits == Ranks{1});
  const Judged service =
      judged("[rank1]: wandb.errors.CommError: Run initialization has timed out\n");
  CHECK(service.culprits.empty());
  CHECK(holds(service.summary, "waited for something until its time was over"));
  CHECK(holds(judged("[rank1]: RuntimeError: Timed out waiting 1800000ms for recv\n").summary,
              "waited for others"));
}

TEST_CASE("processes that torchrun found dead in one second with one status are all named") {
  const auto block = [](int rank, const char* time, int code) {
    const std::string number = std::to_string(rank);
    return "[" + number + "]:\n  time      : 2024-12-31_" + time + "\n  host      : server\n  " +
           "rank      : " + number + " (local_rank: " + number +
           ")\n  exitcode  : " + std::to_string(code) + " (pid: 46739" + number +
           ")\n  error_file: <N/A>\n";
  };
  const auto report = [&](const std::string& listed) {
    return "Failures:\n" + listed + "Root Cause (first observed failure):\n" +
           block(0, "16:45:52", -7);
  };
  const Judged alike = judged(report(block(1, "16:45:52", -7) + block(2, "16:45:52", -7)));
  CHECK(alike.verdict == Verdict::rank_dead);
  CHECK(alike.confidence == Confidence::open);
  CHECK(alike.culprits == Ranks{0, 1, 2});
  // Later, or by another signal, as when the first one's end was noticed.
  const Judged one = judged(report(block(1, "16:45:53", -7) + block(2, "16:45:52", -15)));
  CHECK(one.confidence == Confidence::likely);
  CHECK(one.culprits == Ranks{0});
}

TEST_CASE("a time-out and a position of other ranks in their groups are of two groups") {
  const auto position = [](int group_rank) {
    return "[rank3]:[E816 01:45:40.2 ProcessGroupNCCL.cpp:1795] [PG ID 11 PG GUID 112 Rank " +
           std::to_string(group_rank) +
           "] Exception (either an error or timeout) detected by watchdog at work: 41, last "
           "enqueued NCCL work: 41, last completed NCCL work: 40.\n";
  };
  CHECK_FALSE(holds(judged(gave_up(3) + position(1)).summary, "group 112"));
  CHECK(holds(judged(gave_up(3) + position(3)).summary, "call 41 of group 112"));
}

TEST_CASE("barriers that differ in their number alone accuse nobody") {
  const auto compared = [](const char* op, int one, int other) {
    return "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running "
           "collective: CollectiveFingerPrint(SequenceNumber=" +
           std::to_string(one) + "OpType=" + op +
           "), but Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=" +
           std::to_string(other) + "OpType=" + op + ").Collectives differ\n";
  };
  const Judged barrier = judged(compared("BARRIER", 1, 0));
  CHECK(barrier.confidence == Confidence::open);
  CHECK(barrier.culprits.empty());
  CHECK(holds(barrier.summary, "called BARRIER where rank 2 called it"));
  CHECK(judged(compared("ALLREDUCE", 1, 0)).culprits.size() == 2);
}

TEST_CASE("an Xid that the driver calls not fatal accuses no GPU") {
  const std::string xid = "kernel: NVRM: Xid (PCI:0000:3b:00): 145, RLW_RXPIPE ";
  const Judged mild = judged(xid + "Nonfatal XC0 i0 Link 11\n");
  CHECK(mild.verdict == Verdict::insufficient);
  CHECK(mild.culprits.empty());
  CHECK(judged(xid + "Fatal XC0 i0 Link 11\n").verdict == Verdict::cuda_error);
}

TEST_CASE("an error of Gloo is read without a traceback in front of it, and accuses nobody") {
  const Judged wait = judged(
      "[trainer22|6]:RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
      "1800000ms for recv operation to complete\n");
  CHECK(wait.verdict == Verdict::insufficient);
  CHECK(holds(wait.summary, "waited for others until its time was over"));
  const Judged end = judged(
      "[rank3]: RuntimeError: [/w/third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection "
      "closed by peer [10.244.48.107]:12717\n");
  CHECK(end.culprits.empty());
  CHECK(holds(end.summary, "another process ended"));
  // A place in its sources alone is no error.
  CHECK(read_log("compiling third_party/gloo/gloo/transport/tcp/pair.cc\n").logs.empty());
}

TEST_CASE("a rendezvous that is gone, a port in use, and a peer of MPI are told as what they are") {
  const Judged rendezvous = judged(
      "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'n_1_0' has failed "
      "to send a keep-alive heartbeat to the rendezvous 'none' due to an error of type "
      "RendezvousConnectionError.\n");
  CHECK(rendezvous.verdict == Verdict::insufficient);
  CHECK(holds(rendezvous.summary, "the host of --rdzv-endpoint failed, or its part of the job"));
  const Judged port = judged(
      "[W socket.cpp:436] [c10d] The server socket has failed to bind to 0.0.0.0:12211 (errno: 98 "
      "- Address already in use).\n[E socket.cpp:472] [c10d] The server socket has failed to "
      "listen on any local network address.\n");
  CHECK(holds(port.summary, "another process holds the port that rank 0 wants"));
  const Judged peer = judged(
      "An MPI communication peer process has unexpectedly disconnected.  This\nusually indicates a "
      "failure in the peer process\n\n  Local host: n1\n  Local PID:  7720\n  Peer host:  n2\n");
  CHECK(peer.culprits.empty());
  CHECK(holds(peer.summary, "a process of MPI ended, on the host that it names as peer"));
}

TEST_CASE("who has not come to the first barrier is named while the others wait in it") {
  const auto waits = [](int rank, int come, int key = 1) {
    return "INFO:root:Waiting in store based barrier to initialize process group for rank: " +
           std::to_string(rank) + ", key: store_based_barrier_key:" + std::to_string(key) +
           " (world_size=4, worker_count=" + std::to_string(come) + ", timeout=0:30:00)\n";
  };
  const Judged one = judged(waits(0, 3) + waits(1, 3) + waits(3, 3) + waits(0, 3));
  CAPTURE(one.summary);
  CHECK(one.verdict == Verdict::init_incomplete);
  CHECK(one.confidence == Confidence::open);
  CHECK(one.culprits == Ranks{2});
  CHECK(holds(one.summary, "ranks 0-1,3 wait while process group number 1 of the job is made"));
  CHECK(holds(one.summary, "rank 2 prints no such line"));
  // More had come than speak here.
  CHECK(judged(waits(0, 3) + waits(1, 3)).culprits.empty());
  // A later group need not have all ranks.
  CHECK(judged(waits(0, 3, 9) + waits(1, 3, 9) + waits(3, 3, 9)).culprits.empty());
  // It passed.
  for (const char* end :
       {"INFO:root:Rank 0: Completed store-based barrier for key:k with 4 nodes.\n", "step 1\n"}) {
    CAPTURE(end);
    const std::string log = waits(0, 3) + waits(1, 3) + waits(3, 3) + end;
    const analysis::Report report = judge_log(log);
    for (const auto& finding : report.findings) CHECK_FALSE(is_defect(finding));
  }
  CHECK(holds(judged(waits(0, 8)).summary, "an earlier start left its count behind"));
}
