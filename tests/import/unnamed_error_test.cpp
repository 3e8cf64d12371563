// Exceptions that a log of several ranks holds, and of which no word tells whose they are.
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

namespace {

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"/w/train.py\", line 88, in <module>\n    "
    "main()\n";
const std::string kShapes = "RuntimeError: shape mismatch: [2, 3] and [2, 4]\n";
const std::string kOutOfMemory = "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB.\n";
const std::string kSize = "All distributed processes registered. Starting with 4 processes\n";

std::string all_gave_up() { return three_gave_up() + gave_up(2); }

// Whether the leading finding quotes that line.
bool shows(const std::string& log, const std::string& record, const std::string& words) {
  const analysis::Report report = judge_log(log);
  const auto& evidence = report.findings.front().evidence;
  return std::any_of(evidence.begin(), evidence.end(), [&](const auto& shown) {
    return shown.record == record && holds(shown.text, words);
  });
}

}  // namespace

TEST_CASE("an error whose rank no word tells is evidence in front of the time-outs") {
  const std::string log = kSize + kTraceback + kShapes + three_gave_up() + kGoesOn;
  const Judged found = judged(log);
  // As without it.
  CHECK(found.verdict == Verdict::missing_call);
  CHECK(found.confidence == Confidence::open);
  CHECK(found.culprits == Ranks{2});
  CHECK(holds(found.summary,
              "in front of the first time-out, in line 5 a rank that the log does not name raised "
              "RuntimeError: \"shape mismatch"));
  CHECK(holds(found.summary, ", perhaps rank 2"));
  CHECK(shows(log, "line 5", "RuntimeError: shape"));
}

TEST_CASE("an error whose rank no word tells is shown however many ranks gave up") {
  std::string log =
      "All distributed processes registered. Starting with 20 processes\n" + kTraceback + kShapes;
  for (int rank = 0; rank < 19; ++rank) log += gave_up(rank);
  log += kGoesOn;
  CHECK(judged(log).culprits == Ranks{19});
  CHECK(shows(log, "line 5", "RuntimeError: shape"));
  CHECK(shows(log, "line 6", "caught collective operation timeout"));
}

TEST_CASE("an error behind a time-out is told as one that came later, and of no rank") {
  const std::string log = kSize + three_gave_up() + kTraceback + kShapes;
  const Judged found = judged(log);
  CHECK(found.culprits == judged(kSize + three_gave_up() + kGoesOn).culprits);
  CHECK(found.confidence == Confidence::open);
  CHECK(
      holds(found.summary, "; behind the first time-out, in line 8 a rank that the log does not "));
  CHECK_FALSE(holds(found.summary, "perhaps"));
  const Judged memory = judged(kSize + three_gave_up() + kOutOfMemory);
  CHECK(holds(memory.summary, "behind the first time-out, in line 5 a rank that the log does not"));
  CHECK(memory.verdict == Verdict::missing_call);
}

TEST_CASE("an error that tells of others' end is no guess at who is missing") {
  const Judged found = judged(kSize + kTraceback +
                              "torch.distributed.DistBackendError: NCCL error in: x.cpp:94, remote "
                              "process exited or there was a network error, NCCL version 2.21.5\n" +
                              three_gave_up());
  CHECK(holds(found.summary, "in line 5 a rank that the log does not name had an error of NCCL"));
  CHECK_FALSE(holds(found.summary, "perhaps"));
  const Judged store =
      judged(kSize + kTraceback +
             "torch.distributed.DistStoreError: wait timeout after 600000ms\n" + three_gave_up());
  CHECK(holds(store.summary, "raised torch.distributed.DistStoreError"));
  CHECK_FALSE(holds(store.summary, "perhaps"));
}

TEST_CASE("where several ranks are missing an error is not guessed to be of one") {
  const Judged found = judged(kSize + kTraceback + kShapes + gave_up(0) + gave_up(3));
  CHECK(holds(found.summary, "in line 5 a rank that the log does not name raised RuntimeError"));
  CHECK_FALSE(holds(found.summary, "perhaps"));
}

TEST_CASE("an error that some rank got over, for all waited in one call, is no cause") {
  for (const std::string& error : {kOutOfMemory, kTraceback + kShapes}) {
    const Judged found = judged(kSize + error + all_gave_up());
    CAPTURE(found.summary);
    CHECK(found.verdict == judged(kSize + all_gave_up()).verdict);
    CHECK(found.culprits.empty());
    CHECK(holds(found.summary, "a rank that the log does not name raised"));
  }
  // One of them waited in another call: that may be the one.
  CHECK(judged(kSize + kOutOfMemory + three_gave_up()).verdict == Verdict::rank_dead);
}

TEST_CASE("a traceback in a log that tells of no hang says nothing of one") {
  for (const std::string& log :
       {kTraceback + kShapes, "step 1\n" + kTraceback + kShapes + "step 2\n"}) {
    CHECK(judged(log).verdict == Verdict::insufficient);
    CHECK(judged(log).culprits.empty());
  }
  const std::string warning =
      "n1:11:12 [1] misc/cudawrap.cc:33 NCCL WARN Cuda failure 3 'initialization error'\n";
  CHECK(judged(warning + kTraceback + kShapes).verdict == judged(warning).verdict);
}

TEST_CASE("a line that ends no traceback is not taken for an exception of a rank") {
  const std::string plain = judged(kSize + three_gave_up()).summary;
  for (const std::string& lines :
       {kShapes, "retrying after ValueError: bad sample\n" + kTraceback + "done\n" + kShapes,
        kTraceback + "    ValueError: in a docstring\nExit\n",
        kTraceback + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
        kTraceback + "KeyboardInterrupt\n"}) {
    CAPTURE(lines);
    CHECK(judged(kSize + lines + three_gave_up()).summary == plain);
  }
}

TEST_CASE("a logger's words may stand in front of a traceback, and its own prefix in each line") {
  const std::string logged = "(EngineCore_0 pid=7) ERROR 10-05 03:32:06 [core.py:708] ";
  const std::string of_vllm = logged + "EngineCore failed: Traceback (most recent call last):\n" +
                              logged + "  File \"core.py\", line 699, in run\n" + logged + kShapes;
  const std::string of_sglang =
      "[2026-10-05 03:32:06 TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
      "  File \"scheduler.py\", line 9, in run\n" +
      kShapes;
  CHECK(holds(judged(kSize + of_vllm + three_gave_up()).summary,
              "in line 4 a rank that the log does not name raised RuntimeError"));
  CHECK(holds(judged(kSize + of_sglang + three_gave_up()).summary,
              "in line 4 SGLang's TP3 raised RuntimeError"));
  // A quotation is none.
  const std::string quoted = "{\"log\": \"Traceback (most recent call last):\n  File\n" + kShapes;
  CHECK(judged(kSize + quoted + three_gave_up()).summary ==
        judged(kSize + three_gave_up()).summary);
}

TEST_CASE("an error ends the traceback of its own task, and of no other") {
  const auto summary = [](const char* task) {
    return judged("0: " + gave_up(0) +
                  "1: Traceback (most recent call last):\n1:   File \"a.py\"\n" + task + kShapes +
                  "3: " + gave_up(3))
        .summary;
  };
  CHECK(holds(summary("1: "), "in line 4 task 1 raised RuntimeError"));
  CHECK_FALSE(holds(summary("2: "), "raised"));
}

TEST_CASE("tracebacks of several ranks whose lines are mixed are told apart") {
  const std::string header = "Traceback (most recent call last):\n";
  const std::string log = kSize + header + header + "  File \"a.py\", line 1\n" + gave_up(0) +
                          "  File \"a.py\", line 2\nKeyError: 'labels'\nAssertionError\n" +
                          gave_up(1) + gave_up(3);
  const Judged found = judged(log);
  CHECK(holds(found.summary, "in line 7 a rank that the log does not name raised KeyError: "));
  CHECK(holds(found.summary, "in line 8 a rank that the log does not name raised AssertionError"));
  // A third line of that form ends none.
  CHECK_FALSE(holds(judged(log + kShapes).summary, "RuntimeError"));
}

TEST_CASE("of many errors some are told, and how many more there are") {
  std::string errors;
  for (int i = 0; i < 9; ++i) {
    errors += kTraceback + "ValueError: sample " + std::to_string(i) + "\n";
  }
  const Judged found = judged(kSize + errors + three_gave_up());
  CHECK(holds(found.summary, "ValueError: \"sample 2\""));
  CHECK_FALSE(holds(found.summary, "sample 3"));
  CHECK(holds(found.summary, "and 6 more such errors"));
}

TEST_CASE("of several logs an error is told with its file, and not as earlier or later") {
  const std::vector<std::string> texts = {kTraceback + kShapes + gave_up(0), gave_up(1)};
  Run run;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto* begin = reinterpret_cast<const uint8_t*>(texts[i].data());
    import_bytes("log" + std::to_string(i), {begin, texts[i].size()}, run.processes, run.issues,
                 &run.logs);
  }
  const std::string summary = analysis::analyse(run).findings.front().summary;
  CHECK(holds(summary, "; in line 4 of log0 a rank that the log does not name raised"));
  CHECK_FALSE(holds(summary, "time-out, in line"));
}
