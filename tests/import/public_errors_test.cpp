// Errors of ranks and launchers as they stand in public: in a file of their own beside the calls,
// and in the words of programs other than PyTorch. Each with one that only looks like it.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;
using Ranks = std::vector<int32_t>;

namespace public_errors_test {

using Texts = std::vector<std::string>;

// As `rollcall diff 0.log 1.log ...` reaches it.
analysis::Report judge_files(const Texts& texts, const std::string& folder = "") {
  Run run;
  for (size_t i = 0; i < texts.size(); ++i) {
    import_bytes(folder + std::to_string(i) + ".log",
                 {reinterpret_cast<const uint8_t*>(texts[i].data()), texts[i].size()},
                 run.processes, run.issues, &run.logs);
  }
  forget_shared_identifiers(run);
  return analysis::analyse(run);
}

analysis::Finding lead_of(const Texts& texts) { return judge_files(texts).findings.front(); }

Ranks culprits_of(const analysis::Finding& finding) {
  Ranks ranks;
  for (const auto& culprit : finding.culprits) ranks.push_back(culprit.rank);
  return ranks;
}

// The calls of one of two ranks, as NCCL_DEBUG_SUBSYS=INIT,COLL shows them.
std::string calls_of(int rank, int calls = 3) {
  const std::string name = std::to_string(rank);
  const std::string front = "gpu4:31" + name + ":31" + name + " [" + name + "] NCCL INFO ";
  std::string log;
  for (const char* what : {"START", "COMPLETE"}) {
    log += front + "ncclCommInitRank comm 0x6a20b" + name + "0 rank " + name +
           " nranks 2 cudaDev " + name + " nvmlDev " + name +
           " busId 4f000 commId 0x3c9be1470d55a2f8 - Init " + what + "\n";
  }
  for (int number = 0; number < calls; ++number) {
    log += front + "AllReduce: opCount " + std::to_string(number) +
           " sendbuff 0x7d1000000000 recvbuff 0x7d1000000000 count 96 datatype 7 op 0 root 0 "
           "comm 0x6a20b" +
           name + "0 [nranks=2] stream 0x71\n";
  }
  return log;
}

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"fit.py\", line 17, in step\n    pick(x)\n"
    "ValueError: no such column\n";

TEST_CASE("an error in one file is held against calls that are in step in others") {
  for (const Texts& texts :
       {Texts{calls_of(0), calls_of(1), kTraceback}, Texts{kTraceback, calls_of(0), calls_of(1)},
        Texts{calls_of(0) + calls_of(1), "epoch 3\n" + kTraceback}}) {
    const analysis::Report report = judge_files(texts);
    const analysis::Finding& lead = report.findings.front();
    CAPTURE(lead.summary);
    CHECK(lead.verdict == Verdict::insufficient);
    CHECK(lead.culprits.empty());
    CHECK(report.status == 3);
    CHECK(holds(lead.summary, "a rank that the log does not name raised ValueError"));
    CHECK(holds(lead.summary, "as far as the calls on file go, all 2 processes made the same"));
    CHECK(holds(lead.summary, ".log a rank that"));
    CHECK(holds(lead.next, ".log: whether the program got over it"));
  }
  // As in one file, which need not be named.
  const analysis::Finding one = lead_of({calls_of(0) + calls_of(1) + kTraceback});
  CHECK(one.summary.starts_with("in line 14 a rank that the log does not name raised ValueError"));
  // Others that hold no error leave the calls as they are.
  const analysis::Report clear =
      judge_files({calls_of(0), calls_of(1), "ValueError: no such column\nepoch 3\n"});
  CHECK(clear.findings.front().verdict == Verdict::in_lockstep);
  CHECK(clear.status == 0);
}

TEST_CASE("an error in a file that holds the calls of one rank alone is told with that rank") {
  const std::string beside = "\"no such column\", in the log of the calls of rank 1;";
  const analysis::Finding own = lead_of({calls_of(0), calls_of(1) + kTraceback});
  CHECK(holds(own.summary, beside));
  CHECK(own.verdict == Verdict::insufficient);
  CHECK(own.culprits.empty());
  CHECK_FALSE(holds(lead_of({calls_of(0) + calls_of(1) + kTraceback}).summary, "in the log of"));
  CHECK_FALSE(holds(lead_of({calls_of(0), calls_of(1), kTraceback}).summary, "in the log of"));
}

TEST_CASE("each error of a rank counts beside calls in other files as it does among them") {
  for (const std::string& error : Texts{
           kTraceback, "[rank1]: KeyError: 'mask'\n",
           "[rank1]: RuntimeError: CUDA error: device-side assert triggered\n",
           "RuntimeError: CUDA error: an illegal memory access was encountered\n",
           "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n",
           "srun: error: n7: task 1: Killed\n", "NVRM: Xid (PCI:0000:5e:00): 79, pid=311\n",
           "E1 api.py:882] failed (exitcode: -9) local_rank: 1 (pid: 311) of binary: python3\n"}) {
    for (const int calls : {3, 2}) {
      CAPTURE(error, calls);
      const std::string own = calls_of(1, calls);
      const analysis::Report one = judge_files({calls_of(0) + own + error});
      for (const Texts& texts : {Texts{calls_of(0), own, error}, Texts{error, own, calls_of(0)},
                                 Texts{calls_of(0), own + error}}) {
        const analysis::Report several = judge_files(texts);
        CHECK(several.status == one.status);
        CHECK(several.findings.front().verdict == one.findings.front().verdict);
        CHECK(several.findings.front().confidence == one.findings.front().confidence);
        CHECK(culprits_of(several.findings.front()) == culprits_of(one.findings.front()));
      }
    }
  }
}

TEST_CASE("an error in a file of its own takes nothing from the order that another file tells") {
  const std::string waits = gave_up(0) + gave_up(2) + kGoesOn;
  const std::string early = "[rank1]: KeyError: 'mask'\n" + waits;
  const analysis::Finding alone = lead_of({early});
  const analysis::Finding beside = lead_of({early, kTraceback});
  CHECK(beside.verdict == alone.verdict);
  CHECK(beside.confidence == alone.confidence);
  CHECK(culprits_of(beside) == Ranks{1});
  CHECK(holds(beside.summary, "in line 4 of 1.log a rank that the log does not name raised"));
  // Whose it is nobody says: the one who is missing is named as he was, and not for this.
  const analysis::Finding missing = lead_of({waits, kTraceback});
  CHECK(culprits_of(missing) == Ranks{1});
  CHECK(missing.confidence == Confidence::open);
  CHECK_FALSE(holds(missing.summary, "perhaps"));
}

TEST_CASE("an error in the log of the rank that is missing, by its file's name, may be its own") {
  const std::string waits = gave_up(0) + gave_up(2) + kGoesOn;
  const auto lead_in = [&](const std::string& folder) {
    return judge_files({waits, kTraceback}, folder).findings.front();
  };
  CHECK(holds(lead_in("job/rank").summary,
              "in line 4 of rank1.log a rank that the log does not name raised ValueError: \"no "
              "such column\", perhaps rank 1"));
  CHECK(culprits_of(lead_in("job/rank")) == Ranks{1});
  CHECK(lead_in("job/rank").confidence == Confidence::open);
  CHECK_FALSE(holds(lead_in("job/host").summary, "perhaps"));
  CHECK_FALSE(holds(judge_files({kTraceback, waits}, "rank").findings.front().summary, "perhaps"));
}

TEST_CASE("an error in a log that tells of no hang accuses nobody") {
  const analysis::Report report = judge_files({"step 4\n" + kTraceback});
  CHECK(report.findings.front().verdict == Verdict::insufficient);
  CHECK(report.findings.front().culprits.empty());
  CHECK(report.status == 3);
  CHECK(report.findings.front().summary ==
        "in line 5 a rank that the log does not name raised ValueError: \"no such column\"");
}

// --- the words of other programs -----------------------------------------------------------------

bool says_nothing(const std::string& log) { return read_log(log).logs.empty(); }

// The only one that the log holds.
Saying only_saying(const std::string& log) {
  CAPTURE(log);
  const Run run = read_log(log);
  REQUIRE(run.logs.size() == 1);
  REQUIRE(run.logs.front().sayings.size() == 1);
  return run.logs.front().sayings.front();
}

TEST_CASE("an error of NCCL is read without its version, and in Horovod's words") {
  for (const std::string& line : Texts{
           "RuntimeError: NCCL error in: /p/c10d/ProcessGroupNCCL.cpp:311, unhandled cuda error\n",
           "x.errors_impl.UnknownError:  ncclAllReduce failed: unhandled cuda error\n"}) {
    const Saying saying = only_saying(line);
    CHECK(saying.kind == SayingKind::async_error);
    CHECK(saying.text == "unhandled cuda error");
    CHECK(judged(line).confidence == Confidence::open);
  }
  // Once where the version is told, too.
  CHECK(only_saying("RuntimeError: NCCL error in: /p/x.cpp:47, invalid usage, NCCL version 2.9.6\n")
            .text == "invalid usage");
  CHECK(says_nothing("NCCL error in: our own code, since yesterday\n"));
  CHECK(says_nothing("ncclAllReduce failed: see the manual\n"));
}

TEST_CASE("a watchdog of PyTorch that failed itself is told with its rank") {
  const std::string failed =
      "  what():  [Rank 3] NCCL watchdog thread terminated with exception: found INTERNAL ASSERT "
      "FAILED at \"/p/TraceUtils.h\":91, please report a bug to PyTorch.\n";
  const Judged found = judged(failed);
  CHECK(found.culprits == Ranks{3});
  CHECK(holds(found.summary, "rank 3 raised an error: \"found INTERNAL ASSERT FAILED"));
  CHECK(says_nothing("RuntimeError: found INTERNAL ASSERT FAILED at \"/p/x.h\":91\n"));
}

TEST_CASE(
    "an assertion in a kernel is an error of CUDA, and gives way to one that names its rank") {
  const std::string assertion =
      "../aten/src/ATen/native/cuda/Loss.cu:240: kernel: block: [3,0,0], thread: [7,0,0] Assertion "
      "`t >= 0 && t < n_classes` failed.\n";
  const Judged found = judged(assertion + assertion + three_gave_up());
  CHECK(found.verdict == Verdict::cuda_error);
  CHECK(found.culprits.empty());
  CHECK(judged(assertion).verdict == Verdict::insufficient);
  const Judged named =
      judged(assertion + "[rank2]: RuntimeError: CUDA error: device-side assert triggered\n");
  CHECK(named.culprits == Ranks{2});
  CHECK(named.confidence == Confidence::likely);
  CHECK(says_nothing("block: [3,0,0], thread: [7,0,0] is where it stops\n"));
}

TEST_CASE("processes that JAX missed at a barrier are named, and not for sure") {
  const auto barrier = [](const std::string& name) {
    return "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. "
           "Barrier_id: " +
           name +
           ". Timed out task names:\n/job:jax_worker/replica:0/task:5\n"
           "/job:jax_worker/replica:0/task:2\n\n/job:jax_worker/replica:0/task:9\n";
  };
  const Judged found = judged(barrier("PjRT_Client_Connect"));
  CHECK(found.verdict == Verdict::missing_call);
  CHECK(found.confidence == Confidence::open);
  CHECK(found.culprits == Ranks{5, 2});
  CHECK(found.summary.starts_with("JAX's own report names ranks 2,5"));
  // Who is at its end waits for those that go on.
  CHECK(says_nothing(barrier("Shutdown::0")));
  CHECK(says_nothing("/job:jax_worker/replica:0/task:5\n"));
}

TEST_CASE("the launchers of PaddlePaddle tell who ended, and of several not who was first") {
  const std::string container =
      "Container rank 2 status failed cmd ['/p/python', '-u', 'a.py'] code -9 log "
      "log/workerlog.2\n";
  const Saying saying = only_saying(container);
  CHECK(saying.local_rank == 2);
  CHECK(saying.code == -9);
  CHECK(holds(judged(container).summary, "local rank 2 of some host ended with status -9"));
  const auto aborted = [](const std::string& ranks) {
    return "ERROR 2026-03-04 05:06:07,891 launch.py:269] ABORT!!! Out of all 8 trainers, the "
           "trainer process with rank=[" +
           ranks + "] was aborted. Please check its log.\n";
  };
  const Judged several = judged(aborted("4, 6"));
  CHECK(several.culprits == Ranks{4, 6});
  CHECK(several.confidence == Confidence::open);
  CHECK(holds(several.summary, "so did rank 6; which of them was first the log does not tell"));
  CHECK(judged(aborted("4")).culprits == Ranks{4});
  CHECK(judged(aborted("4")).confidence == Confidence::likely);
  CHECK(says_nothing("Container rank 2 status running cmd ['a'] code None log x\n"));
  CHECK(says_nothing(aborted("")));
}

TEST_CASE("PyTorch's first launcher shows its last command, which names nobody that failed") {
  const auto failed = [](const std::string& option, const std::string& end) {
    return "subprocess.CalledProcessError: Command '['/p/python', '-u', 'a.py', '" + option +
           "', 'b.py']' " + end + ".\n";
  };
  const Judged killed = judged(failed("--local_rank=7", "died with <Signals.SIGSEGV: 11>"));
  CHECK(holds(killed.summary, "a process that PyTorch's launcher started ended with status -11"));
  CHECK(killed.culprits.empty());
  const Judged ended = judged(failed("--local_rank=7", "returned non-zero exit status 1"));
  CHECK(holds(ended.summary, "a process that PyTorch's launcher started ended with status 1"));
  // Another command than a rank.
  CHECK(says_nothing(failed("-v", "returned non-zero exit status 1")));
  CHECK(says_nothing(failed("-v", "died with <Signals.SIGSEGV: 11>")));
}

TEST_CASE("a rank that ended the job by MPI_Abort() may have been told of another's error") {
  const std::string aborted = "MPI_ABORT was invoked on rank 5 in communicator MPI_COMM_WORLD\n";
  for (const std::string& log : Texts{aborted, aborted + three_gave_up()}) {
    CHECK(judged(log).culprits == Ranks{5});
    CHECK(judged(log).confidence == Confidence::open);
  }
  CHECK(says_nothing("MPI_ABORT was invoked on rank 5 in communicator MPI COMMUNICATOR 3 DUP\n"));
}

TEST_CASE("horovodrun names the process that ended first") {
  const std::string report = "The first process to do so was:\nProcess name: 6\nExit code: 3\n";
  CHECK(judged(report).culprits == Ranks{6});
  CHECK(holds(judged(report).summary, "rank 6 ended with status 3"));
  CHECK(says_nothing("Process name: 6\nstate: running\n"));
  CHECK(says_nothing("Exit code: 3\n"));
  const std::string loop =
      "[2]<stderr>: [2]: Horovod background loop uncaught exception: [/p/pair.cc:575] Connection "
      "closed by peer [10.0.0.7]:20411\n";
  CHECK(judged(loop).verdict == Verdict::insufficient);
  CHECK(judged(loop).culprits.empty());
}

TEST_CASE("tasks that Slurm could not start are no ranks that ended") {
  const auto launch = [](const std::string& node) {
    return "srun: error: Task launch for StepId=77.0 failed on node " + node +
           ": No such process\n";
  };
  const Judged hosts = judged(launch("n9") + launch("n4") + launch("n9"));
  CHECK(hosts.verdict == Verdict::init_incomplete);
  CHECK(hosts.summary == "Slurm could not start the tasks of n4, n9");
  CHECK(judged("srun: error: task 0 launch failed: Plugin initialization failed\n").summary ==
        "Slurm could not start a task: Plugin initialization failed");
  CHECK(says_nothing("srun: error: Task launch for StepId=77.0 is late\n"));
  const std::string container = "slurmstepd: error: pyxis: couldn't start container\n";
  CHECK(judged("3: " + container).summary == "the container of a task could not be started");
  // Behind it the task ends, which ran no program.
  const std::string ended = "srun: error: n4: task 3: Exited with exit code 1\n";
  for (const std::string& start : Texts{container, launch("n9")}) {
    CHECK(judged(start + ended).verdict == Verdict::init_incomplete);
    CHECK(judged(ended + start).verdict == Verdict::rank_dead);
    CHECK(judged(start + "srun: error: n4: task 3: Segmentation fault\n").verdict ==
          Verdict::rank_dead);
  }
  CHECK(says_nothing("pyxis: couldn't start container\n"));
}

TEST_CASE("lines of a launcher that are of one length are not taken for one that was broken") {
  const std::string refused = "srun: error: slurm_receive_msgs: refused\n";
  const std::string ended = "srun: error: n7: tasks 10-12,15: Killed.\n";
  REQUIRE(refused.size() == ended.size());
  const Judged found = judged(refused + refused + ended);
  CHECK(holds(found.summary, "tasks 10-12,15 on n7 ended"));
  CHECK(says_nothing(refused + refused));
}

TEST_CASE("tasks of Slurm that end alike are all named") {
  const auto ended = [](const std::string& host, int task, int code) {
    return "srun: error: " + host + ": task " + std::to_string(task) + ": Exited with exit code " +
           std::to_string(code) + "\n";
  };
  const Judged alike = judged(ended("n4", 3, 1) + ended("n5", 0, 1));
  CHECK(alike.confidence == Confidence::open);
  CHECK(holds(alike.summary, "task 3 on n4 ended with status 1"));
  CHECK(holds(alike.summary, "so did task 0 on n5; which was first the log does not tell"));
  const Judged apart = judged(ended("n4", 3, 2) + ended("n5", 0, 1));
  CHECK(apart.confidence == Confidence::open);
  CHECK(holds(apart.summary, "task 3 on n4 ended with status 2"));
  CHECK(holds(apart.summary, "so did task 0 on n5 (status 1); which was first the log does not"));
  CHECK(judged(ended("n4", 3, 2)).confidence == Confidence::likely);
}

TEST_CASE("of processes that ended in no order that is told none is accused before the others") {
  const auto lost = [](int task) {
    return "E0304 05:06:07.1 52 coordination_service.cc:1] /job:jax_worker/replica:0/task:" +
           std::to_string(task) +
           " has been set to ERROR in coordination service: UNAVAILABLE: Task heartbeat timeout\n";
  };
  CHECK(judged(lost(3) + lost(1)).culprits == Ranks{3, 1});
  CHECK(judged(lost(3) + lost(1)).confidence == Confidence::open);
  CHECK(judged(lost(3) + lost(3)).culprits == Ranks{3});
  struct Case {
    std::string first;
    std::string second;
    std::string names;
  };
  const std::string container = " status failed cmd ['a'] code 1 log x\n";
  for (const Case& one : std::vector<Case>{
           {"Pod: t-worker-0 exited with code 1\n", "Pod: t-worker-1 exited with code 1\n",
            "so did pod t-worker-1;"},
           {"[n3:47:0:47] Caught signal 11 (Segmentation fault: address not mapped)\n",
            "[n4:47:0:47] Caught signal 11 (Segmentation fault: address not mapped)\n",
            "so did pid 47 on n4;"},
           {"[n3:47] Signal: Segmentation fault (11)\n", "[n4:48] Signal: Bus error (7)\n",
            "so did pid 48 on n4 (status -7);"},
           {"Container rank 0" + container, "Container rank 1" + container,
            "so did local rank 1 of some host;"}}) {
    CAPTURE(one.names);
    const Judged both = judged(one.first + one.second);
    CHECK(both.confidence == Confidence::open);
    CHECK(holds(both.summary, one.names + " which was first the log does not tell"));
    CHECK(judged(one.first + one.first).confidence == Confidence::likely);
  }
  CHECK(holds(judged("[n3:47] Signal: Segmentation fault (11)\n").summary, "pid 47 on n3 ended"));
  // Two names for what may be one process.
  const Judged named_twice = judged(
      "[n3:47] Signal: Segmentation fault (11)\n"
      "srun: error: n3: task 3: Segmentation fault\n");
  CHECK_FALSE(holds(named_twice.summary, "so did"));
}

TEST_CASE("a pod that is named like no rank may have ended for itself") {
  const std::string ended = " exited with code 1\n";
  CHECK(judged("Pod: exporter-7" + ended + three_gave_up()).confidence == Confidence::open);
  CHECK(judged("Pod: t-worker-7" + ended + three_gave_up()).confidence == Confidence::likely);
}

TEST_CASE("a step that Slurm ended because a task failed is no step that a person ended") {
  const std::string step = "slurmstepd: error: *** STEP 8.0 ON n0 CANCELLED AT 2026-03-04T05:06:07";
  const std::string aborted = "srun: Job step aborted: Waiting up to 32 seconds.\n";
  const std::string failed = "srun: error: n3: task 3: Exited with exit code 1\n";
  const std::string rest = "srun: error: n0: task 0: Terminated\n";
  CHECK(holds(judged(step + " ***\n").summary, "from outside or because a task failed"));
  for (const std::string& front : Texts{"", aborted}) {
    const Judged found = judged(front + step + " ***\n" + failed + rest);
    CHECK(found.verdict == Verdict::rank_dead);
    CHECK(found.confidence == Confidence::open);
    CHECK(holds(found.summary, "task 3 on n3 ended with status 1"));
    CHECK(holds(found.summary, "was ending the step when it told of it, from which it may follow"));
  }
  // srun's lines may stand in front of slurmstepd's.
  const Judged mixed = judged(aborted + rest + failed + step + " ***\n");
  CHECK(mixed.verdict == Verdict::rank_dead);
  CHECK(mixed.confidence == Confidence::open);
  CHECK(holds(mixed.summary, "task 3 on n3 ended with status 1"));
  CHECK(judged(aborted + failed + step + " DUE TO TIME LIMIT ***\n").verdict ==
        Verdict::insufficient);
  std::string far;
  for (int i = 0; i < 70; ++i) far += "step " + std::to_string(i) + "\n";
  CHECK(judged(aborted + failed + far + step + " ***\n").verdict == Verdict::insufficient);
  // Where Slurm says why, or another had ended before, it is a consequence.
  CHECK(judged(step + " DUE TO TIME LIMIT ***\n" + failed).verdict == Verdict::insufficient);
  const Judged before =
      judged("srun: error: n1: task 1: Exited with exit code 2\n" + step + " ***\n" + failed);
  CHECK(holds(before.summary, "task 1 on n1"));
  CHECK_FALSE(holds(before.summary, "task 3"));
  CHECK(judged(step + " ***\nsrun: error: n3: task 3: Killed\n").verdict == Verdict::insufficient);
  const Judged raised = judged(kTraceback + aborted + step + " ***\n");
  CHECK(
      raised.summary.starts_with("in line 4 a rank that the log does not name raised ValueError"));
  CHECK(raised.verdict == Verdict::insufficient);
}

TEST_CASE("the rank of a group that makes its communicator is no rank of the job") {
  const auto waited = [](int rank, int own) {
    return "[rank" + std::to_string(rank) + "]: torch.distributed.DistBackendError: [" +
           std::to_string(own) +
           "] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
           "key-value store by key '0', but store->get('0') got error: Connection reset by peer\n";
  };
  const Judged part = judged(waited(5, 1) + waited(6, 2));
  CHECK(part.culprits.empty());
  CHECK(part.summary.starts_with("ranks 5-6 waited for rank 0 of its group"));
  const Judged whole = judged(waited(1, 1) + waited(2, 2));
  CHECK(whole.culprits == Ranks{0});
  CHECK_FALSE(holds(whole.summary, "of its group"));
}

TEST_CASE("an end that Ray tells of beside an error of NCCL may have followed from it") {
  const std::string died =
      "(raylet) A worker died or was killed while executing a task by an unexpected system error. "
      "Worker PID: 4711 Worker exit type: SYSTEM_ERROR Worker exit detail: End of file.\n";
  const std::string error =
      "(Worker pid=52, ip=10.0.0.7) [rank1]:[E816 01:45:40.1 ProcessGroupNCCL.cpp:542] [Rank 1] "
      "Collective WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=600000) "
      "raised the following async exception: NCCL error: remote process exited or there was a "
      "network error, NCCL version 2.21.5\n";
  CHECK(judged(died + error).confidence == Confidence::open);
  CHECK(judged(died).confidence == Confidence::likely);
  for (const std::string& line :
       Texts{"ray.exceptions.RayActorError: The actor died unexpectedly before finishing this "
             "task.\n",
             "WARNING worker.py:1072 -- A worker died or was killed while executing task "
             "ffab12.\n"}) {
    CHECK(only_saying(line).kind == SayingKind::outside);
    CHECK(holds(judged(line).summary, "a worker ended"));
    CHECK(judged(line).culprits.empty());
  }
  CHECK(says_nothing("what to do when the actor died\n"));
}

TEST_CASE("an error of a network adapter is told as libmlx5 and the plugin of EFA print it") {
  const Judged mlx = judged("(Worker pid=52, ip=10.0.0.7) mlx5: n7: got completion with error:\n");
  CHECK(mlx.verdict == Verdict::insufficient);
  CHECK(holds(mlx.summary, "a request to a network adapter failed"));
  CHECK(says_nothing("mlx5: n7: got completion\n"));
  const auto warning = [](const std::string& words) {
    return judged("n7:61:67 [0] ofi_process_cq:1033 NCCL WARN NET/OFI " + words + "\n" +
                  gave_up(1));
  };
  CHECK(holds(warning("Request 0x7f2a completed with error. RC: 5. Error: Unresponsive receiver "
                      "(reachable by EFA device but handshake failed)")
                  .summary,
              "the other side did not answer over EFA"));
  CHECK(holds(warning("Request 0x7f2a completed with error. RC: 21. Error: unknown").summary,
              "a transfer over libfabric (EFA) failed"));
  CHECK(holds(warning("Couldn't open AV. RC: -22, ERROR: Invalid argument").summary,
              "libfabric could not open the network adapter"));
  CHECK_FALSE(holds(warning("Couldn't find any optimal provider").summary, "could not open"));
  const Judged fabric = judged(
      "    libfabric:4711:1710000000::efa:cq:efa_rdm_rxe_handle_error():55<warn> err: 7, message: "
      "Bad peer My EFA addr: a Peer EFA addr: b (7)\n" +
      gave_up(1));
  CHECK(holds(fabric.summary, "libfabric warns in"));
  CHECK(holds(fabric.summary, "a request to the network adapter (EFA) failed"));
  CHECK(says_nothing("libfabric:4711:1710000000::core:core:fi_getinfo_():13<warn> no provider\n"));
  // TCPX tells so of a start that is slow.
  const std::string tcpx =
      "tcpxResult_t tcpxCommProgress(tcpxComm*):1231 NCCL WARN 0x7d1:0x7d2, nic 0, eth0, "
      "10.0.0.7<40412><-10.0.0.8<40508> rx rx ctrl timeout cnt 41, nanos 10000000417\n";
  CHECK(
      judged(tcpx).summary.starts_with("the log says of no rank that it went wrong: the other "
                                       "side has sent nothing for a while"));
}

TEST_CASE("the end of a pod is told as Kubeflow's controller does") {
  const auto ended = [](const std::string& code) {
    return "1.70e+09\tDEBUG\tevents\tPod: team.job-worker-3 exited with code " + code +
           "\t{\"type\": \"Normal\"}\n";
  };
  CHECK(holds(judged(ended("137")).summary, "pod team.job-worker-3 ended with status 137"));
  CHECK(says_nothing(ended("0")));
  CHECK(says_nothing("the shell exited with code 1\n"));
}

TEST_CASE("a rank in brackets is read where its lines are set in, and behind Open MPI's names") {
  for (const std::string& front : Texts{"    ", "\t", "[prterun-n7-4711@1,2]<stderr>: "}) {
    CAPTURE(front);
    CHECK(judged(front + "[rank2]: KeyError: 'mask'\n").culprits == Ranks{2});
  }
  CHECK(judged("[prterun-n7-4711@1,2]<stderr>:" + gave_up(2).substr(9)).culprits.empty());
  CHECK(says_nothing("    rank2: KeyError: 'mask'\n"));
  CHECK(says_nothing("[n7@x]<stderr>: KeyError: 'mask'\n"));
}

}  // namespace public_errors_test
