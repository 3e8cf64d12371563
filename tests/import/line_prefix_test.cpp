// Each form of prefix, and a line that looks like it and is none.
#include "trace/import/line_prefix.h"

#include <deque>
#include <string>

#include "tests/catch.h"

namespace rollcall::trace {
namespace {

constexpr const char* kCall = "node1:4711:4802 [3] NCCL INFO AllReduce: opCount 0";
constexpr const char* kWatchdog = "[E1127 15:40:00.123 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog";

LinePrefix prefix_of(const std::string& front, const std::string& line = kCall) {
  // What is told points into the line.
  static std::deque<std::string> lines;
  LinePrefix prefix;
  PrefixTaker taker;
  const std::string& whole = lines.emplace_back(front + line);
  CAPTURE(whole);
  CHECK(taker.take(whole, prefix) == line);
  return prefix;
}

// Nothing is taken off.
void check_kept(const std::string& line) {
  LinePrefix prefix;
  PrefixTaker taker;
  CAPTURE(line);
  CHECK(taker.take(line, prefix) == line);
  CHECK(prefix.likely_rank() == -1);
  CHECK(prefix.local_rank == -1);
  CHECK(prefix.time_ns == 0);
}

TEST_CASE("a line without a prefix stays as it is") {
  check_kept(kCall);
  check_kept(kWatchdog);
  check_kept("");
  check_kept("10:4711:4802 [3] NCCL INFO AllReduce: opCount 0");  // a host that is a number
}

TEST_CASE("torchrun and PyTorch name the rank, and the rank on the host") {
  CHECK(prefix_of("[rank3]:").rank == 3);
  CHECK(prefix_of("[rank12]: ", kWatchdog).rank == 12);
  CHECK(prefix_of("[default5]:").local_rank == 5);
  CHECK(prefix_of("[default5]:[rank13]:", kWatchdog).rank == 13);
  check_kept("[Rank 3] Watchdog caught");  // the rank in a group
  check_kept("[rankx]: no");
  check_kept("[rank3] no colon");
}

TEST_CASE("Azure ML names the pod and its address behind the time") {
  const std::string time = "2021-02-05 05:32:39 ";
  const LinePrefix prefix = prefix_of(time + "[trainer-worker-1, unknown_ip] ");
  CHECK(prefix.host == "trainer-worker-1");
  CHECK(prefix.time_ns != 0);
  CHECK(prefix_of("[trainer-worker-1, 10.0.0.7] ", kWatchdog).host == "trainer-worker-1");
  check_kept("[eggs, spam] for breakfast");
}

TEST_CASE("lines of a traceback show a pod's name in front of them, and no level of a logger") {
  PrefixTaker taker;
  LinePrefix prefix;
  CHECK(taker.take("trainer-1:   File \"t.py\", line 3, in main", prefix) ==
        "  File \"t.py\", line 3, in main");
  CHECK(prefix.host == "trainer-1");
  CHECK(taker.take("trainer-1: Last error:", prefix) == "Last error:");
  CHECK(taker.take("trainer-2: x.DistBackendError: y", prefix) == "x.DistBackendError: y");
  // Of other words nothing was shown.
  CHECK(taker.take("srun: error: n0: task 3: Killed", prefix) == "srun: error: n0: task 3: Killed");
  CHECK(taker.take("trainer-3: Last error:", prefix) == "trainer-3: Last error:");
  check_kept("ERROR: Traceback (most recent call last):");
  check_kept("trainer-1: eggs");
}

TEST_CASE("srun -l counts the tasks, right-justified") {
  CHECK(prefix_of("3: ").task == 3);
  CHECK(prefix_of(" 11: ", kWatchdog).task == 11);
  CHECK(prefix_of("1: [rank9]:").likely_rank() == 9);
  // NCCL leaves out a host whose name it could not find out.
  CHECK(prefix_of("201: ", ":41367:41367 [1] enqueue.cc:422 NCCL WARN x").task == 201);
  check_kept("201: :eggs");
  check_kept("3: eggs");
  check_kept("12:30:45 is a time of day");
}

TEST_CASE("what is taken off one line of a text is taken off its others") {
  PrefixTaker taker;
  LinePrefix prefix;
  CHECK(taker.take("3: plain words", prefix) == "3: plain words");
  CHECK(taker.take(std::string("3: ") + kCall, prefix) == kCall);
  LinePrefix later;
  CHECK(taker.take("5: plain words", later) == "plain words");
  CHECK(later.task == 5);
  CHECK(taker.take("5: 0: [tensor.1]", later) == "0: [tensor.1]");
}

TEST_CASE("an indented line of `grep -n` does not make its neighbours lines of `srun -l`") {
  PrefixTaker taker;
  LinePrefix prefix;
  CHECK(taker.take("2:  \"nccl_version\": \"2.30.7\"", prefix) == " \"nccl_version\": \"2.30.7\"");
  CHECK(taker.take("9:}", prefix) == "}");
  CHECK(taker.take("3: 12:30:45 words", prefix) == "12:30:45 words");
}

TEST_CASE("mpirun --tag-output, Horovod and SageMaker count the tasks") {
  CHECK(prefix_of("[1,3]<stdout>:").task == 3);
  CHECK(prefix_of("[1,3]<stderr>: ").task == 3);
  CHECK(prefix_of("[7]<stdout>:").task == 7);
  const LinePrefix sagemaker = prefix_of("[1,mpirank:3,algo-2]<stderr>:");
  CHECK(sagemaker.task == 3);
  CHECK(sagemaker.host == "algo-2");
  check_kept("[1,3]<stdnone>:");
  check_kept("[1,3] x");
}

TEST_CASE("mpiexec -l of MPICH counts the tasks") {
  CHECK(prefix_of("[3] ").task == 3);
  check_kept("[3] apples");
}

TEST_CASE("Ray names rank, process and address") {
  const LinePrefix prefix = prefix_of("(TrainWorker[rank=3] pid=4711, ip=10.0.0.7) ", kWatchdog);
  CHECK(prefix.rank == 3);
  CHECK(prefix.pid == 4711);
  CHECK(prefix.host == "10.0.0.7");
  CHECK(prefix_of("(RayTrainWorker pid=12) ").pid == 12);
  CHECK(prefix_of("[36m(VllmWorker rank=2 pid=12)[0m ").rank == 2);
  check_kept("(see pid=file)");
  check_kept("(a (b) pid=3) x");
}

TEST_CASE("Kubernetes, stern and the container runtime name the pod") {
  CHECK(prefix_of("[pod/trainer-3/main] ").host == "trainer-3");
  CHECK(prefix_of("trainer-3 main ").host == "trainer-3");
  CHECK(prefix_of("2026-11-27T15:40:00.123456789Z stdout F ").time_ns == 1795794000'123456789);
  check_kept("[pod/trainer-3] x");
  check_kept("well-known main words");
}

TEST_CASE("Loki's labels name the pod") {
  const LinePrefix prefix = prefix_of("2026-11-27T15:40:00Z {app=\"trainer\", pod=\"trainer-3\"} ");
  CHECK(prefix.host == "trainer-3");
  check_kept("{\"app\": \"trainer\"} x");
}

TEST_CASE("docker compose names the service") {
  CHECK(prefix_of("trainer-3  | ").host == "trainer-3");
  check_kept("rank | loss");
}

TEST_CASE("pdsh and DeepSpeed name the host") {
  CHECK(prefix_of("node7: ").host == "node7");
  CHECK(prefix_of("10.0.0.7: ", kWatchdog).host == "10.0.0.7");
  check_kept("warning: words");
}

TEST_CASE("journald names host and time") {
  const LinePrefix prefix = prefix_of("Nov 27 15:40:00 node7 trainer[4711]: ");
  CHECK(prefix.host == "node7");
  CHECK(prefix.time_ns == (330LL * 24 * 3600 + 15 * 3600 + 40 * 60) * 1'000'000'000);
  CHECK(prefix_of("Nov 27 15:40:00 node7 kernel: [12345.678901] ",
                  "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
            .host == "node7");
  CHECK(prefix_of("2026-11-27T15:40:00+0000 node7 trainer[4711]: ").host == "node7");
  check_kept("Nov 27 is a day");
  check_kept("Now 27 15:40:00 node7 trainer[4711]: x");
}

TEST_CASE("time stamps of ISO 8601 and Python's logging") {
  constexpr int64_t kTime = 1795794000'000000000;
  CHECK(prefix_of("2026-11-27T15:40:00Z ").time_ns == kTime);
  CHECK(prefix_of("[2026-11-27 15:40:00.250000] ").time_ns == kTime + 250'000'000);
  CHECK(prefix_of("2026-11-27 15:40:00,250 ").time_ns == kTime + 250'000'000);
  CHECK(prefix_of("2026-11-27T16:40:00+01:00\t").time_ns == kTime);
  // What 64 bits of nanoseconds do not hold is no time of a log.
  check_kept("1013-11-27T15:40:00Z Watchdog");
  check_kept("9999-12-31T23:59:59Z Watchdog");
  CHECK(prefix_of("2026/11/27 15:40:00 ").time_ns == kTime);
  check_kept("2026-13-27T15:40:00Z x");
  check_kept("2026-11-27 words");
  check_kept("[2026-11-27 15:40:00 x");
}

TEST_CASE("what Python raises is the name of no host and of no file") {
  for (const char* name : {"RuntimeError", "torch.OutOfMemoryError", "UserWarning", "ValueError"}) {
    LinePrefix prefix;
    PrefixTaker taker;
    const std::string first = std::string(name) + ": NCCL error in: here.cpp:94";
    const std::string second = std::string(name) + ": [Rank 3] is late";
    CHECK(taker.take(first, prefix) == first);
    CHECK(taker.take(second, prefix) == second);
    CHECK(prefix.host.empty());
    CHECK(prefix.file.empty());
  }
  CHECK(prefix_of("errors7: ", "NCCL version 2.21.5").host == "errors7");
}

TEST_CASE("the loggers of vLLM and SGLang write a time, a place and what they say") {
  const LinePrefix prefix = prefix_of("ERROR 01-02 00:00:05 [v1/engine/core.py:708] ");
  CHECK(prefix.time_ns == (24 * 3600 + 5) * int64_t{1'000'000'000});
  CHECK(prefix.likely_rank() == -1);
  CHECK(prefix_of("(EngineCore_0 pid=257) ERROR 10-05 03:32:06 [core.py:708] ").pid == 257);
  CHECK(prefix_of("WARNING 09-12 11:12:13 shm_broadcast.py:404] ").time_ns != 0);
  CHECK(prefix_of("[2026-11-27 15:40:00 TP3] ").time_ns != 0);
  CHECK(prefix_of("[2026-11-27 15:40:00 DP1 TP3 EP3 PP0] ").time_ns != 0);
  for (const char* line :
       {"ERROR 13-02 00:00:05 [core.py:708] no month", "ERROR 01-02 00:00:05 [core.py] no line",
        "ERROR 01-02 no time", "ERRORS 01-02 00:00:05 [core.py:708] no level",
        "[2026-11-27 15:40:00 XP3] no place", "[2026-11-27 15:40:00 TP] none"}) {
    check_kept(line);
  }
}

TEST_CASE("grep -n puts the number of the line in front, grep -rn the file too") {
  CHECK(prefix_of("57:").host.empty());
  prefix_of("57:", kWatchdog);
  prefix_of("57-", kWatchdog);
  CHECK(prefix_of("logs/rank3.log:57:").file == "logs/rank3.log");
  CHECK(prefix_of("job.log:").file == "job.log");
  CHECK(prefix_of("job.log:57:[1,3]<stdout>:").task == 3);
  CHECK(prefix_of("job:57:").file == "job");
  CHECK(prefix_of("rank3:").file == "rank3");
  CHECK(prefix_of("logs/job-1.log-57-", kWatchdog).file == "logs/job-1.log");
  check_kept("logs/job-1.log-57-words");
  check_kept("job:57:words");
  check_kept("57:words");
  check_kept("note.txt: words");
}

TEST_CASE("the lines around a match of grep -H have the name of its file in front") {
  CHECK(prefix_of("logs/job-1.log-", kWatchdog).file == "logs/job-1.log");
  // The host has a full stop and a dash, too.
  const char* other = "node.cluster-3:4711:4802 [3] NCCL INFO AllReduce: opCount 0";
  CHECK(prefix_of("rank3.log:", other).file == "rank3.log");
  check_kept(other);
  check_kept("rank3.log-words");

  PrefixTaker taker;
  const auto left_of = [&](const std::string& line) {
    LinePrefix prefix;
    return std::string(taker.take(line, prefix));
  };
  CHECK(left_of("rank3.log:" + std::string(kWatchdog)) == kWatchdog);
  CHECK(left_of("rank3.log-" + std::string(kCall)) == kCall);
  CHECK(left_of("rank3.log-  File \"train.py\", line 63") == "  File \"train.py\", line 63");
  CHECK(left_of("torch-2.15.0-cu130 words") == "torch-2.15.0-cu130 words");
  CHECK(left_of("rank4.log-words") == "rank4.log-words");
  CHECK(left_of("rank4.log:" + std::string(kWatchdog)) == kWatchdog);
  CHECK(left_of("rank4.log-words") == "words");
}

TEST_CASE("several prefixes are taken off one behind the other") {
  const LinePrefix prefix = prefix_of("2026-11-27T15:40:00Z [pod/t-0/main] 3: [rank3]:", kWatchdog);
  CHECK(prefix.rank == 3);
  CHECK(prefix.task == 3);
  CHECK(prefix.host == "t-0");
}

}  // namespace
}  // namespace rollcall::trace
