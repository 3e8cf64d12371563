// What a job's log says of why: who ended, of what, and who did not come.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"
#include "tests/import/judge_log.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;
using Ranks = std::vector<int32_t>;

namespace {

const std::string kOutOfMemory =
    "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 336.00 MiB.\n";

}  // namespace

TEST_CASE("an exception in front of the time-outs of the others names its rank") {
  const Judged found = judged(kOutOfMemory + three_gave_up());
  CHECK(found.verdict == Verdict::rank_dead);
  CHECK(found.confidence == Confidence::likely);
  CHECK(found.culprits == Ranks{2});
  CHECK(holds(found.summary, "torch.OutOfMemoryError"));
  const Judged key = judged("[rank2]: KeyError: 'labels'\n" + three_gave_up());
  CHECK(key.verdict == Verdict::rank_dead);
  CHECK(key.culprits == Ranks{2});
}

TEST_CASE("an exception behind the time-outs, or of a rank that gave up, is not the cause") {
  const Judged behind =
      judged(three_gave_up() + gave_up(2) + "[rank2]: torch.OutOfMemoryError: CUDA out\n");
  CHECK(behind.verdict == Verdict::insufficient);
  CHECK(behind.culprits.empty());
}

TEST_CASE("an exception that tells of others' end accuses nobody") {
  for (const char* line :
       {("[rank2]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process "
         "exited or there was a network error, NCCL version 2.20\n"),
        "[rank2]: RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.1]:1234\n",
        "[rank2]: ConnectionResetError: [Errno 104] Connection reset by peer\n",
        "[rank2]: ConnectionRefusedError: [Errno 111] Connection refused\n",
        "[rank2]: RuntimeError: NCCL communicator was aborted on rank 2.\n",
        "[rank2]: TimeoutError: no message in 600 s\n",
        "[rank2]: RuntimeError: Engine core initialization failed. See root cause above.\n"}) {
    CAPTURE(line);
    const Judged found = judged(line);
    CHECK(found.verdict == Verdict::insufficient);
    CHECK(found.culprits.empty());
  }
}

TEST_CASE("a line that anybody may print is no exception of a rank") {
  for (const char* line : {"[rank2]: Error: retrying\n", "[rank2]:   raise ValueError: x\n",
                           "ValueError: a test that is expected to fail\n",
                           "[rank2]: 10:00 ERROR: ValueError: retried\n"}) {
    CAPTURE(line);
    CHECK(read_log(line).logs.empty());
  }
}

TEST_CASE("a CUDA error that the watchdog met names the rank and the kind of the error") {
  const Judged found = judged(
      "[rank3]:[E1016 03:31:38.9 ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
      "Process group watchdog thread terminated with exception: CUDA error: an illegal memory "
      "access was encountered\n");
  CHECK(found.verdict == Verdict::cuda_error);
  CHECK(found.culprits == Ranks{3});
}

TEST_CASE("the process that torchrun saw fail first leads by its rank, not those behind it") {
  const std::string others = "[1]:\n  rank      : 9 (local_rank: 1)\n  exitcode  : 1 (pid: 4712)\n";
  const Judged found = judged(summary_of_torchrun(others, 13, 1));
  CHECK(found.verdict == Verdict::rank_dead);
  CHECK(found.culprits == Ranks{13});
}

TEST_CASE("a kill that torchrun saw first leads although it is told behind the time-outs") {
  const Judged found = judged(three_gave_up() + summary_of_torchrun("", 2, -9));
  CHECK(found.verdict == Verdict::rank_dead);
  CHECK(found.confidence == Confidence::likely);
  CHECK(found.culprits == Ranks{2});
  // What aborted, or was ended, ended of the time-out.
  CHECK(judged(three_gave_up() + summary_of_torchrun("", 0, -6)).verdict == Verdict::missing_call);
  CHECK(judged(three_gave_up() + summary_of_torchrun("", 2, 1)).verdict == Verdict::missing_call);
}

TEST_CASE("launchers that tell of an end in their own way are read") {
  const auto culprit = [](const std::string& log) {
    const Judged found = judged(log);
    CHECK(found.verdict == Verdict::rank_dead);
    return found.culprits;
  };
  CHECK(culprit("[rank: 3] Child process with PID 81 terminated with code -9. Forcefully\n") ==
        Ranks{3});
  CHECK(culprit("  Process name: [[12167,1],10]\n  Exit code:    3\n") == Ranks{10});
  CHECK(culprit("ERROR [x.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down\n") ==
        Ranks{2});
  CHECK(culprit("UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
                "/job:jax_worker/replica:0/task:3\n") == Ranks{3});
  CHECK(holds(judged("srun: error: node17: task 5: Segmentation fault\n").summary,
              "task 5 on node17 ended with status -11"));
  CHECK(read_log("Exit code:    3\n").logs.empty());
}

TEST_CASE("tasks that srun ends after the first are not taken for the cause") {
  const Judged found = judged(
      "srun: error: n1: task 5: Segmentation fault\nsrun: Terminating StepId=1.0\n"
      "srun: error: n0: task 0: Killed\n");
  CHECK(holds(found.summary, "task 5 on n1"));
  CHECK(read_log("srun: Terminating StepId=1.0\nsrun: error: n0: task 0: Killed\n").logs.empty());
}

TEST_CASE("memory that Slurm found used up is told, also behind the time-outs, and then open") {
  const std::string slurm =
      "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have "
      "been "
      "OOM Killed.\nsrun: error: node17: task 2: Out Of Memory\n";
  const Judged front = judged(slurm + three_gave_up());
  CHECK(front.verdict == Verdict::rank_dead);
  CHECK(front.confidence == Confidence::likely);
  CHECK(holds(front.summary, "task 2 on node17"));
  const Judged behind = judged(three_gave_up() + slurm);
  CHECK(behind.verdict == Verdict::rank_dead);
  CHECK(behind.confidence == Confidence::open);
}

TEST_CASE("a job that its scheduler ended is not said to hang") {
  for (const char* line :
       {"slurmstepd: error: *** JOB 6 ON n01 CANCELLED AT 2026-05-29T10:00:00 DUE TO TIME LIMIT "
        "***\nsrun: error: n02: task 1: Terminated\n",
        "W1 x] Received Signals.SIGTERM death signal, shutting down workers\n"}) {
    CAPTURE(line);
    const Judged found = judged(line);
    CHECK(found.verdict == Verdict::insufficient);
    CHECK(found.culprits.empty());
  }
}

TEST_CASE("ranks that PyTorch's own reports name as missing are named") {
  const auto culprits = [](const std::string& log) {
    const Judged found = judged(log);
    CHECK(found.verdict == Verdict::missing_call);
    CHECK(found.confidence == Confidence::likely);
    return found.culprits;
  };
  CHECK(
      culprits("RuntimeError: [Rank 0]: Ranks 3, 4, 7 failed to pass monitoredBarrier in 5 ms\n") ==
      Ranks{3, 4, 7});
  CHECK(culprits("RuntimeError: Rank 0 successfully reached monitoredBarrier, but received errors "
                 "while waiting for send/recv from rank 3. Please check rank 3 logs.\n") ==
        Ranks{3});
  CHECK(culprits("[E x:1] [Rank 0]: Rank 3 failed to pass monitoredBarrier in 1800000 ms\n") ==
        Ranks{3});
  CHECK(culprits(gave_up(0) +
                 "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the "
                 "desync are:\n\t   - [1] finished collective #4, but didn't join collective #5 "
                 "(count from 1)\n\t   - [0, 2] joined but didn't finish collective #5 (count from "
                 "1)\n") == Ranks{1});
  CHECK(culprits("\t - To our best knowledge, ranks [2, 3] are the lagging ranks that caused this "
                 "timeout. They never joined any collectives\n") == Ranks{2, 3});
  CHECK(culprits("Not all ranks joining collective, sequence number: 12\nmissing ranks: {2}\n") ==
        Ranks{2});
  CHECK(read_log("missing ranks: set()\n").logs.empty());
}

TEST_CASE("processes that did not meet at the start are a communicator that did not come to be") {
  const Judged store = judged(
      "[rank0]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
      "7/8 clients joined.\n");
  CHECK(store.verdict == Verdict::init_incomplete);
  CHECK(holds(store.summary, "7 of 8 processes"));
  const Judged id = judged(
      "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and "
      "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') "
      "got error: Connection reset by peer\n");
  CHECK(id.verdict == Verdict::init_incomplete);
  CHECK(id.confidence == Confidence::open);
  CHECK(id.culprits == Ranks{0});
}

TEST_CASE("a rendezvous of XLA that is not complete is told, and one that went on is not") {
  const std::string stuck =
      "E external/xla/xla/service/rendezvous.cc:38] This thread has been waiting for `initialize "
      "clique for rank 6` for 10 seconds and may be stuck. Expected 8 threads to join the "
      "rendezvous, but only 7 of them arrived on time.\n";
  const Judged found = judged(stuck);
  CHECK(found.verdict == Verdict::init_incomplete);
  CHECK(found.confidence == Confidence::open);
  CHECK(holds(found.summary, "7 of 8 devices"));
  CHECK(read_log(stuck + "E external/xla/x.cc:43] Thread is unstuck! Warning above was a "
                         "false-positive.\n")
            .logs.empty());
}

TEST_CASE("the last warning of NCCL behind an error of PyTorch tells what it was") {
  const Judged found = judged(
      "torch.distributed.DistBackendError: NCCL error in: x.cpp:1727, invalid usage (run with "
      "NCCL_DEBUG=WARN for details), NCCL version 2.19.3\nncclInvalidUsage: This usually reflects "
      "invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 3 and rank 0 "
      "both "
      "on CUDA device f000\n");
  CHECK(found.verdict == Verdict::async_error);
  CHECK(holds(found.summary, "two ranks were given the same GPU"));
  CHECK(read_log("Last error:\n\nException raised from x\n").logs.empty());
}

TEST_CASE("a warning of NCCL that nothing follows is quoted and called no hang") {
  const Judged found = judged(
      "n1:11:12 [1] misc/cudawrap.cc:33 NCCL WARN Cuda failure 3 'initialization error'\nstep 1\n");
  CHECK(found.verdict == Verdict::insufficient);
  const Judged failed = judged(
      "n1:11:12 [1] misc/cudawrap.cc:33 NCCL WARN Cuda failure 2 'out of memory'\n"
      "n1:11:12 [1] NCCL INFO init.cc:33 -> 1\n");
  CHECK(failed.verdict == Verdict::cuda_error);
}

TEST_CASE("ranks whose lines Ray left out because they are alike are not called silent") {
  std::string log = gave_up(0, "(Worker pid=1) ") + gave_up(3, "(Worker pid=2) ");
  log += kGoesOn;
  CHECK(judged(log).verdict == Verdict::missing_call);
  log.insert(log.find('\n'), " [repeated 14x across cluster]");
  const Judged found = judged(log);
  CHECK(found.verdict == Verdict::insufficient);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, "Ray prints one line for several"));
}

TEST_CASE("a line that a console broke anywhere is read as one") {
  const std::string whole = gave_up(3);
  for (size_t at = whole.find("timeout: ") + 9; at < whole.find(" ran for"); at += 7) {
    std::string broken = whole;
    broken.insert(at, "\n");
    CAPTURE(broken);
    const Run run = read_log(broken);
    REQUIRE(run.logs.size() == 1);
    CHECK(run.logs[0].sayings.size() == 1);
    CHECK(run.logs[0].sayings[0].rank == 3);
    CHECK(run.logs[0].sayings[0].seq == 41);
  }
}

TEST_CASE("a torn line does not take the values of another rank's line behind it") {
  const std::string torn = gave_up(3).substr(0, gave_up(3).find("WorkNCCL")) + "\n";
  const Run run = read_log(torn + gave_up(5));
  REQUIRE(run.logs.size() == 1);
  REQUIRE(run.logs[0].sayings.size() == 2);
  CHECK(run.logs[0].sayings[0].rank == 3);
  CHECK(run.logs[0].sayings[0].seq == kUntold);
  CHECK(run.logs[0].sayings[1].rank == 5);
  CHECK(run.logs[0].sayings[1].seq == 41);
}

TEST_CASE("time-outs of a PyTorch that counts no calls are told with those who are silent") {
  std::string log;
  for (const char* rank : {"1", "2", "3"}) {
    log += std::string("[E ProcessGroupNCCL.cpp:566] [Rank ") + rank +
           "] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
           "Timeout(ms)=1800000) ran for 1802571 milliseconds before timing out.\n";
  }
  const Judged found = judged(log + kGoesOn);
  CHECK(found.verdict == Verdict::missing_call);
  CHECK(found.confidence == Confidence::open);
  CHECK(found.culprits == Ranks{0});
}

TEST_CASE(
    "time-outs as PyTorch 2.15 writes them tell who waits, in which group, and who is silent") {
  std::string log;
  for (const char* rank : {"0", "1", "3"}) {
    log += std::string("[rank") + rank +
           "]:[E1127 19:35:53.039961642 WorkNCCL.cpp:372] [TC][rank=" + rank +
           "][name=0] Operation timed out after 15615 ms\n";
  }
  const Judged found = judged(log + kGoesOn);
  CHECK(found.verdict == Verdict::missing_call);
  CHECK(found.confidence == Confidence::open);
  CHECK(found.culprits == Ranks{2});
  CHECK(holds(found.summary, "ranks 0-1,3 waited in a call of default_pg, and gave up"));
  CHECK(holds(found.summary, "the call began at 19:35:37"));
}

TEST_CASE("memory that a kernel found used up accuses nobody where nothing tells of a job") {
  const std::string kernel =
      "[12345.678901] Out of memory: Killed process 4242 (chrome) total-vm:123kB\n";
  CHECK(judged(kernel).verdict == Verdict::insufficient);
  const Judged front = judged(kernel + three_gave_up());
  CHECK(front.verdict == Verdict::rank_dead);
  CHECK(front.confidence == Confidence::open);
}

TEST_CASE("one rank that gave up does not make the ranks below it suspects") {
  CHECK(judged(gave_up(1)).verdict == Verdict::insufficient);
  const std::string world =
      "n:10:1 [0] NCCL INFO ncclCommInitRank comm 0x0a rank 0 nranks 2 cudaDev 0 commId 0x5 - Init "
      "COMPLETE\n";
  CHECK(judged(world + gave_up(1) + kGoesOn).culprits == Ranks{0});
}

TEST_CASE("a line that is a warning without a text, and something else, is read as both") {
  std::string log;
  for (int i = 0; i < 40; ++i) {
    const std::string number = std::to_string(i);
    log += "n:1" + number + ":2 [0] NCCL WARN oom-kill Killed process 1" + number +
           " Last error:\nsocketStartConnect: Connect to 10.0.0." + number + "<1> failed\n";
  }
  const Run run = read_log(log);
  REQUIRE(run.logs.size() == 1);
  for (const Saying& saying : run.logs[0].sayings) CHECK(saying.line % 2 == 1);
}

TEST_CASE("what a GPU cannot do is no news where NCCL asks for it, and elsewhere is what failed") {
  const std::string words = " NCCL WARN Cuda failure 801 'operation not supported'\n";
  const auto log_of = [&](const std::string& file) {
    return "n:1:2 [0] " + file + words + "n:1:2 [0] NCCL INFO " + file + " -> 1\n" +
           "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for "
           "details)\n";
  };
  const auto told = [&](const std::string& file) {
    const Run run = read_log(log_of(file));
    return !run.logs.empty() &&
           std::any_of(run.logs[0].sayings.begin(), run.logs[0].sayings.end(),
                       [](const Saying& one) { return one.kind == SayingKind::warning; });
  };
  CHECK_FALSE(told("dev_runtime.cc:133"));
  CHECK(told("transport/nvls.cc:91"));
  CHECK(told("transport/p2p.cc:281"));
  CHECK(judge_log(log_of("transport/nvls.cc:91")).findings.front().verdict == Verdict::cuda_error);
}

TEST_CASE("what NCCL says of network, memory and machine is known, in the words of each version") {
  struct Row {
    const char* text;
    const char* meaning;
  };
  constexpr Row kRows[] = {
      {"NET/IB: Got completion from peer 10.0.0.7<5> with status=IBV_WC_RETRY_EXC_ERR(12) "
       "opcode=x(0)",
       "the other side did not answer"},
      {"NET/IB: Got completion from peer 10.0.0.7<5> with status=12 opcode=0 len=0 vendor err 129",
       "the other side did not answer"},
      {"NET/IB: Got completion from peer 10.0.0.7<5> with status=11 opcode=0 len=0 vendor err 137",
       "could not do what was asked"},
      {"Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1",
       "two network adapters do not reach each other"},
      {"Call to ibv_modify_qp failed with error No such device errno 19", "could not be connected"},
      {"Call to ibv_create_cq failed with error Cannot allocate memory errno 12", "could not lock"},
      {"Call to ibv_reg_mr failed with error Bad address errno 14", "could not be registered"},
      {"NET/IB : mlx5_0:1 async fatal event: port error", "a network adapter"},
      {"MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX "
       "configuration (nvidia-imex-ctl -N).",
       "between hosts (MNNVL)"},
      {"Cuda failure 700 'an illegal memory access was encountered'", "CUDA 700"},
      {"Cuda failure 'system not yet initialized'", "nvidia-fabricmanager"},
      {"Cuda failure 999 'unknown error'", "CUDA 999"},
      {"Error: failed to extend /dev/shm/nccl-KWfVyt to 5967876 bytes", "/dev/shm is too small"},
      {"Error while attaching to shared memory segment /dev/shm/nccl-x (size 9)", "do not share"},
      {"Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"},
      {"Bootstrap Root : rank 1 of 4 ranks has already checked in", "as the same rank"},
      {"socketStartConnect: Connect to 10.0.0.7<4211> failed : Connection refused",
       "was not there"},
      {"P2P is disabled between NVLINK connected GPUs 1 and 0.", "a fault of the machine"},
  };
  for (const Row& row : kRows) {
    const std::string warning = std::string("n:1:9 [2] misc/x.cc:7 NCCL WARN ") + row.text + "\n";
    const Judged lead = judged(warning + three_gave_up());
    INFO(row.text << "\n" << lead.summary);
    CHECK(holds(lead.summary, row.meaning));
    CHECK(lead.confidence == Confidence::likely);
  }
}

TEST_CASE("what NCCL says of a change, or of what came of another's error, leads no report") {
  for (const char* text :
       {"NET/IB: Got completion from peer 10.0.0.7<5> with status=IBV_WC_WR_FLUSH_ERR(5) "
        "opcode=x(0)",
        "NET/IB : mlx5_0:1 Got non-fatal async event: client reregistration(17)",
        "NET/IB : Got async event : GID table change", "NET/IB : mlx5_0:1 GID table changed",
        "communicator encountered a fatal error (detected in ncclIbTest)",
        "[Service thread] Error encountered progressing operation=Connect, res=3, closing "
        "connection",
        "Call to ibv_reg_dmabuf_mr failed with error Operation not supported"}) {
    INFO(text);
    const std::string warning = std::string("n:1:9 [2] misc/x.cc:7 NCCL WARN ") + text + "\n";
    CHECK(judged(warning + three_gave_up()).verdict == judged(three_gave_up()).verdict);
  }
}

TEST_CASE(
    "an error of NCCL that ended PyTorch's watchdog is that of its rank, as its last warning is") {
  const Judged found = judged(
      "[rank2]:[E602 11:18:52.5 ProcessGroupNCCL.cpp:1896] [PG ID 1 PG GUID 1 Rank 2] Process "
      "group "
      "watchdog thread terminated with exception: NCCL error: remote process exited or there was a "
      "network error, NCCL version 2.28.9\nncclRemoteError: A call failed.\nLast error:\n"
      "NET/IB: Got completion from peer 10.0.0.7<51420> with status=IBV_WC_RETRY_EXC_ERR(12) "
      "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send hca mlx5_0\n");
  CHECK(found.verdict == Verdict::async_error);
  CHECK(found.culprits == Ranks{2});
  CHECK(holds(found.summary, "NCCL warns in rank 2"));
  CHECK(holds(found.summary.substr(0, 160), "the other side did not answer"));
}

TEST_CASE("an error that XLA had of NCCL is read") {
  const Judged found = judged(
      "2024-07-30 01:35:14.1: W external/xla/xla/service/gpu/runtime/support.cc:58] Intercepted "
      "XLA "
      "runtime error:\nINTERNAL: external/xla/xla/service/gpu/nccl_utils.cc:305: NCCL operation "
      "ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled system error (run with "
      "NCCL_DEBUG=INFO for details).\n");
  CHECK(found.verdict == Verdict::async_error);
  CHECK(found.confidence == Confidence::open);
  CHECK(found.culprits.empty());
  CHECK(read_log("NCCL operation took 5 ms, and none failed: fine\n").logs.empty());
}

TEST_CASE("a time-out without a group is in the only group where others gave up the same call") {
  const std::string group =
      "[rank0]:[E816 01:45:40.2 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 0] Exception (either an "
      "error "
      "or timeout) detected by watchdog at work: 41, last enqueued NCCL work: 42, last completed "
      "NCCL work: 40.\n";
  const Judged one = judged(gave_up(0) + gave_up(1) + gave_up(3) + group);
  CHECK(holds(one.summary, "ranks 0-1,3 waited in ALLREDUCE, call 41 of group 1"));
  // Where two groups have that call nobody knows.
  std::string other = group;
  other.replace(other.find("rank0"), 5, "rank1");
  other.replace(other.find("PG 1 Rank 0"), 11, "PG 2 Rank 1");
  const Judged two = judged(gave_up(0) + gave_up(1) + gave_up(3) + group + other);
  CHECK_FALSE(holds(two.summary, "ranks 0-1,3 waited"));
}

TEST_CASE("several ranks whose watchdogs do not move are all named, and none of them is to blame") {
  const auto stuck = [](int rank) {
    const std::string number = std::to_string(rank);
    return "[rank" + number + "]:[F1019 01:14:03.3 ProcessGroupNCCL.cpp:1224] [PG 3 Rank " +
           number +
           "] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress.\n";
  };
  const Judged several = judged(stuck(0) + stuck(2) + stuck(2) + stuck(3));
  CHECK(several.verdict == Verdict::stuck_in_call);
  CHECK(holds(several.summary, "ranks 0,2-3: PyTorch's watchdog threads did not move"));
  CHECK(several.culprits.empty());
  // Who is alone may wait for those who print nothing.
  const Judged alone = judged(stuck(2));
  CHECK(alone.verdict == Verdict::stuck_in_call);
  CHECK(holds(alone.summary, "rank 2: PyTorch's watchdog thread did not move"));
  CHECK(alone.culprits.empty());
}

TEST_CASE("a rank whose watchdog does not move is not said to be silent for another reason") {
  const auto stuck = [](int rank) {
    const std::string number = std::to_string(rank);
    return "[rank" + number +
           "]:[E626 05:14:36.3 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID "
           "0(default_pg) Rank " +
           number +
           "] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress.\n";
  };
  const Judged one = judged(three_gave_up() + stuck(2));
  CHECK(one.verdict == Verdict::stuck_in_call);
  CHECK(one.confidence == Confidence::open);
  CHECK(one.culprits == Ranks{2});
  CHECK(holds(one.summary, "rank 2 prints no time-out because PyTorch's watchdog thread does not"));
  CHECK_FALSE(holds(one.summary, "never called it"));
  // What became of a rank behind its own time-out is no reason of it.
  CHECK(judged(three_gave_up() + stuck(0)).culprits == Ranks{2});
  // Of another one that says nothing at all that is not known.
  const Judged two = judged(three_gave_up() + gave_up(5) + stuck(2));
  CHECK(two.verdict == Verdict::missing_call);
  CHECK(two.culprits == Ranks{4});
  const Judged both = judged(three_gave_up() + gave_up(5) + stuck(2) + stuck(4));
  CHECK(both.culprits.empty());
  CHECK(holds(both.summary, "ranks 2,4 print no time-out because"));
  const analysis::Report alone = judge_log(gave_up(1) + stuck(0));
  CHECK(alone.findings.front().verdict == Verdict::insufficient);
  CHECK(holds(alone.findings.front().next, "look at the stack of rank 0"));
}

TEST_CASE(
    "a rank that tells where it gave up is not silent, though its time-out is not in the log") {
  const auto position = [](const std::string& rank) {
    return "[rank" + rank + "]:[E816 01:45:40.2 ProcessGroupNCCL.cpp:1664] [PG 1 Rank " + rank +
           "] Exception (either an error or timeout) detected by watchdog at work: 41, last "
           "enqueued NCCL work: 42, last completed NCCL work: 40.\n";
  };
  const std::string waits = gave_up(0) + gave_up(1) + gave_up(4) + position("0");
  CHECK(judged(waits + kGoesOn).culprits == Ranks{2, 3});
  CHECK(judged(waits + position("3") + kGoesOn).culprits == Ranks{2});
}

TEST_CASE("what an error means stands in the first sentence, however long its words are") {
  const Judged found = judged("[rank2]: ValueError: " + std::string(300, 'x') + "\n");
  CHECK(found.culprits == Ranks{2});
  CHECK(holds(found.summary.substr(0, 160), "the rank ended with that"));
}

TEST_CASE("of several logs nobody says that an error stands in front of an end") {
  const auto summary = [](const std::vector<std::string>& texts) {
    Run run;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto* begin = reinterpret_cast<const uint8_t*>(texts[i].data());
      import_bytes("log" + std::to_string(i), {begin, texts[i].size()}, run.processes, run.issues,
                   &run.logs);
    }
    return analysis::analyse(run).findings.front().summary;
  };
  const std::string error = "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB.\n";
  const std::string end = "srun: error: n1: task 1: Exited with exit code 1\n";
  CHECK(holds(summary({error + end}), "; an error stands in front of it: "));
  CHECK(holds(summary({error, end}), "; there is also an error: "));
}
