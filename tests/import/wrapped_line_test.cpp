// Lines of PyTorch's watchdog that terminals and loggers wrapped within the words they are known
// by.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/job_words.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Verdict;
using Ranks = std::vector<int32_t>;

namespace {

const std::string kGroup = "[PG ID 0 PG GUID 0(default_pg) Rank 6]";
const std::string kHeader = "[rank6]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] ";

// As PyTorch 2.6 writes it, as 2.4 does, and what either says behind it.
const std::vector<std::string> kStuck = {
    kHeader + kGroup +
        " ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
        "monitoring enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., "
        "CudaEventDestroy) hang blocking the watchdog, and could be triggered by another thread "
        "holding the GIL inside a CUDA api (for example, CudaEventDestroy), or other "
        "deadlock-prone behaviors.",
    "[rank6]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 6] [PG 0 Rank 6] ProcessGroupNCCL's watchdog "
    "got stuck for 600 seconds without making progress in monitoring enqueued collectives.",
    "[rank6]:[E1019 01:04:03.356947152 ProcessGroupNCCL.cpp:1413] [PG 3 Rank 6] Heartbeat monitor "
    "timed out! Process will be terminated after dumping debug info. workMetaList_.size()=121",
    kHeader + kGroup + " " + kGroup +
        " Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL "
        "watchdog hang."};

// Wherever a terminal's last column is.
std::string wrapped_at(const std::string& line, size_t width, const std::string& prefix) {
  std::string text;
  for (size_t at = 0; at < line.size(); at += width) {
    text += prefix + line.substr(at, width) + "\n";
  }
  return text;
}

// In front of the word that does not fit, as loggers do.
std::string wrapped_at_words(const std::string& line, size_t width, const std::string& prefix) {
  std::string text = prefix;
  size_t column = 0;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    if (column != 0 && column + 1 + word.size() > width) {
      text += "\n" + prefix;
      column = 0;
    }
    text += (column == 0 ? "" : " ") + word;
    column += (column == 0 ? 0 : 1) + word.size();
    at = end + 1;
  }
  return text + "\n";
}

void check_stuck(const std::string& log) {
  CAPTURE(log);
  const Judged found = judged("step 1\n" + log + "step 2\n");
  CHECK(found.verdict == Verdict::stuck_in_call);
  CHECK(holds(found.summary, "rank 6: PyTorch's watchdog thread did not move"));
  const Run run = read_log("step 1\n" + log);
  REQUIRE(run.logs.size() == 1);
  REQUIRE(run.logs[0].sayings.size() == 1);
  CHECK(run.logs[0].sayings[0].line == 2);
}

}  // namespace

TEST_CASE("a watchdog that is stuck is told with its rank wherever its line was wrapped") {
  for (const std::string& line : kStuck) {
    for (size_t width = 60; width < 200; width += 7) {
      for (const char* prefix : {"", "2025-04-29T13:55:49.384Z ", "(Worker pid=4711) "}) {
        check_stuck(wrapped_at(line, width, prefix));
        check_stuck(wrapped_at_words(line, width, prefix));
      }
      check_stuck(wrapped_at_words(line, width, "    ").substr(4));
    }
  }
}

TEST_CASE("a time-out is told with its rank and group wherever its line was wrapped at words") {
  const std::string header = "[rank3]:[E816 01:45:40.1 ProcessGroupNCCL.cpp:632] ";
  const std::string wait =
      header +
      "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, "
      "OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600026 milliseconds "
      "before timing out.";
  const std::string position =
      header +
      "[PG ID 2 PG GUID 17(tensor_parallel) Rank 1]  failure detected by watchdog at work sequence "
      "id: 41 PG status: last enqueued work: 42, last completed work: 40";
  for (size_t width = 60; width < 120; width += 7) {
    const std::string log =
        wrapped_at_words(wait, width, "") + wrapped_at_words(position, width, "");
    CAPTURE(log);
    const Run run = read_log(log);
    REQUIRE(run.logs.size() == 1);
    REQUIRE(run.logs[0].sayings.size() == 2);
    CHECK(run.logs[0].sayings[0].rank == 3);
    CHECK(run.logs[0].sayings[0].group_text == "tensor_parallel");
    CHECK(run.logs[0].sayings[1].enqueued == 42);
  }
}

TEST_CASE("the words of a stuck watchdog are not those of a rank whose line goes on otherwise") {
  const std::string stuck =
      "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress.\n";
  const auto told = [&](const std::string& front) {
    std::vector<int32_t> ranks = judge_log(front + stuck).findings.front().victims;
    return ranks;
  };
  CHECK(told(kHeader + kGroup + "\n") == Ranks{6});
  // A whole line of rank 6, a line of another task, and one that says something else.
  CHECK(told(kHeader + kGroup + " ProcessGroupNCCL initialization options: size: 8\n").empty());
  CHECK(told("1: " + kHeader + kGroup + "\n2: ").empty());
  CHECK(told(kHeader + kGroup + " ProcessGroupNCCL's watchdog got stuck\n").empty());
  CHECK(told(kHeader + kGroup + "\nstep 7\n").empty());
  CHECK(told("[rank6]: frame #3 at ProcessGroupNCCL.cpp:1743\n").empty());
  // The next rank's own line is its own.
  CHECK(told(kHeader + kGroup + "\n[rank5]:[E429 13:55:49.3 " +
             "ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0 Rank 5] ") == Ranks{5});
}

TEST_CASE("a line that is wrapped and never goes on says nothing") {
  CHECK(read_log(kHeader + kGroup + " ProcessGroupNCCL's watchdog\n").logs.empty());
  CHECK(read_log(kHeader + kGroup + " ProcessGroupNCCL's watchdog\nstep 7\n").logs.empty());
  CHECK(read_log(kHeader + kGroup + "\nnothing got stuck for 480 seconds\n").logs.empty());
}
