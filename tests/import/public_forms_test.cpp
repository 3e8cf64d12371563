// Forms of lines as PyTorch, NCCL, launchers and servers print them in the open, each with one that
// only looks like it.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"
#include "trace/import/line_prefix.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;
using Ranks = std::vector<int32_t>;

namespace public_forms_test {

std::vector<Saying> sayings_of(const std::string& log) {
  const Run run = read_log(log);
  return run.logs.empty() ? std::vector<Saying>() : run.logs.front().sayings;
}

// The only one that the log holds.
Saying only_saying(const std::string& log) {
  CAPTURE(log);
  const std::vector<Saying> sayings = sayings_of(log);
  REQUIRE(sayings.size() == 1);
  return sayings.front();
}

bool says_nothing(const std::string& log) { return read_log(log).logs.empty(); }

// What is left of a line behind its prefixes.
std::string left_of(const std::string& line) {
  LinePrefix prefix;
  PrefixTaker taker;
  return std::string(taker.take(line, prefix));
}

const std::string kTraceback = "Traceback (most recent call last):\n";
const std::string kIllegalAccess =
    "RuntimeError: CUDA error: an illegal memory access was encountered\n";

// Each line of `text` with `front` in front.
std::string behind(const std::string& front, const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    result += front + text.substr(at, end - at);
    at = end;
  }
  return result;
}

TEST_CASE("the name of an exception is no host and no file, whatever stands behind it") {
  for (const std::string& name :
       std::vector<std::string>{"RuntimeError", "torch.distributed.DistBackendError", "UserWarning",
                                "KeyboardInterrupt", "MyException"}) {
    for (const std::string& words :
         std::vector<std::string>{"NCCL error: unhandled system error", "[Rank 3] words"}) {
      CHECK(left_of(name + ": " + words) == name + ": " + words);
    }
  }
  CHECK(left_of("worker-error7: NCCL error: x") == "NCCL error: x");
  CHECK(left_of("out.error.log:[Rank 3] words") == "[Rank 3] words");
}

TEST_CASE("behind the rank in brackets no word is a host or a file") {
  CHECK(left_of("[rank3]: node7: NCCL error: x") == "node7: NCCL error: x");
  CHECK(left_of("[rank3]: StopIteration.log:[Rank 3] x") == "StopIteration.log:[Rank 3] x");
  CHECK(left_of("node7: [rank3]: words") == "words");
}

TEST_CASE("an error of NCCL that begins its line is read, and hides no later exception") {
  const std::string remote =
      "[rank1]: torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:94, remote "
      "process exited or there was a network error, NCCL version 2.22.3\n";
  const std::string memory = "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried 3 GiB.\n";
  CHECK(judged(remote + memory).culprits == Ranks{5});
  CHECK(judged(memory + remote).culprits == Ranks{5});

  const Saying plain = only_saying("RuntimeError: NCCL error: unhandled system error\n");
  CHECK(plain.kind == SayingKind::async_error);
  CHECK(plain.text == "unhandled system error");
  const Judged ranked = judged("[rank6]: RuntimeError: NCCL error: unhandled system error\n");
  CHECK(ranked.verdict == Verdict::async_error);
  CHECK(ranked.culprits == Ranks{6});
  CHECK(says_nothing("RuntimeError: no NCCL error here\n"));
}

TEST_CASE("each spelling of a time-out of PyTorch is one") {
  const auto timed_out = [](const std::string& word, const std::string& sizes) {
    return "RuntimeError: [Rank 2] " + word +
           " collective operation timeout: WorkNCCL(SeqNum=9, OpType=BROADCAST" + sizes +
           ", Timeout(ms)=600000) ran for 600417 milliseconds before timing out.\n";
  };
  for (const std::string& word : std::vector<std::string>{"Caught", "Watchdog caught"}) {
    for (const std::string& sizes :
         std::vector<std::string>{", TensorShape=[4, 12]", ", NumelIn=48, NumelOut=48", ""}) {
      const Saying saying = only_saying(timed_out(word, sizes));
      CHECK(saying.kind == SayingKind::gave_up);
      CHECK(saying.rank == 2);
      CHECK(saying.seq == 9);
      CHECK(saying.ran_ms == 600417);
    }
  }
  CHECK(says_nothing("Caught collective operation timeout, trying again\n"));
}

TEST_CASE("a process that ends behind its own time-out is not said to have begun it") {
  const Judged found = judged(
      "RuntimeError: [Rank 2] Caught collective operation timeout: WorkNCCL(SeqNum=9, "
      "OpType=ALLREDUCE, TensorShape=[8], Timeout(ms)=600000) ran for 600417 milliseconds before "
      "timing out.\nERROR:api:failed (exitcode: 1) local_rank: 2 (pid: 5150) of binary: python\n");
  CHECK(found.verdict != Verdict::rank_dead);
  CHECK(holds(found.summary, "rank 2 waited in ALLREDUCE, call 9"));
}

TEST_CASE("a rank that had no identifier of rank 0 is named in both spellings") {
  for (const std::string& spelling : std::vector<std::string>{"retrieving", "retreiving"}) {
    const auto waiting = [&](const std::string& front) {
      return front + "[5] is setting up NCCL communicator and " + spelling +
             " ncclUniqueId from [0] via c10d key-value store by key '2', but store->get('2') got "
             "error: Socket Timeout\n";
    };
    const Judged found = judged(waiting("RuntimeError: "));
    CHECK(found.verdict == Verdict::init_incomplete);
    CHECK(found.culprits == Ranks{0});
    CHECK(holds(found.summary, "rank 5 waited for rank 0"));
    // The job's rank stands in front where the other is that of a group.
    CHECK(holds(judged(waiting("[rank13]: RuntimeError: ")).summary, "rank 13 waited for rank 0"));
  }
  CHECK(says_nothing("setting up NCCL communicator and retrieving ncclUniqueId from the store\n"));
}

TEST_CASE("a rank whose exception has no words is not overlooked") {
  const std::string trace = kTraceback + "  File \"fit.py\", line 12, in fit\n    check(x)\n";
  for (const std::string& name :
       std::vector<std::string>{"AssertionError", "StopIteration", "torch.OutOfMemoryError"}) {
    const Judged found = judged(behind("[rank2]: ", trace + name + "\n") + three_gave_up());
    CAPTURE(name, found.summary);
    CHECK(found.verdict == Verdict::rank_dead);
    CHECK(found.culprits == Ranks{2});
    CHECK(holds(found.summary, "rank 2 raised " + name));
  }
  // One who is interrupted began nothing, and a line alone is no traceback.
  const std::string plain = judged(three_gave_up()).summary;
  for (const std::string& lines : {trace + "KeyboardInterrupt\n", std::string("AssertionError\n"),
                                   trace + "done\nAssertionError\n"}) {
    CHECK(judged(behind("[rank2]: ", lines) + three_gave_up()).summary == plain);
  }
}

TEST_CASE("a rank that tells of another's end while it handles an error began nothing") {
  const auto raised = [](int rank, const std::string& error) {
    return behind("[rank" + std::to_string(rank) + "]: ",
                  kTraceback + "  File \"fit.py\", line 12, in fit\n" + error + "\n");
  };
  const std::string remote =
      "torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:94, remote process "
      "exited or there was a network error, NCCL version 2.22.3";
  const std::string during =
      "\n[rank1]: During handling of the above exception, another exception occurred:\n\n";
  const std::string because =
      "\n[rank1]: The above exception was the direct cause of the following exception:\n\n";
  const std::string death = summary_of_torchrun("", 8, -9);
  for (const std::string& between : {during, because}) {
    for (const std::string& own : {std::string("StopIteration"), std::string("ValueError: bad")}) {
      CAPTURE(between, own);
      for (const std::string& chain : {raised(1, own) + between + raised(1, remote),
                                       raised(1, remote) + between + raised(1, own)}) {
        CHECK(judged(chain + death).culprits == Ranks{8});
      }
      // Two errors of its own, and two ranks.
      const std::string two = raised(1, own) + between + raised(1, "KeyError: 3");
      CHECK(judged(two).culprits == Ranks{1});
      CHECK(judged(raised(1, own) + between + raised(2, remote)).culprits == Ranks{1});
    }
  }
}

TEST_CASE("what torchrun shows of a rank that goes on is not its end") {
  const std::string plain = judged(three_gave_up()).summary;
  const std::vector<std::string> errors = {"storage.RetryError", "ValueError: bad"};
  for (const std::string& error : errors) {
    const std::string lines = kTraceback + "  File \"fit.py\", line 12, in fit\n" + error + "\n";
    const Judged found = judged(behind("[rank2]:", lines + "step 42\n") + three_gave_up());
    CAPTURE(found.summary);
    CHECK(found.verdict != Verdict::rank_dead);
    CHECK(holds(found.summary, "rank 2 raised"));
    CHECK(judged(behind("[rank2]:[rank2]: ", lines) + three_gave_up()).verdict ==
          Verdict::rank_dead);
  }
}

TEST_CASE("the traceback of one rank is not ended by another rank's line") {
  const Judged found = judged("[rank2]: " + kTraceback + "[rank2]:   File \"fit.py\", line 12\n" +
                              "[rank1]: AssertionError\nAssertionError\n[rank2]: KeyError\n");
  CHECK(found.culprits == Ranks{2});
  CHECK(holds(found.summary, "rank 2 raised KeyError"));
}

TEST_CASE("an exception behind a logger's prefix is read") {
  for (const std::string& front : std::vector<std::string>{
           "2026-03-04 05:06:07,891 - trainer.main - INFO - ", "05:06:07.891 "}) {
    CAPTURE(front);
    CHECK(judged(front + "[rank6]: ValueError: bad sample\n").culprits == Ranks{6});
  }
  CHECK(left_of("- trainer - LOUD - [rank6]: x") == "- trainer - LOUD - [rank6]: x");
  CHECK(left_of("05:06:07 words") == "05:06:07 words");
}

TEST_CASE("a rank of Determined is named by its prefix, and not accused of what it may get over") {
  const auto line = [](int rank, const std::string& text) {
    return "[2026-03-04T05:06:07.891011Z] 0a1b2c3d [rank=" + std::to_string(rank) + "] || " + text;
  };
  const std::string error = line(2, kTraceback) + line(2, "  File \"fit.py\", line 12\n") +
                            line(2, "RuntimeError: bad sample\n");
  const std::string wait =
      line(0,
           "[E ProcessGroupNCCL.cpp:828] [Rank 0] Watchdog caught collective operation timeout: "
           "WorkNCCL(SeqNum=4, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds "
           "before timing out.\n");
  const Judged found = judged(error + wait);
  CHECK(holds(found.summary, "in line 3 rank 2 raised RuntimeError: \"bad sample\""));
  CHECK(found.culprits == judged(wait).culprits);
  CHECK(left_of("0a1b2c3d [rank=x] || words") == "0a1b2c3d [rank=x] || words");
}

TEST_CASE("an error of CUDA that no call gets over is one without a rank, too") {
  for (const std::string& name :
       std::vector<std::string>{"RuntimeError", "torch.AcceleratorError"}) {
    const Saying saying =
        only_saying(name + ": CUDA error: unspecified launch failure\nCUDA kernel errors\n");
    CHECK(saying.kind == SayingKind::exception);
    CHECK(saying.text == "unspecified launch failure");
    CHECK(saying.rank == -1);
  }
  // Others a program may get over.
  CHECK(says_nothing("RuntimeError: CUDA error: invalid device ordinal\n"));
  CHECK(says_nothing("if it says CUDA error: an illegal memory access, start again\n"));
  CHECK(judged("[rank3]: " + kIllegalAccess).culprits == Ranks{3});
}

TEST_CASE("a server's process is named by its place, whose traceback opens behind words") {
  const auto failed = [](const std::string& place) {
    return "[2026-03-04 05:06:07" + place + "] Scheduler hit an exception: " + kTraceback +
           "  File \"scheduler.py\", line 9, in run\n" + kIllegalAccess;
  };
  const std::string sigquit =
      "[2026-03-04 05:06:08] Received sigquit from a child process. It means the child failed.\n";
  for (const std::string& place : std::vector<std::string>{"TP5", "DP1 TP5"}) {
    const Judged found = judged(failed(" " + place) + sigquit);
    CHECK(found.verdict == Verdict::cuda_error);
    CHECK(holds(found.summary, "SGLang's " + place + " raised"));
    CHECK(found.culprits.empty());
  }
  CHECK(holds(judged(failed("") + sigquit).summary, "a rank that the log does not name raised"));
  // As it was spelled before.
  CHECK(only_saying("Received sigquit from a child proces. It means that\n").kind ==
        SayingKind::outside);
  CHECK(says_nothing("Received sigquit from a child of ours\n"));
}

TEST_CASE("what a process of C++ ends with is read") {
  const Saying cuda =
      only_saying("terminate called after an instance\n  what():  CUDA error: out of memory\n");
  CHECK(cuda.kind == SayingKind::exception);
  CHECK(cuda.text == "out of memory");
  const Saying query = only_saying(
      "[1,6]<stderr>:  what():  cudaEventQuery failed: an illegal memory access was encountered\n");
  CHECK(query.rank == 6);
  CHECK(query.text == "cudaEventQuery failed: an illegal memory access was encountered");
  CHECK(judged("  what():  cudaEventQuery failed: unspecified launch failure\n" + gave_up(1))
            .verdict == Verdict::cuda_error);
  CHECK(says_nothing("what(): cudaEventQuery was called\n"));
  CHECK(says_nothing("  what():  basic_string::at\n"));
}

TEST_CASE("errors of NCCL in the words of other programs are read") {
  const Saying torch = only_saying("RuntimeError: NCCL Error 5: invalid usage (run with X)\n");
  CHECK(torch.kind == SayingKind::async_error);
  CHECK(torch.code == 5);
  CHECK(torch.text == "invalid usage (run with X)");
  for (const std::string& place : std::vector<std::string>{"/src/a/allgatherPlugin.cpp:61 ", ""}) {
    const Saying saying = only_saying("[TensorRT-LLM][ERROR] Failed, NCCL error " + place +
                                      "'unhandled cuda error'\n");
    CHECK(saying.kind == SayingKind::async_error);
    CHECK(saying.text == "unhandled cuda error");
  }
  CHECK(says_nothing("NCCL Error codes: see the manual\n"));
  CHECK(says_nothing("Failed, NCCL error text is missing\n"));
}

TEST_CASE("a watchdog that met a time-out or an error is no silent rank") {
  const std::string words =
      "[rank2]:[E816 01:45:41.1 ProcessGroupNCCL.cpp:621] [Rank 2] Some NCCL operations have "
      "failed "
      "or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations "
      "might run on corrupted/incomplete data.\n";
  CHECK(judged(three_gave_up() + kGoesOn).culprits == Ranks{2});
  CHECK(judged(three_gave_up() + words).culprits.empty());
  CHECK_FALSE(says_nothing(words));
  CHECK(says_nothing("[rank2]: Some NCCL operations have failed\n"));
}

TEST_CASE("a step that was cancelled is told where nothing else is") {
  const std::string step =
      "slurmstepd: error: *** STEP 77.0 ON n5 CANCELLED AT 2026-03-04T05:06:07 ***\n";
  const std::string rest =
      "srun: error: n5: task 0: Terminated\nsrun: Force Terminated StepId=77.0\n";
  const Judged found = judged(step + rest);
  CHECK(found.verdict == Verdict::insufficient);
  CHECK(found.culprits.empty());
  CHECK(only_saying(step + rest).kind == SayingKind::machine);
  CHECK(says_nothing("srun: Force Terminated StepId=77.0\n"));
}

TEST_CASE("a line of Slurm that says why is one fact") {
  for (const std::string& reason :
       std::vector<std::string>{"DUE TO TIME LIMIT", "DUE TO PREEMPTION", "DUE to SIGNAL X"}) {
    for (const std::string& what : std::vector<std::string>{"JOB 77", "STEP 77.0"}) {
      const Saying saying =
          only_saying("slurmstepd: error: *** " + what +
                      " ON n5 CANCELLED AT 2026-03-04T05:06:07 " + reason + " ***\n");
      CHECK(saying.kind == SayingKind::machine);
    }
    CHECK(sayings_of("NVRM: Xid (PCI:0000:3b:00): 79\nslurmstepd: *** JOB 7 ON n5 CANCELLED AT x " +
                     reason + " ***\n")
              .size() == 2);
  }
}

TEST_CASE("Horovod's older reports of a stall name who is missing") {
  for (const std::string& front : std::vector<std::string>{
           "", "Stalled ops:", "[1,0]<stderr>:[2026-03-04 05:06:07.8: W a/operations.cc:588] "}) {
    const Judged found =
        judged("Stalled ops:\n" + front + "allreduce.mean [missing ranks: 3, 1]\n" + front +
               "allreduce.max [missing ranks: 1]\n");
    CHECK(found.verdict == Verdict::missing_call);
    CHECK(found.culprits == Ranks{3, 1});
  }
  CHECK(says_nothing("allreduce.mean [missing ranks: none]\n"));
  CHECK(says_nothing("allreduce.mean [ready ranks: 0]\n"));
}

TEST_CASE("Horovod's report is read behind a launcher's rank") {
  const std::string report = "Missing ranks:\n3: [broadcast.a, broadcast.b ...]\n";
  CHECK(judged(behind("[0] ", report)).culprits == Ranks{3});
  CHECK(judged(report).culprits == Ranks{3});
  CHECK(says_nothing("[0] Missing ranks:\n[0] none\n"));
}

TEST_CASE("a result in a source file of CUDA is on its way up, too") {
  const std::string warning =
      "n5:11:12 [0] transport/p2p.cu:548 NCCL WARN failed to open a handle\n";
  const std::vector<Saying> found =
      sayings_of(warning + "n5:11:12 [0] NCCL INFO init.cu:568 -> 1\n");
  REQUIRE(found.size() == 2);
  CHECK(found.back().kind == SayingKind::result);
  CHECK(found.back().code == 1);
  CHECK(found.back().writer == "n5:11");
  CHECK(sayings_of(warning + "n5:11:12 [0] NCCL INFO init.cu:568 is fine\n").size() == 1);
}

TEST_CASE("the crash of a process is read as UCX, Open MPI, bash and JAX tell it") {
  const auto died = [](const std::string& line) {
    Saying saying = only_saying(line + "\n");
    CHECK(saying.kind == SayingKind::died);
    return saying;
  };
  const Saying ucx = died("[n5:4711 :0:4802] Caught signal 7 (Bus error: nonexistent address)");
  CHECK(ucx.code == -7);
  CHECK(ucx.writer == "pid 4711");
  CHECK(died("[n5:4711:0] Caught signal 11 (Segmentation fault: x)").code == -11);
  const Saying mpi = died("[1,6]<stderr>:[n5:4711] Signal: Segmentation fault (11)");
  CHECK(mpi.code == -11);
  CHECK(mpi.rank == 6);
  const Saying bash =
      died("run.sh: line 8:  4711 Aborted                 (core dumped) python a.py");
  CHECK(bash.code == -6);
  CHECK(bash.writer == "pid 4711");
  CHECK(died("E x.cc:954] /job:jax_worker/replica:0/task:6 has been set to ERROR in coordination "
             "service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:6 heartbeat timeout. This")
            .rank == 6);
  for (const std::string& line : std::vector<std::string>{
           "Caught signal 7 (Bus error)", "[n5:4711] Signal code:  (-6)",
           "run.sh: line 8:  4711 Aborted                 (core dumped) make -j",
           "/job:jax_worker/replica:0/task:6 has been set to ERROR in coordination service: "
           "ABORTED"}) {
    CHECK(says_nothing(line + "\n"));
  }
}

TEST_CASE("an end that a shell tells of without its script is one of some process") {
  for (const std::string& end :
       std::vector<std::string>{"Segmentation fault", "Segmentation fault (core dumped)",
                                "Bus error (core dumped)", "Aborted (core dumped)"}) {
    CAPTURE(end);
    const Saying saying = only_saying("step 3\n" + end + "\n");
    CHECK(saying.kind == SayingKind::died);
    CHECK(saying.rank == -1);
    CHECK(saying.code == (end[0] == 'S' ? -11 : end[0] == 'B' ? -7 : -6));
    const Judged found = judged(end + "\n" + three_gave_up());
    CHECK(found.confidence == Confidence::open);
    const Judged ranked = judged("[1,6]<stderr>:" + end + "\n" + three_gave_up());
    // A watchdog ends its process so, too.
    CHECK((ranked.culprits == Ranks{6}) == (end[0] != 'A'));
  }
  CHECK(says_nothing("if it ends with Segmentation fault (core dumped), ask us\n"));
  CHECK(says_nothing("Aborted by the user\n"));
}

TEST_CASE("a fault of memory that ROCm tells of is an error of a kernel") {
  const Judged found = judged(
      "Memory access fault by GPU node-5 (Agent handle: 0x55d5) on address 0x7f1200000000. "
      "Reason: Unknown.\n" +
      three_gave_up());
  CHECK(found.verdict == Verdict::cuda_error);
  CHECK(found.culprits.empty());
  CHECK(says_nothing("Memory access fault by GPU code is rare\n"));
}

TEST_CASE(
    "the rank on the host that torchrun tells is not dropped, where its line is broken, too") {
  const std::string whole =
      "E0304 05:06:07.8 99 api.py:882] failed (exitcode: -9) local_rank: 3 (pid: 5150) of binary: "
      "p\n";
  std::string broken = whole;
  broken.replace(broken.find(" local_rank"), 1, "\n ");
  for (const std::string& log : {whole, broken}) {
    CHECK(holds(judged(log).summary, "local rank 3 (pid 5150) ended with status -9"));
  }
  // Where the rank in the job is told, that is said.
  CHECK(holds(judged(summary_of_torchrun("", 11, -9)).summary, "rank 11 ended with status -9"));
  CHECK(says_nothing("E x api.py:882] failed (exitcode: -9)\nstep 4\n"));
}

TEST_CASE("DeepSpeed's launcher shows its last command, which names nobody that failed") {
  const Judged found = judged(
      "[2026-03-04 05:06:07,891] [ERROR] [launch.py:321:sigkill_handler] ['/p/python', '-u', "
      "'a.py', "
      "'--local_rank=7', '--x'] exits with return code = 1\n");
  CHECK(holds(found.summary, "a process that DeepSpeed's launcher started ended with status 1"));
  CHECK_FALSE(holds(found.summary, "local rank"));
  CHECK(found.culprits.empty());
  CHECK(says_nothing("tool --local_rank=7 exits with return code = 1\n"));
  CHECK(says_nothing("[launch.py:348:main] ['a.py'] exits with return code = 0\n"));
}

TEST_CASE("a rank within a group is not taken for a rank of the job") {
  const auto ended = [](const std::string& group) {
    return "  what():  [PG ID 1 PG GUID " + group +
           " Rank 5] Process group watchdog thread terminated with exception: CUDA error: an "
           "illegal memory access was encountered\n";
  };
  const Judged named = judged(ended("4(tp)"));
  CHECK(named.culprits.empty());
  CHECK(holds(named.summary, "rank 5 of tp raised"));
  CHECK(judged(ended("0(default_pg)")).culprits == Ranks{5});
  CHECK(judged("[rank13]:[E1 x] " + ended("4(tp)")).culprits == Ranks{13});
}

TEST_CASE("one line of Ray that stands for several ends names none of them") {
  const std::string died =
      "(raylet) A worker died or was killed while executing a task. Worker IP address: 10.0.0.7 "
      "Worker port: 10005 Worker PID: 4711";
  CHECK(only_saying(died + "\n").writer == "pid 4711");
  const std::string several = died + " [repeated 8x across cluster]\n";
  CHECK(judged(several + three_gave_up()).confidence == Confidence::open);
  CHECK_FALSE(holds(judged(several).summary, "4711"));
}

}  // namespace public_forms_test
