// Healthy logs of each kind, damaged at random: none of them may accuse anybody.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/import/damage.h"
#include "tests/import/judge_log.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;

namespace {

constexpr uint32_t kSeeds = 150;
constexpr int kRanks = 4;

std::string sample(const std::string& name) {
  std::ifstream file(std::string(ROLLCALL_SAMPLES) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string number(int value) { return std::to_string(value); }

std::string nccl(int rank, const std::string& text) {
  return "n:1" + number(rank) + ":1 [" + number(rank) + "] NCCL INFO " + text + "\n";
}

std::vector<std::string> inits() {
  std::vector<std::string> lines;
  for (const char* end : {"START", "COMPLETE"}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      lines.push_back(nccl(rank, "ncclCommInitRank comm 0x" + number(rank) + "a rank " +
                                     number(rank) + " nranks " + number(kRanks) +
                                     " cudaDev 0 commId 0x5 - Init " + end));
    }
  }
  return lines;
}

// All ranks make the same calls; opCount stays 0, as in NCCL 2.27 and later on one node.
std::vector<std::string> unnumbered_calls() {
  std::vector<std::string> lines = inits();
  for (int step = 0; step < 20; ++step) {
    const char* op = step % 5 == 0 ? "Broadcast" : step % 7 == 0 ? "AllGather" : "AllReduce";
    for (int rank = 0; rank < kRanks; ++rank) {
      lines.push_back(nccl(rank, std::string(op) + ": opCount 0 sendbuff 0x1 recvbuff 0x1 count " +
                                     number(100 + step) + " datatype 7 op 0 root 0 comm 0x" +
                                     number(rank) + "a [nranks=4] stream 0x1"));
    }
  }
  return lines;
}

// As torchrun writes it, of a job that ends well.
std::vector<std::string> job_log() {
  std::vector<std::string> lines = {
      "[2024-08-16 01:00:00,000] torch.distributed.elastic.agent.server.api: [INFO] [default] "
      "Rendezvous complete for workers. Result:\n",
      "  restart_count=0\n", "  master_addr=n\n"};
  for (const std::string& line : inits()) lines.push_back(line);
  for (int rank = 0; rank < kRanks; ++rank) {
    lines.push_back("n:1" + number(rank) +
                    ":9 [0] misc/x.cc:1 NCCL WARN lib wrapper not "
                    "initialized.\n");
    lines.push_back(nccl(rank, "transport/net_ib.cc:52 -> 3"));
    lines.push_back("[rank" + number(rank) +
                    "]:[W816 01:00:10.1 ProcessGroupNCCL.cpp:4115] [PG ID "
                    "0 PG GUID 0 Rank " +
                    number(rank) + "]  using GPU " + number(rank) +
                    " to perform barrier as devices used by this process are currently unknown.\n");
  }
  for (int step = 0; step < 20; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      lines.push_back("[rank" + number(rank) + "]: step " + number(step) + " loss 0." +
                      number(step) + "\n");
    }
  }
  lines.push_back(
      "[2024-08-16 02:00:00,000] torch.distributed.elastic.agent.server.api: [INFO] "
      "[default] worker group successfully finished. Waiting 300 seconds for other "
      "agents to finish.\n");
  return lines;
}

void check(const std::vector<std::string>& healthy) {
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    const std::string log = damaged(healthy, seed, 1 + static_cast<int>(seed % 4));
    const analysis::Report report = judge_log(log);
    for (const analysis::Finding& finding : report.findings) {
      INFO("seed " << seed << ": " << finding.summary << "\n" << log);
      CHECK_FALSE((is_defect(finding) && finding.confidence != Confidence::open));
    }
  }
}

}  // namespace

TEST_CASE("a damaged log of calls without numbers accuses nobody") { check(unnumbered_calls()); }

TEST_CASE("a damaged log of a job that ended well accuses nobody") { check(job_log()); }

TEST_CASE("damaged reports of a healthy job by ncclras accuse nobody") {
  for (const char* name :
       {"ras/clean/status.txt", "ras/clean/status_verbose.txt", "ras/clean/status.json"}) {
    const std::vector<std::string> lines = lines_of(sample(name));
    REQUIRE(lines.size() > 5);
    check(lines);
  }
}

TEST_CASE("a damaged log that mixes calls, words and reports of ncclras accuses nobody") {
  std::vector<std::string> lines = job_log();
  const std::vector<std::string> calls = unnumbered_calls();
  lines.insert(lines.end(), calls.begin(), calls.end());
  for (const std::string& line : lines_of(sample("ras/clean/status.txt"))) lines.push_back(line);
  for (std::string& line : lines) line.insert(0, "job.log:7:");
  check(lines);
}

TEST_CASE("a call that is not in a log without numbers is suspected, unless somebody waited") {
  std::vector<std::string> lines = unnumbered_calls();
  // Of rank 2, in the middle.
  const auto lost = lines.begin() + 2 * kRanks + 8 * kRanks + 2;
  lines.erase(lost);
  const std::string log = damaged(lines, 0, 0);
  const analysis::Report report = judge_log(log);
  const analysis::Finding& lead = report.findings.front();
  CHECK(lead.verdict == analysis::Verdict::missing_call);
  CHECK(lead.confidence == Confidence::open);
  CHECK(lead.culprits.front().rank == 2);
  CHECK(lead.summary.find("one whose line was lost would look the same") != std::string::npos);
  const analysis::Report hung = judge_log(
      log +
      "[rank0]:[E816 01:45:40.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective "
      "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=108, NumelOut=108, "
      "Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n");
  CHECK(hung.findings.front().verdict == analysis::Verdict::missing_call);
  CHECK(hung.findings.front().confidence != Confidence::open);
}
