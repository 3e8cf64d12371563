// Words of a job's log that many tests begin with, and what is said of a log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/import/judge_log.h"

namespace rollcall::trace {

// As PyTorch 2.4 writes it, of a group that no line names.
inline std::string gave_up(int rank, const std::string& front = "") {
  const std::string name = std::to_string(rank);
  return front + "[rank" + name + "]:[E816 01:45:40.1 ProcessGroupNCCL.cpp:607] [Rank " + name +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, "
         "NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600026 milliseconds before timing "
         "out.\n";
}

inline std::string three_gave_up() { return gave_up(0) + gave_up(1) + gave_up(3); }

// What shows that the log goes on behind its time-outs: who is silent there had time to speak.
inline const std::string kGoesOn =
    "Exception raised from checkTimeout at ProcessGroupNCCL.cpp:609 (most recent call first):\n";

struct Judged {
  analysis::Verdict verdict;
  analysis::Confidence confidence;
  std::vector<int32_t> culprits;
  std::string summary;
};

inline Judged judged(const std::string& log) {
  const analysis::Report report = judge_log(log);
  const analysis::Finding& lead = report.findings.front();
  Judged result{lead.verdict, lead.confidence, {}, lead.summary};
  for (const auto& culprit : lead.culprits) result.culprits.push_back(culprit.rank);
  return result;
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::string summary_of_torchrun(const std::string& failures, int rank, int code) {
  return "E1026 03:51:33.2 99 torch/distributed/elastic/multiprocessing/api.py:882] failed "
         "(exitcode: " +
         std::to_string(code) +
         ") local_rank: 1 (pid: 4711) of binary: python3\n"
         "============================================================\n"
         "Failures:\n" +
         failures +
         "------------------------------------------------------------\n"
         "Root Cause (first observed failure):\n[0]:\n  time      : 2025-10-26_03:51:31\n"
         "  host      : node1\n  rank      : " +
         std::to_string(rank) + " (local_rank: 1)\n  exitcode  : " + std::to_string(code) +
         " (pid: 4711)\n";
}

}  // namespace rollcall::trace
