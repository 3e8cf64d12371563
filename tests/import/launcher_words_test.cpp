// What launchers, schedulers, shells and data loaders say of an end, and what follows from it.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;
using Ranks = std::vector<int32_t>;

namespace {

constexpr const char* kWorkerKilled =
    "RuntimeError: DataLoader worker (pid 22048) is killed by signal: Killed. \n";
constexpr const char* kRemoteError =
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:3353, remote process exited or there "
    "was a network error, NCCL version 2.21.5\n";

// An end that is told for sure, by the words that its first sentence has.
void check_end(const std::string& log, const std::string& words, const Ranks& culprits = {}) {
  const Judged found = judged(log);
  INFO(log << found.summary);
  CHECK(found.verdict == Verdict::rank_dead);
  CHECK(found.confidence == Confidence::likely);
  CHECK(holds(found.summary, words));
  CHECK(found.culprits == culprits);
}

// Something is said, and nobody is accused.
void check_open(const std::string& log, Verdict verdict, const std::string& words) {
  const Judged found = judged(log);
  INFO(log << found.summary);
  CHECK(found.verdict == verdict);
  CHECK(found.confidence == Confidence::open);
  CHECK(holds(found.summary, words));
  CHECK(found.culprits.empty());
}

}  // namespace

TEST_CASE("a data loader that was killed leads, by the rank that says so, else by what ended") {
  check_end(std::string("[rank2]: ") + kWorkerKilled + three_gave_up(),
            "a process that loads data was killed", {2});
  const std::string labelled =
      "0: [rank0]:[I816 01:00:00.1 x.cpp:1] Observed flight recorder dump signal from another "
      "rank via TCPStore.\n1: " +
      std::string(kWorkerKilled) + "0: " + gave_up(0);
  CHECK(holds(judged(labelled).summary,
              "task 1 raised an error: \"DataLoader worker (pid 22048) is killed"));
  const Judged unnamed = judged(kWorkerKilled + three_gave_up());
  CHECK(unnamed.verdict == Verdict::rank_dead);
  CHECK(holds(unnamed.summary.substr(0, 160), "a process that loads data was killed"));
  CHECK(unnamed.culprits.empty());
  check_end(std::string(kWorkerKilled) + "srun: error: n1: task 1: Exited with exit code 1\n",
            "task 1 on n1 ended with status 1");
  check_open(kWorkerKilled, Verdict::insufficient, "a process that loads data was killed");
  // What ends with its rank, or is ended, began nothing.
  CHECK(judged("[rank2]: RuntimeError: DataLoader worker (pid 7) is killed by signal: Aborted. \n" +
               three_gave_up())
            .verdict == judged(three_gave_up()).verdict);
  for (const char* signal : {"Interrupt", "Hangup", "Terminated"}) {
    const Judged ended = judged(
        std::string("[rank2]: RuntimeError: DataLoader worker (pid 7) is killed by signal: ") +
        signal + ". \n");
    CHECK(ended.verdict == Verdict::insufficient);
    CHECK(ended.culprits.empty());
  }
  CHECK(read_log("DataLoader worker init: seed 7\n").logs.empty());
}

TEST_CASE("tasks that Slurm names together are told together, unless Slurm itself ended them") {
  check_end("srun: error: n7: tasks 4,6: Killed\n", "tasks 4,6 on n7 ended with status -9");
  check_end("srun: error: n7: tasks 0-3: Exited with exit code 1\n",
            "tasks 0-3 on n7 ended with status 1: an error that the program raised");
  for (const char* front : {"srun: Terminating StepId=5.0\n", "srun: Force Terminated StepId=5.0\n",
                            "srun: launch/slurm: _step_signal: Terminating StepId=5.0\n"}) {
    CHECK(read_log(std::string(front) + "srun: error: n7: tasks 0-3: Killed\n").logs.empty());
  }
  CHECK(read_log("srun: error: n7: tasks 0-3: running\n").logs.empty());
}

TEST_CASE("a shell tells of what it ran, by number and signal") {
  check_open(
      "/var/spool/job191/slurm_script: line 28:  8156 Killed                  python3 x.py\n",
      Verdict::rank_dead, "pid 8156 ended with status -9");
  check_open("run.sh: line 12:  4711 Bus error               (core dumped) python train.py\n",
             Verdict::rank_dead, "pid 4711 ended with status -7");
  check_open("run.sh: line 12:  4711 Segmentation fault      (core dumped) torchrun train.py\n",
             Verdict::rank_dead, "pid 4711 ended with status -11");
  // It runs much beside the job.
  for (const char* line :
       {"run.sh: line 20:  4711 Killed                  nvidia-smi dmon\n",
        "run.sh: line 20:  4711 Segmentation fault      (core dumped) ./monitor\n",
        "run.sh: line 20:  4711 files Killed  python\n", "x.py: line 12: Killed  python\n"}) {
    CHECK(read_log(line).logs.empty());
  }
}

TEST_CASE("other launchers that tell of an end in their own way are read, too") {
  check_end("=   RANK 3 PID 4711 RUNNING AT node7\n=   KILLED BY SIGNAL: 9 (Killed)\n",
            "rank 3 ended with status -9", {3});
  check_end("=   PID 4711 RUNNING AT node7\n=   KILLED BY SIGNAL: 9 (Killed)\n",
            "ended with status -9");
  check_end(
      "prterun noticed that process rank 2 with PID 4711 on node n7 exited on\nsignal 9 "
      "(Killed).\n",
      "rank 2 ended with status -9", {2});
  check_end("command terminated with exit code 137\n", "a process ended with status 137: SIGKILL");
  // An error of its own, Ctrl-C, a closed pipe.
  for (const char* code : {"1", "130", "141"}) {
    CHECK(read_log(std::string("command terminated with exit code ") + code + "\n").logs.empty());
  }
  check_end("ERROR x.py:120] Worker VllmWorkerProcess pid 1159 died, exit code: -9\n",
            "pid 1159 ended with status -9");
  CHECK(read_log("Worker VllmWorkerProcess pid 1159 died, exit code: 0\n").logs.empty());
  CHECK(read_log("helper pid 1159 died, exit code: -9\n").logs.empty());
  // abort(), as of a watchdog.
  CHECK(judged("Worker VllmWorkerProcess pid 1159 died, exit code: -6\n").verdict ==
        Verdict::insufficient);
}

TEST_CASE("of the ranks that Intel MPI ends after the first none is taken for the first") {
  const auto block = [](int rank, const std::string& signal) {
    return "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK " +
           std::to_string(rank) + " PID " + std::to_string(4711 + rank) +
           " RUNNING AT node7\n=   KILLED BY SIGNAL: " + signal + "\n" + std::string(79, '=') +
           "\n";
  };
  const std::string killed = "9 (Killed)";
  check_end(block(0, killed) + block(1, "11 (Segmentation fault)") + block(2, killed),
            "rank 1 ended with status -11", {1});
  const std::string all_killed = block(0, killed) + block(1, killed) + block(2, killed);
  check_open(all_killed, Verdict::rank_dead, "one of several processes ended with status -9");
  CHECK(read_log(all_killed).logs.front().sayings.size() == 1);
  // Behind the time-outs of others it may be the end that their watchdog brought.
  CHECK(judged(three_gave_up() + block(2, killed)).confidence == Confidence::open);
}

TEST_CASE("the number that mp.spawn() gives a process is told, and is no rank") {
  for (const std::string line :
       {"Exception: process 3 terminated with signal SIGKILL",
        "torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal "
        "SIGKILL"}) {
    check_end(line + "\n", "process 3 of mp.spawn() ended with status -9");
    CHECK(holds(judged(line + "\n").summary, "that is rank 3 only where the job has one host"));
  }
  CHECK(read_log("process 3 terminated\n").logs.empty());
}

TEST_CASE("what torch.multiprocessing shows below an end is the error of that process") {
  const std::string end = "-- Process 1 terminated with the following error:\n";
  const std::string trace = "Traceback (most recent call last):\n  File \"t.py\", line 3\n";
  check_end(end + trace + "ValueError: bad sample\n", "process 1 of mp.spawn() ended");
  const Judged behind = judged(end + trace + kRemoteError);
  CHECK(behind.verdict == Verdict::insufficient);
  CHECK(behind.culprits.empty());
  // In front of it that may be anybody's.
  CHECK(judged(kRemoteError + end + trace).confidence == Confidence::open);
  // Of another rank it says nothing of this one.
  check_end(end + trace + "[rank0]: " + kRemoteError, "process 1 of mp.spawn() ended");
}

TEST_CASE("the end of an actor of Ray is told by what Ray says of it") {
  const auto dead = [](const std::string& type) {
    return "The actor is dead because its worker process has died. Worker exit type: " + type +
           " Worker exit detail: Worker unexpectedly exits with a connection error code 2.\n";
  };
  check_end(dead("SYSTEM_ERROR"), "an actor of Ray ended: its process crashed or was killed");
  check_end(dead("NODE_OUT_OF_MEMORY"), "the memory of its host was used up");
  check_open(dead("INTENDED_USER_EXIT"), Verdict::insufficient, "it ended by itself");
  // Behind time-outs it is what PyTorch's watchdog did.
  CHECK(judged(three_gave_up() + dead("SYSTEM_ERROR")).verdict == Verdict::missing_call);
}

TEST_CASE("a worker that Ray ends for memory may be started again, and accuses nobody") {
  const auto killed = [](int count) {
    return "(raylet) [2024-05-06 07:08:09,123 E 77 77] (raylet) node_manager.cc:3069: " +
           std::to_string(count) +
           " Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due "
           "to other reasons at node (ID: 5a, IP: 10.0.0.7) over the last time period.\n";
  };
  const std::string task =
      "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n";
  check_open(killed(1), Verdict::insufficient, "Ray ended a worker");
  check_open(task, Verdict::insufficient, "the memory of");
  check_open(killed(1) + three_gave_up(), Verdict::rank_dead, "Ray ended a worker");
  CHECK(read_log(killed(0)).logs.empty());
  // Another counts its GPUs.
  CHECK_FALSE(
      read_log("HW Exception by GPU node-0 (Agent handle: 0x1) reason :GPU Hang\n").logs.empty());
}

TEST_CASE("a rank that told of another's end, and then ended by itself, did not begin it") {
  const std::string error = std::string("[rank3]: ") + kRemoteError;
  check_open(error + summary_of_torchrun("", 3, 1), Verdict::insufficient, "another process ended");
  // Of another rank's error nothing follows for this one.
  check_end(error + summary_of_torchrun("", 2, 1), "rank 2 ended with status 1", {2});
  // Killed it was, whatever it had said.
  check_end(error + summary_of_torchrun("", 3, -9), "rank 3 ended with status -9", {3});
  // Where nobody says whose error that was, it may have been that rank's.
  CHECK(judged(kRemoteError + summary_of_torchrun("", 3, 1)).confidence == Confidence::open);
}

TEST_CASE("an error of a server outside the job is no word of another rank's end") {
  for (const char* error :
       {"TimeoutError: [Errno 110] Connection timed out",
        "ConnectionError: HTTPSConnectionPool(host='hf.co'): Max retries exceeded (Caused by "
        "ConnectTimeoutError('timed out'))",
        "ReadTimeoutError: HTTPSConnectionPool(host='hf.co', port=443): Read timed out."}) {
    check_end(std::string("[rank2]: ") + error + "\n" + three_gave_up(), "over the network", {2});
  }
  // Who met one may have ended for that, or for another rank's end.
  for (const char* error : {"ConnectionRefusedError: [Errno 111] Connection refused",
                            "RuntimeError: [x.cc:81] Timed out waiting 1800000ms for recv"}) {
    const Judged found =
        judged(std::string("[rank3]: ") + error + "\n" + summary_of_torchrun("", 3, 1));
    CHECK(found.confidence == Confidence::open);
    CHECK(found.culprits == Ranks{3});
  }
  // The store is the job's own.
  check_open("[rank3]: torch.distributed.DistStoreError: wait timeout after 600000ms\n" +
                 summary_of_torchrun("", 3, 1),
             Verdict::insufficient, "went wrong");
}

TEST_CASE("what a healthy job prints, too, explains less than what it does not") {
  const std::string context = "No available shared memory broadcast block found in 60 seconds.\n";
  check_open(context + "[rank2]: " + kRemoteError, Verdict::insufficient, "another process ended");
  CHECK(holds(judged(context + "[rank2]: " + kRemoteError).summary,
              "the log says that something went wrong"));
}

TEST_CASE("an error that a rank got over, and then waited in a call with others, is no cause") {
  const std::string error = "[rank0]: ValueError: bad sample\n";
  CHECK(judged(error + three_gave_up()).verdict == judged(three_gave_up()).verdict);
  CHECK(judged("[rank2]: ValueError: bad sample\n" + three_gave_up()).culprits == Ranks{2});
}

TEST_CASE("a job that was ended from outside is not said to hang, however old its launcher") {
  for (const char* line :
       {"slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-05-29T10:00:00 DUE TO PREEMPTION "
        "***\nsrun: error: n1: tasks 0-7: Terminated\n",
        "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-05-29T10:00:00 DUE to SIGNAL "
        "Terminated ***\n",
        "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-05-29T10:00:00 ***\n"}) {
    check_open(line, Verdict::insufficient, "tells nothing of a hang");
  }
  check_open("W1 x] Received 15 death signal, shutting down workers\n", Verdict::insufficient,
             "the log says of no rank that it went wrong");
}

TEST_CASE("memory that a kernel found used up is named by its process, and leads where one ended") {
  const std::string kernel =
      "oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=4242,uid=0\n"
      "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB\n";
  check_open(kernel, Verdict::insufficient, "pid 4242: the host had no memory left");
  check_open(kernel + "[rank0]: " + kRemoteError, Verdict::rank_dead, "pid 4242");
  check_open(
      "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB.\n"
      "Received sigquit from a child process. It usually means the child failed.\n",
      Verdict::rank_dead, "the memory of the GPU was used up");
}

TEST_CASE("a rank that waits in a call of a smaller group is not said to print no time-out") {
  const auto position = [](int rank, const std::string& group, int seq) {
    const std::string name = std::to_string(rank);
    const std::string number = std::to_string(seq);
    return "[rank" + name + "]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:632] [Rank " + name +
           "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + number +
           ", OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600020 "
           "milliseconds before timing out.\n[rank" +
           name + "]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID " + group +
           " Rank " + name + "]  failure detected by watchdog at work sequence id: " + number +
           " PG status: last enqueued work: " + number + ", last completed work: 7\n";
  };
  const std::string size = "All distributed processes registered. Starting with 4 processes\n";
  const std::string waits = position(0, "0(default_pg)", 90) + position(1, "0(default_pg)", 90) +
                            position(2, "7(tp)", 55);
  const Judged one = judged(size + waits + kGoesOn);
  CHECK(one.verdict == Verdict::missing_call);
  CHECK(one.culprits == Ranks{3});
  CHECK(holds(one.summary, "rank 2 waited in ALLREDUCE of tp at that time"));
  // They wait in calls of two kinds there.
  std::string other = position(3, "7(tp)", 56);
  other.replace(other.find("ALLREDUCE"), 9, "ALLGATHER");
  CHECK(holds(judged(size + waits + other).summary, "ranks 2-3 waited in calls of tp at that"));
  // Who waits there has not made this call, so it is not said that all have.
  const Judged both = judged(size + waits + position(3, "7(tp)", 55));
  CHECK(both.verdict == Verdict::insufficient);
  CHECK(holds(both.summary, "ranks 2-3 waited in ALLREDUCE of tp at that time"));
}

TEST_CASE("what a healthy job prints at its end, or while it compiles, is told as no fault") {
  check_open(
      "[rank1]:[W1229 22:06:38.4 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 Rank 1] Failed to "
      "check the \"should dump\" flag on TCPStore, (maybe TCPStore server has shut down too "
      "early), "
      "with error: Broken pipe\n",
      Verdict::insufficient, "the log says of no rank that it went wrong");
  check_open("No available shared memory broadcast block found in 60 seconds.\n",
             Verdict::insufficient, "the log says of no rank that it went wrong");
}

TEST_CASE("processes that did not come are counted, as each version of PyTorch tells it") {
  for (const char* counts : {"num_workers_joined=7", "worker_count=7"}) {
    const Judged found = judged(
        "Timed out initializing process group in store based barrier on rank 0, for key: "
        "store_based_barrier_key:1 (world_size=8, " +
        std::string(counts) + ", timeout=0:30:00)\n");
    CHECK(found.verdict == Verdict::init_incomplete);
    CHECK(found.confidence == Confidence::likely);
    CHECK(holds(found.summary, "7 of 8 processes"));
  }
  check_open(
      "Timed out initializing process group in store based barrier on rank: 0, for key: "
      "store_based_barrier_key:1 (world_size=8, worker_count=16, timeout=0:30:00)\n",
      Verdict::init_incomplete, "an earlier start left its count behind");
}

TEST_CASE("hosts that did not come to torchrun's rendezvous are a start that did not end") {
  check_open("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n",
             Verdict::init_incomplete, "not all hosts had come");
  check_open(
      "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the "
      "C10d store has failed. See inner exception for details.\n",
      Verdict::init_incomplete, "could not reach torchrun's rendezvous");
  check_open(
      "torch.distributed.DistNetworkError: The client socket has failed to connect to any network "
      "address of (10.0.0.5, 29500).\n",
      Verdict::init_incomplete, "could not reach rank 0 at 10.0.0.5, 29500");
  // One try of many.
  for (const char* line :
       {"[W socket.cpp:663] [c10d] The client socket has failed to connect to [n0]:29500 (errno: "
        "110 - Connection timed out).\n",
        "[W socket.cpp:752] [c10d] The client socket has failed to connect to any network address "
        "of (n0, 29500).\n",
        "[W TCPStore.cpp:340] [c10d] TCP client failed to connect to host n0:29500 - retrying "
        "(try=0, timeout=60000ms): DistNetworkError: The client socket has failed to connect to "
        "any network address of (n0, 29500). The IPv4 network addresses of (n0, 29500)\n"}) {
    CHECK(read_log(line).logs.empty());
  }
}

TEST_CASE("a warning that NCCL goes on behind says nothing, with whatever it was lost") {
  for (const char* text :
       {"Cuda failure 'driver shutting down'", "NET/OFI Couldn't find any optimal provider",
        "Could not find a path for pattern 4, falling back to simple order",
        "NET/IB : Unable to open device mlx5_3",
        "Could not find real path of /sys/class/net/eth0/device",
        "nvmlDeviceSetCpuAffinity() failed: Unknown Error"}) {
    INFO(text);
    const std::string warning = std::string("n:1:9 [2] misc/x.cc:7 NCCL WARN ") + text + "\n";
    CHECK(read_log(warning).logs.empty());
    CHECK(judged(warning + three_gave_up()).summary == judged(three_gave_up()).summary);
  }
  CHECK_FALSE(read_log("n:1:9 [2] misc/x.cc:7 NCCL WARN nvmlDeviceSetCpuAffinity() failed: GPU is "
                       "lost\n")
                  .logs.empty());
}
