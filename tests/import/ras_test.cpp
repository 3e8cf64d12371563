// Reports of NCCL RAS as text, in the sentences of NCCL 2.24 and later.
#include <fstream>
#include <sstream>
#include <string>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/import/damage.h"
#include "tests/import/judge_log.h"
#include "trace/import/importer.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;

namespace {

std::string head(const std::string& row) {
  return "NCCL version 2.26.2 compiled with CUDA 12.6\n\nJob summary\n===========\n\n"
         "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n" +
         row + "\n\n";
}

const char* const kMismatch =
    "    0         1         1         4         4         4   RUNNING  MISMATCH";

analysis::Report judge(const std::string& text) {
  Run run;
  import_bytes("ras.txt", {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
               run.processes, run.issues);
  return analysis::analyse(run);
}

std::vector<int32_t> culprits(const analysis::Report& report) {
  std::vector<int32_t> ranks;
  for (const auto& culprit : report.findings.front().culprits) ranks.push_back(culprit.rank);
  return ranks;
}

}  // namespace

TEST_CASE("ranks that RAS lists below a number of calls are ahead, not gone") {
  const analysis::Report report =
      judge(head(kMismatch) +
            "Warnings\n========\n\n#0-0 (fa93daea854b060b) MISMATCH\n"
            "  Communicator ranks have different AllGather operation counts\n"
            "  2 ranks have launched up to operation 640\n"
            "  2 ranks have launched up to operation 641\n"
            "  Rank 2 -- GPU 2 managed by process 12 on node n\n"
            "  Rank 3 -- GPU 3 managed by process 13 on node n\n");
  CHECK(report.findings.front().verdict == Verdict::missing_call);
  CHECK(report.findings.front().confidence == Confidence::open);
  CHECK(culprits(report) == std::vector<int32_t>{0, 1});
}

TEST_CASE("ranks that RAS lists as having launched nothing are behind, not gone") {
  const analysis::Report report =
      judge(head(kMismatch) +
            "Warnings\n========\n\n#0-0 (fa93daea854b060b) MISMATCH\n"
            "  Communicator ranks have different AllReduce operation counts\n"
            "  3 ranks have launched up to operation 5\n"
            "  Rank 1 has not launched any operations -- GPU 1 managed by process 11 on node n\n");
  CHECK(report.findings.front().verdict == Verdict::missing_call);
  CHECK(culprits(report) == std::vector<int32_t>{1});
}

TEST_CASE("ranks that RAS lists below a status or an error are not gone") {
  for (const char* claim :
       {"  2 ranks have status INIT\n", "  2 ranks reported whatever it is\n"}) {
    const analysis::Report report =
        judge(head(kMismatch) +
              "Warnings\n========\n\n#0-0 (fa93daea854b060b) MISMATCH\n"
              "  Communicator ranks have different status\n  2 ranks have status RUNNING\n" +
              claim + "  Rank 2 -- GPU 2 managed by process 12 on node n\n" +
              "  Rank 3 -- GPU 3 managed by process 13 on node n\n");
    CHECK(report.findings.front().verdict == Verdict::insufficient);
    CHECK(report.status == 3);
  }
}

TEST_CASE("an error that RAS reports of a rank is its asynchronous error") {
  const analysis::Report report =
      judge(head(kMismatch) +
            "Errors\n======\n\n#0-0 (fa93daea854b060b) ERROR\n  Asynchronous error on 1 rank\n"
            "  Rank 2 reported remote process error -- GPU 2 managed by process 12 on node n\n");
  CHECK(report.findings.front().verdict == Verdict::async_error);
  CHECK(culprits(report) == std::vector<int32_t>{2});
}

TEST_CASE("a rank that RAS of NCCL 2.24 names missing by its number is the one that is gone") {
  const char* const row =
      "    0         1         1       3-4         4         4   RUNNING  INCOMPLETE";
  const analysis::Report report =
      judge(head(row) +
            "Errors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n"
            "  Process 12 on node n managing GPU 2\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n"
            "  Missing communicator data from 1 rank\n  The missing rank: 2\n");
  CHECK(report.findings.front().verdict == Verdict::rank_dead);
  CHECK(culprits(report) == std::vector<int32_t>{2});
  CHECK(report.findings.front().culprits.front().pid == 12);
}

TEST_CASE("a process that RAS lists as dead is named where no communicator tells its rank") {
  const char* const row =
      "    0         1         1       3-4         4         4   RUNNING  INCOMPLETE";
  const analysis::Report report =
      judge(head(row) +
            "Errors\n======\n\nDEAD\n  1 job process is considered dead\n"
            "  Process 12 on node n managing GPU 2\n");
  CHECK(report.findings.front().verdict == Verdict::rank_dead);
  REQUIRE(report.findings.front().culprits.size() == 1);
  CHECK(report.findings.front().culprits.front().pid == 12);
  CHECK(report.status == 1);
}

TEST_CASE("numbers of calls that RAS gives without the ranks accuse nobody") {
  const analysis::Report report = judge(
      head(kMismatch) +
      "Warnings\n========\n\n#0-0 (fa93daea854b060b) MISMATCH\n"
      "  Communicator ranks have different AllReduce operation counts\n"
      "  2 ranks have launched up to operation 5\n  2 ranks have launched up to operation 6\n");
  CHECK(report.findings.front().verdict == Verdict::insufficient);
  CHECK(report.status == 3);
}

TEST_CASE("a report of RAS without communicators is neither lockstep nor a finding") {
  const analysis::Report report = judge(head("") + "No communicator data collected!\n");
  CHECK(report.findings.front().verdict == Verdict::insufficient);
  CHECK(report.status != 0);
}

TEST_CASE(
    "what grep, kubectl and others put in front of each line of a report of ncclras is not of it") {
  constexpr const char* kPrefixes[] = {
      "logs/ras.txt:7:", "ras:7:", "7:",   "trainer-0  | ",         "node7: ",
      "trainer-0 main ", "0: ",    "[0] ", "[pod/trainer-0/main] ", "[1,0]<stdout>:",
      "ras.txt:"};
  for (const char* name : {"status.json", "status.txt", "status_verbose.txt"}) {
    std::stringstream sample;
    sample << std::ifstream(std::string(ROLLCALL_SAMPLES) + "/ras/missing/" + name).rdbuf();
    const analysis::Report bare = judge_log(sample.str());
    REQUIRE(bare.findings.front().verdict == Verdict::missing_call);
    for (const char* prefix : kPrefixes) {
      std::string text;
      for (const std::string& line : lines_of(sample.str())) text += prefix + line;
      INFO(name << " behind " << prefix);
      const analysis::Report report = judge_log(text);
      CHECK(report.findings.front().summary == bare.findings.front().summary);
      CHECK(report.findings.front().verdict == Verdict::missing_call);
    }
  }
}

TEST_CASE("a report of ncclras as JSON is read in a text, below a prompt or a launcher's prefix") {
  std::stringstream sample;
  sample << std::ifstream(std::string(ROLLCALL_SAMPLES) + "/ras/clean/status.json").rdbuf();
  const std::string json = sample.str();
  REQUIRE(json.find("\"communicators_count\"") != std::string::npos);
  std::string prefixed;
  for (const std::string& line : lines_of(json)) prefixed += "[1,0]<stdout>:" + line;
  for (const std::string& text :
       {"step 1\n$ ncclras -f json\n" + json + "\n$ exit\n", "step 1\n" + prefixed}) {
    const Run run = read_log(text);
    CHECK(run.processes.size() == 4);
    CHECK(analysis::analyse(run).findings.front().verdict == Verdict::insufficient);
  }
  // Of one that was cut nothing is concluded.
  const Run cut = read_log("$ ncclras -f json\n" + json.substr(0, json.size() / 2));
  CHECK(cut.processes.empty());
  REQUIRE_FALSE(cut.issues.empty());
  CHECK(cut.issues.front().text.find("holds a report of ncclras as JSON without an end") == 0);
}
