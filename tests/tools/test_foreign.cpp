// `rollcall diff` of what others wrote: by name, through pipes, several at once.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_foreign {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The log of one rank of two; `id` is the communicator's.
std::string log_of(int rank, int count, const std::string& id = "5") {
  const std::string front =
      "n:" + std::to_string(10 + rank) + ":1 [" + std::to_string(rank) + "] NCCL INFO ";
  const std::string comm = " comm 0x" + std::to_string(rank + 1) + "a";
  return front + "ncclCommInitRank" + comm + " rank " + std::to_string(rank) +
         " nranks 2 cudaDev 0 commId 0x" + id + " - Init COMPLETE\n" + front +
         "AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count " + std::to_string(count) +
         " datatype 7 op 0 root 0" + comm + " [nranks=2] stream 0x1\n";
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("the logs of two ranks are one run, whether named, in a directory or piped") {
  const Folder folder;
  put(folder / "rank0.log", log_of(0, 20));
  put(folder / "rank1.log", log_of(1, 30));
  mkdir((folder / "logs").c_str(), 0700);
  put(folder / "logs/rank0.log", log_of(0, 20));
  put(folder / "logs/rank1.log", log_of(1, 30));
  for (const char* line :
       {"$ROLLCALL diff rank0.log rank1.log", "$ROLLCALL diff logs", "$ROLLCALL diff logs/*.log",
        "cat logs/* | $ROLLCALL diff -", "cat rank0.log | $ROLLCALL diff rank1.log -",
        "cat logs/* | gzip | $ROLLCALL diff -", "$ROLLCALL diff - < rank1.log rank0.log",
        "mkfifo pipe; cat rank0.log > pipe & $ROLLCALL diff pipe rank1.log; rm pipe"}) {
    CAPTURE(line);
    const Outcome outcome = run_shell(folder, line);
    CHECK(contains(outcome.out, "RC-COUNT-MISMATCH"));
    CHECK(outcome.err.empty());
  }
}

TEST_CASE("two logs of the same ranks of two jobs are compared as two runs, and that is said") {
  const Folder folder;
  put(folder / "old.log", log_of(0, 20, "5") + log_of(1, 20, "5"));
  put(folder / "new.log", log_of(0, 30, "6") + log_of(1, 30, "6"));
  const Outcome apart = run_command(folder, {"diff", "old.log", "new.log"});
  CHECK(apart.status == 1);
  CHECK(contains(apart.err, "they are compared as two runs; --together takes them for one"));
  CHECK_FALSE(contains(apart.out, "RC-"));
  const Outcome together = run_command(folder, {"diff", "--together", "old.log", "new.log"});
  CHECK(together.err.empty());
  CHECK(contains(together.out, "RC-"));
}

TEST_CASE(
    "a job's log that holds words and no calls is judged, and other commands say who reads it") {
  const Folder folder;
  std::string log;
  for (const int rank : {0, 1, 3}) {
    const std::string head = "[rank" + std::to_string(rank) + "]:[E816 01:45:40.1 x.cpp:1] ";
    log += head +
           "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, "
           "NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600026 milliseconds before\n" +
           head + "[PG ID 0 PG GUID 0(default_pg) Rank " + std::to_string(rank) +
           "] failure detected by watchdog at work sequence id: 12 PG status: last enqueued work: "
           "12, last completed work: 11\n";
  }
  log +=
      "[rank2]:[E816 01:45:41.1 x.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump "
      "signal due to a collective timeout from  rank 0 and we will try our best to dump the debug "
      "info. Last enqueued NCCL work: 11, last completed NCCL work: 11.\n";
  put(folder / "job.log", log);
  for (const char* line : {"$ROLLCALL diff job.log", "cat job.log | $ROLLCALL diff -"}) {
    CAPTURE(line);
    const Outcome outcome = run_shell(folder, line);
    CHECK(outcome.status == 1);
    CHECK(outcome.err.empty());
    CHECK(contains(outcome.out, "RC-MISSING-CALL, hang, likely"));
    CHECK(contains(outcome.out, "culprit   rank 2"));
  }
  const Outcome json = run_command(folder, {"diff", "--json", "job.log"});
  CHECK(json.status == 1);
  CHECK(contains(json.out, "RC-MISSING-CALL"));
  for (const char* command : {"info", "stats", "trace"}) {
    CAPTURE(command);
    const Outcome outcome = run_command(folder, {command, "job.log"});
    CHECK(outcome.status == 2);
    CHECK(contains(outcome.err, "`rollcall diff` judges"));
  }
}

TEST_CASE("logs are found where torchrun puts them, several directories down") {
  const Folder folder;
  for (const char* name : {"logs", "logs/none_x1", "logs/none_x1/attempt_0",
                           "logs/none_x1/attempt_0/0", "logs/none_x1/attempt_0/1"}) {
    mkdir((folder / name).c_str(), 0700);
  }
  const std::string call =
      "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, "
      "NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600026 milliseconds before\n";
  put(folder / "logs/none_x1/attempt_0/0/stderr.log", "[rank0]:[E816 01:45:40.1 x.cpp:1] " + call);
  put(folder / "logs/none_x1/attempt_0/1/stderr.log", "[rank1]: KeyError: 'labels'\n");
  const Outcome outcome = run_command(folder, {"diff", "logs"});
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.out, "rank 1 raised KeyError"));
  // Which came first two files do not tell.
  CHECK(contains(outcome.out, "RC-RANK-DEAD, hang, open"));
}

TEST_CASE("the README shows what diff says of the log of PyTorch's watchdog beside it") {
  const Folder folder;
  const auto text_of = [](const std::string& path) {
    std::ifstream file(std::string(ROLLCALL_SOURCES) + "/" + path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  put(folder / "job.log", text_of("tests/import/samples/job_log/pytorch_2_15_stuck_loader.log"));
  const Outcome outcome = run_command(folder, {"diff", "job.log"});
  CHECK(outcome.status == 1);
  const std::string readme = text_of("README.md");
  const std::string begin = "<!-- job-log:begin -->\n```\n";
  const size_t at = readme.find(begin);
  REQUIRE(at != std::string::npos);
  const size_t end = readme.find("```\n<!-- job-log:end -->", at);
  CHECK(readme.substr(at + begin.size(), end - at - begin.size()) == outcome.out);
}

TEST_CASE("a file that is no recording is named for what it is, and what would help") {
  const Folder folder;
  put(folder / "topo.xml", "<system version=\"1\">\n  <cpu numaid=\"0\"></cpu></system>\n");
  put(folder / "words.txt", "one\ntwo\n");
  put(folder / "empty.log", "");
  const auto err_of = [&](const char* name) {
    const Outcome outcome = run_command(folder, {"diff", name});
    CHECK(outcome.status == 2);
    CHECK_FALSE(contains(outcome.err, "move it out"));
    return outcome.err;
  };
  CHECK(contains(err_of("topo.xml"), "is a topology of NCCL (NCCL_TOPO_DUMP_FILE); it holds no"));
  CHECK(contains(err_of("words.txt"), "is a text of 2 lines, none of which tells of a hang"));
  CHECK(contains(err_of("empty.log"), "is empty; whoever was to write it was killed first"));
}

TEST_CASE("a file of two gibibytes with nothing in it is read in no time and no memory") {
  const Folder folder;
  put(folder / "sparse.log", "");
  REQUIRE(truncate((folder / "sparse.log").c_str(), off_t{2} << 30) == 0);
  const Outcome outcome =
      run_shell(folder, "ulimit -v 1000000; ulimit -t 5; $ROLLCALL diff sparse.log");
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "sparse.log: is empty"));
}

TEST_CASE("files that hold nothing are mentioned beside others' recordings, and not beside ours") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "2", "--ops", "10"}).status == 0);
  put(folder / "run/notes.txt", "one\ntwo\n");
  CHECK_FALSE(contains(run_command(folder, {"diff", "run"}).out, "notes.txt"));
  mkdir((folder / "logs").c_str(), 0700);
  put(folder / "logs/rank0.log", log_of(0, 20));
  put(folder / "logs/rank1.log", log_of(1, 20));
  put(folder / "logs/notes.txt", "one\ntwo\n");
  put(folder / "logs/more.log", "");
  put(folder / "logs/rank2.log", "");
  const Outcome outcome = run_command(folder, {"diff", "logs"});
  CHECK(contains(outcome.out, "notes.txt is a text: nothing was read from it"));
  CHECK(contains(outcome.out, "more.log is empty: nothing was read from it"));
  CHECK(contains(outcome.out, "rank2.log: is empty: cut off while it was written"));
}

TEST_CASE("a log that lies beside its packed copy is read once") {
  const Folder folder;
  mkdir((folder / "logs").c_str(), 0700);
  put(folder / "logs/job.log", log_of(0, 20) + log_of(1, 20));
  const Outcome outcome = run_shell(folder, "gzip -k logs/job.log; $ROLLCALL diff logs");
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "all 2 processes made the same calls"));
  CHECK(contains(outcome.out, "job.log.gz: was not read, for it lies beside"));
}

TEST_CASE("standard input is read once, and not from a terminal") {
  const Folder folder;
  const Outcome twice = run_shell(folder, "$ROLLCALL diff - - < /dev/null");
  CHECK(twice.status == 2);
  CHECK(contains(twice.err, "standard input can be read once"));
  const Outcome nothing = run_shell(folder, "$ROLLCALL diff - < /dev/null");
  CHECK(nothing.status == 2);
  CHECK(contains(nothing.err, "standard input: is empty"));
}

}  // namespace test_foreign
