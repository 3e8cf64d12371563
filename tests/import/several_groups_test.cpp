// Several process groups that wait at once, and which of them explains the others.
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

std::string number(int64_t value) { return std::to_string(value); }

struct Wait {
  int rank;
  int64_t seq;
  const char* group;  // "7(tp)"
  const char* time = "01:45:40";
  const char* op = "ALLREDUCE";
  int64_t enqueued = -1;  // as `seq` where it is not told
};

// As PyTorch 2.6 writes it.
std::string gave_up(const Wait& wait) {
  const std::string head =
      "[rank" + number(wait.rank) + "]:[E626 " + wait.time + ".9 ProcessGroupNCCL.cpp:632] ";
  const int64_t enqueued = wait.enqueued < 0 ? wait.seq : wait.enqueued;
  return head + "[Rank " + number(wait.rank) +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + number(wait.seq) +
         ", OpType=" + wait.op +
         ", NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600020 milliseconds before timing "
         "out.\n" +
         head + "[PG ID 0 PG GUID " + wait.group + " Rank " + number(wait.rank) +
         "]  failure detected by watchdog at work sequence id: " + number(wait.seq) +
         " PG status: last enqueued work: " + number(enqueued) +
         ", last completed work: " + number(wait.seq - 1) + "\n";
}

std::string position(int rank, int64_t enqueued, const std::string& group = "0(default_pg)") {
  return "[rank" + number(rank) +
         "]:[E626 01:45:41.1 ProcessGroupNCCL.cpp:1685] [PG ID 0 PG GUID " + group + " Rank " +
         number(rank) +
         "] Received a dump signal due to a collective timeout from  rank 0 and we will try our "
         "best to dump the debug info. Last enqueued NCCL work: " +
         number(enqueued) + ", last completed NCCL work: " + number(enqueued) + ".\n";
}

const char* const kAll = "0(default_pg)";
const char* const kTensor = "7(tp)";
const char* const kUndecided =
    "nothing in the log decides which of these waits explains the others";
const std::string kSize = "All distributed processes registered. Starting with 8 processes\n";

std::string all_wait_but(const Ranks& absent, int64_t seq = 90, const char* time = "01:45:40") {
  std::string log;
  for (int rank = 0; rank < 8; ++rank) {
    bool is_absent = false;
    for (const int32_t one : absent) is_absent = is_absent || one == rank;
    if (!is_absent) log += gave_up({rank, seq, kAll, time});
  }
  return log;
}

}  // namespace

TEST_CASE("the group that keeps a rank from the others' call leads, and accuses nobody") {
  const std::string log =
      kSize + all_wait_but({2, 3}) + gave_up({2, 55, kTensor, "01:45:41", "ALLGATHER"}) +
      gave_up({3, 55, kTensor, "01:45:41", "ALLGATHER"}) + position(2, 89) + position(3, 88);
  const Judged found = judged(log);
  CAPTURE(found.summary);
  CHECK(found.confidence == Confidence::open);
  CHECK(found.culprits.empty());
  CHECK(found.summary.starts_with("ranks 2-3 waited in ALLGATHER, call 55 of tp, and gave up"));
  CHECK(holds(found.summary,
              "oldest first: ranks 0-1,4-7 waited in ALLREDUCE, call 90 of default_pg since "
              "01:35:39; then ranks 2-3 waited in ALLGATHER, call 55 of tp since 01:35:40"));
  CHECK(holds(found.summary,
              "ranks 2-3 never made call 90 of default_pg and waited in tp instead: call 89 was "
              "the last of rank 2"));
  CHECK(holds(found.summary, "; so the wait in tp explains the other"));
  for (const auto& finding : judge_log(log).findings) CHECK(finding.culprits.empty());
}

TEST_CASE("where a rank waits in no group, what it did not call is not explained by those") {
  const std::string log =
      kSize + all_wait_but({2, 3}) + gave_up({2, 55, kTensor}) + position(2, 89) + position(3, 89);
  const Judged found = judged(log);
  CAPTURE(found.summary);
  // Rank 2 waits itself.
  CHECK(found.culprits == Ranks{3});
  CHECK(found.confidence == Confidence::likely);
  CHECK(holds(found.summary, "then rank 2 waited in ALLREDUCE, call 55 of tp"));
  CHECK_FALSE(holds(found.summary, "explains"));
}

TEST_CASE("where no numbers compare, all groups are told, and that nothing decides") {
  const std::string log = gave_up({0, 50, "3(dp)"}) + gave_up({1, 7, "4(tp)", "01:40:00"});
  const Judged found = judged(log);
  CAPTURE(found.summary);
  CHECK(found.verdict == Verdict::insufficient);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary,
              "oldest first: rank 1 waited in ALLREDUCE, call 7 of tp since 01:29:59; then rank 0 "
              "waited in ALLREDUCE, call 50 of dp since 01:35:39"));
  CHECK(holds(found.summary, kUndecided));
  const analysis::Report report = judge_log(log);
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[0].summary.starts_with("rank 1 waited in ALLREDUCE, call 7 of tp"));
  CHECK(report.findings[1].summary.starts_with("rank 0 waited in ALLREDUCE, call 50 of dp"));
}

TEST_CASE("a rank that has made the others' call, too, is not kept from it by another group") {
  const std::string log = kSize + all_wait_but({2}) + gave_up({2, 55, kTensor}) + position(2, 90);
  const Judged found = judged(log);
  CAPTURE(found.summary);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, kUndecided));
}

TEST_CASE("a group that waits for ranks of two others is explained by neither alone") {
  const std::string log = kSize + all_wait_but({2, 3}) + gave_up({2, 55, kTensor}) +
                          gave_up({3, 66, "9(pp)"}) + position(2, 89) + position(3, 89);
  const Judged found = judged(log);
  CAPTURE(found.summary);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, "rank 2 never made call 90 of default_pg and waited in tp instead"));
  CHECK(holds(found.summary, "rank 3 never made call 90 of default_pg and waited in pp instead"));
  CHECK(holds(found.summary, kUndecided));
}

TEST_CASE("groups that hold up each other explain nothing, and accuse nobody") {
  const std::string log = kSize + all_wait_but({2}) + gave_up({2, 55, kTensor}) + position(2, 89) +
                          position(0, 54, kTensor);
  const Judged found = judged(log);
  CAPTURE(found.summary);
  CHECK(found.culprits.empty());
  CHECK(holds(found.summary, "rank 2 never made call 90 of default_pg and waited in tp instead"));
  CHECK(holds(found.summary, "rank 0 never made call 55 of tp and waited in default_pg instead"));
  CHECK(holds(found.summary, kUndecided));
}

TEST_CASE("a group whose wait began before midnight is older than one behind it") {
  const Judged found =
      judged(gave_up({0, 50, "3(dp)", "00:11:00"}) + gave_up({1, 7, "4(tp)", "00:05:00"}));
  CHECK(holds(found.summary,
              "oldest first: rank 1 waited in ALLREDUCE, call 7 of tp since "
              "23:54:59; then rank 0"));
  const Judged later =
      judged(gave_up({1, 7, "4(tp)", "23:59:00"}) + gave_up({0, 50, "3(dp)", "00:01:00"}));
  CHECK(holds(later.summary, "oldest first: rank 1 waited"));
}

TEST_CASE("groups whose lines tell no time are told in the order of the log") {
  std::string log = gave_up({0, 50, "3(dp)"}) + gave_up({1, 7, "4(tp)"});
  for (size_t at = 0; (at = log.find("01:45:40.9 ")) != std::string::npos;) log.erase(at, 11);
  const Judged found = judged(log);
  CHECK(holds(found.summary,
              "in the order of the log: rank 0 waited in ALLREDUCE, call 50 of dp; "
              "then rank 1 waited"));
}

TEST_CASE("of many groups the oldest are told, and how many there are besides") {
  std::string log;
  for (int i = 0; i < 6; ++i) {
    const std::string group = number(20 + i) + "(tp" + number(i) + ")";
    log += gave_up({i, 7, group.c_str()});
  }
  const Judged found = judged(log);
  CHECK(holds(found.summary, "then rank 3 waited in ALLREDUCE, call 7 of tp3"));
  CHECK_FALSE(holds(found.summary, "tp4"));
  CHECK(holds(found.summary, "; then 2 more"));
}

TEST_CASE("a mismatch in one group leads, and the waits of others are told beside it") {
  const std::string log = kSize + gave_up({2, 55, kTensor}) +
                          gave_up({3, 55, kTensor, "01:45:40", "ALLGATHER"}) + all_wait_but({2, 3});
  const Judged found = judged(log);
  CHECK(found.verdict == Verdict::op_mismatch);
  CHECK(found.confidence == Confidence::likely);
  CHECK(holds(found.summary, "then ranks 0-1,4-7 waited in ALLREDUCE, call 90 of default_pg"));
  CHECK_FALSE(holds(found.summary, "nothing in the log decides"));
}

TEST_CASE("transfers that each rank counts for itself put no rank behind") {
  const auto log = [](const char* op) {
    return kSize + gave_up({0, 90, kAll, "01:45:40", op}) + gave_up({1, 90, kAll, "01:45:40", op}) +
           position(2, 40);
  };
  CHECK(judged(log("ALLREDUCE")).confidence == Confidence::likely);
  for (const char* op : {"SEND", "RECV", "COALESCED"}) {
    const analysis::Report report = judge_log(log(op));
    for (const auto& finding : report.findings) CHECK(finding.confidence == Confidence::open);
  }
}

TEST_CASE("a rank that waits in an older call of the group is not accused for one that does not") {
  const std::string older = gave_up({4, 89, kAll});
  const std::string log = kSize + all_wait_but({2, 4}) + older + position(2, 88);
  const Judged found = judged(log);
  CHECK(found.culprits == Ranks{2});
  CHECK(found.confidence == Confidence::likely);
  CHECK(judged(kSize + all_wait_but({4}) + older).confidence == Confidence::open);
}
