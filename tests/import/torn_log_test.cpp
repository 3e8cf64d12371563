// Logs of NCCL that are not whole: torn, cut, mixed, or without what tells communicators apart.
#include <cstdio>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/damage.h"
#include "tests/import/judge_log.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;

namespace {

// A process of the log is a rank of a job on one host; its pointers are its own.
struct Rank {
  int pid;
  const char* comm;
};
constexpr Rank kRanks[] = {{10, "0x0a"}, {11, "0x1a"}};

std::string init(int rank, const std::string& id = " commId 0x5", const char* comm = nullptr,
                 int nranks = 2) {
  const Rank& of = kRanks[rank];
  return "n:" + std::to_string(of.pid) + ":1 [" + std::to_string(rank) +
         "] NCCL INFO ncclCommInitRank comm " + (comm == nullptr ? of.comm : comm) + " rank " +
         std::to_string(nranks == 1 ? 0 : rank) + " nranks " + std::to_string(nranks) +
         " cudaDev 0" + id + " - Init COMPLETE\n";
}

std::string call_text(int rank, int op_count, int count, const char* op = "AllReduce",
                      const char* comm = nullptr) {
  char number[16];
  std::snprintf(number, sizeof number, "%x", static_cast<unsigned>(op_count));
  return std::string(op) + ": opCount " + number + " sendbuff 0x1 recvbuff 0x1 count " +
         std::to_string(count) + " datatype 7 op 0 root 0 comm " +
         (comm == nullptr ? kRanks[rank].comm : comm) + " [nranks=2] stream 0x1\n";
}

std::string prefix(int rank) {
  return "n:" + std::to_string(kRanks[rank].pid) + ":1 [" + std::to_string(rank) + "] NCCL INFO ";
}

std::string call(int rank, int op_count, int count, const char* op = "AllReduce",
                 const char* comm = nullptr) {
  return prefix(rank) + call_text(rank, op_count, count, op, comm);
}

bool accuses(const analysis::Report& report) {
  for (const analysis::Finding& finding : report.findings) {
    if (is_defect(finding) && finding.confidence != Confidence::open) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a call that lost its prefix belongs to whoever knows its communicator") {
  const std::string log = init(0) + init(1) + call(0, 0, 10) + call(0, 0, 20) + call(0, 0, 30) +
                          call(1, 0, 10) + call_text(1, 0, 20) + call(1, 0, 30);
  const analysis::Report report = judge_log(log);
  CHECK(report.findings.front().verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("a line that was written into another is its own writer's") {
  const std::string log = init(0) + init(1) + call(0, 1, 10) + call(0, 2, 20) +
                          "n:10:1 [0] NCCL INFO " + call(1, 1, 10) + call(1, 2, 20) +
                          call(0, 3, 30) + call(1, 3, 30);
  const analysis::Report report = judge_log(log);
  CHECK_FALSE(accuses(report));
  for (const auto& finding : report.findings) CHECK_FALSE(is_defect(finding));
}

TEST_CASE("nothing is compared behind a call that was lost, unless its number tells the place") {
  const std::string torn = "n:11:1 [1] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 rec\n";
  const std::string counted = init(0) + init(1) + call(0, 0, 10) + call(0, 0, 20) + call(0, 0, 30) +
                              call(1, 0, 10) + torn + call(1, 0, 30);
  CHECK_FALSE(accuses(judge_log(counted)));
  const std::string told = init(0) + init(1) + call(0, 1, 10) + call(0, 2, 20) + call(0, 3, 30) +
                           call(1, 1, 10) + torn + call(1, 3, 31);
  // The third call is the third, although the second is lost.
  CHECK(judge_log(told).findings.front().verdict == Verdict::count_mismatch);
}

TEST_CASE("the tail of a log is aligned by the numbers of its calls") {
  const analysis::Report report = judge_log(call(0, 1, 10) + call(0, 2, 20) + call(1, 2, 20));
  for (const auto& finding : report.findings) CHECK_FALSE(is_defect(finding));
}

TEST_CASE("the tail of a log whose calls have no numbers accuses nobody") {
  CHECK_FALSE(accuses(judge_log(call(0, 0, 10) + call(0, 0, 20) + call(1, 0, 20))));
}

TEST_CASE("communicators without an id are told apart by size and order") {
  const std::string log = init(0, "") + init(0, "", "0x0b", 1) + init(1, "") +
                          init(1, "", "0x1b", 1) + call(0, 0, 10) + call(1, 0, 10) +
                          call(0, 0, 5, "Broadcast", "0x0b") + call(1, 0, 6, "Broadcast", "0x1b");
  const analysis::Report report = judge_log(log);
  CHECK(report.findings.front().verdict == Verdict::in_lockstep);
  // A difference on the one that both are in is still found.
  const analysis::Report other = judge_log(init(0, "") + init(1, "") + call(0, 0, 10) +
                                           call(1, 0, 11) + call(0, 0, 1) + call(1, 0, 1));
  CHECK(other.findings.front().verdict == Verdict::count_mismatch);
}

TEST_CASE("more processes than ranks in a communicator are several communicators") {
  std::string log;
  for (int pid = 10; pid < 14; ++pid) {
    log += "n:" + std::to_string(pid) +
           ":1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff "
           "0x1 count " +
           std::to_string(pid / 12) + " datatype 7 op 0 root 0 comm 0x" + std::to_string(pid) +
           "a [nranks=2] stream 0x1\n";
  }
  const analysis::Report report = judge_log(log);
  CHECK(report.findings.front().verdict == Verdict::insufficient);
  CHECK(report.findings.size() == 1);
}

TEST_CASE("where processes do not tell their ranks, it is said how many are on file") {
  std::string log;
  for (const char* pid : {"10", "11", "12"}) {
    log +=
        "n:" + std::string(pid) +
        ":1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 10 datatype 7 op 0 "
        "root 0 comm 0x" +
        pid + "a [nranks=8] stream 0x1\n";
  }
  const analysis::Report report = judge_log(log);
  std::string text;
  for (const auto& finding : report.findings) text += finding.summary + "\n";
  INFO(text);
  CHECK(text.find("3 of the 8 processes of") != std::string::npos);
  CHECK(text.find("as which ranks is not known") != std::string::npos);
  CHECK(text.find("ranks 0-7") == std::string::npos);
}

TEST_CASE("what grep and launchers put in front of a host is not of the host") {
  const std::string log = "job.log:1:" + init(0) + "job.log:2:" + init(1) +
                          "job.log:3:" + call(0, 0, 10) + "[1,0]<stdout>:" + call(0, 0, 20) +
                          "job.log:5:" + call(1, 0, 10) + "[1,1]<stdout>:" + call(1, 0, 20);
  const analysis::Report report = judge_log(log);
  CHECK(report.findings.front().verdict == Verdict::in_lockstep);
  CHECK(report.findings.front().summary.find("2 processes") != std::string::npos);
}

TEST_CASE("ranks that begin a communicator whose others are not in the log accuse nobody") {
  std::string log;
  for (int rank = 0; rank < 2; ++rank) {
    log += prefix(rank) + "ncclCommInitRank comm 0x" + std::to_string(rank) + "a rank " +
           std::to_string(rank) + " nranks 4 cudaDev 0 commId 0x5 - Init START\n";
  }
  const analysis::Report report = judge_log(log);
  CHECK_FALSE(accuses(report));
  CHECK(report.findings.front().culprits.empty());
}

TEST_CASE("a rank whose last call is missing at the end of a log is no more than suspected") {
  const analysis::Report report =
      judge_log(init(0) + init(1) + call(0, 0, 10) + call(1, 0, 10) + call(0, 0, 20));
  CHECK_FALSE(accuses(report));
  // In the middle of a log whose calls have numbers, without a gap in them, it is another matter.
  CHECK(accuses(judge_log(init(0) + init(1) + call(0, 1, 10) + call(1, 1, 10) + call(0, 2, 20) +
                          call(0, 3, 30) + call(1, 2, 30) + call(0, 4, 40) + call(1, 3, 40))));
}

TEST_CASE("whatever is torn, cut, doubled or lost of a healthy log accuses nobody") {
  std::vector<std::string> healthy = {init(0), init(1)};
  for (int step = 1; step < 30; ++step) {
    const char* op = step % 5 == 0 ? "Broadcast" : step % 7 == 0 ? "AllGather" : "AllReduce";
    for (int rank = 0; rank < 2; ++rank) healthy.push_back(call(rank, step, 100 + step % 9, op));
  }
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const std::string log = damaged(healthy, seed);
    INFO("seed " << seed << "\n" << log);
    CHECK_FALSE(accuses(judge_log(log)));
  }
}
