// What is said of a job beside its verdict: versions, settings, communicators left behind.
#include <algorithm>
#include <vector>

#include "settings/variable_table.h"
#include "settings/variables_read.h"
#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace risk_test {

using settings::judge_variable;
using settings::kNewestNccl;
using settings::kOldestNccl;
using settings::must_agree;
using settings::Unread;

constexpr int kRanks = 4;

Outcome make_clean() {
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    program.comms[0].ranks.push_back(r);
    for (int i = 0; i < 3; ++i) program.ranks[r].push_back(call(OpKind::AllReduce, 100));
  }
  return execute(program);
}

void set_everywhere(Outcome& outcome, const std::string& key, const std::string& value) {
  for (trace::Process& process : outcome.run.processes) process.meta[key] = value;
}

// The job is in lockstep, and this is the only thing that is said beside.
Finding only_risk(const Outcome& outcome, Verdict verdict) {
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.status == 4);
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[1].verdict == verdict);
  CHECK(report.findings[1].severity == Severity::risk);
  return report.findings[1];
}

std::vector<int32_t> ranks_of(const Finding& finding) {
  std::vector<int32_t> ranks;
  for (const Culprit& culprit : finding.culprits) ranks.push_back(culprit.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

void check_clean(const Outcome& outcome) {
  const Report report = analyse(outcome.run);
  INFO(text_of(report));
  CHECK(report.findings.size() == 1);
  CHECK(report.status == 0);
}

TEST_CASE("a version that differs is named with both groups of ranks") {
  for (const std::string key : {"nccl_version", "cuda_driver_version", "cuda_runtime_version"}) {
    Outcome outcome = make_clean();
    set_everywhere(outcome, key, "22809");
    outcome.run.processes[3].meta[key] = "22707";
    const Finding finding = only_risk(outcome, Verdict::version_mismatch);
    CHECK(ranks_of(finding) == std::vector<int32_t>{3});
    CHECK(finding.summary == key + " differs between ranks: 22707 on rank 3, 22809 on ranks 0-2");
  }
}

TEST_CASE("a rank that does not say its version differs from nobody") {
  Outcome outcome = make_clean();
  outcome.run.processes[3].meta["nccl_version"] = "22809";
  check_clean(outcome);
}

TEST_CASE("a setting that must agree is named with the values by ranks") {
  Outcome outcome = make_clean();
  set_everywhere(outcome, "nccl_version", "22809");
  outcome.run.processes[1].meta["env.NCCL_ALGO"] = "Ring";
  const Finding finding = only_risk(outcome, Verdict::env_mismatch);
  CHECK(ranks_of(finding) == std::vector<int32_t>{1});
  CHECK(finding.summary ==
        "NCCL_ALGO differs between ranks: not set on ranks 0,2-3, Ring on rank 1");
}

TEST_CASE("settings that may differ by host are no finding") {
  Outcome outcome = make_clean();
  for (size_t r = 0; r < kRanks; ++r) {
    outcome.run.processes[r].meta["env.NCCL_IB_HCA"] = r < 2 ? "mlx5_0" : "mlx5_1";
    outcome.run.processes[r].meta["env.NCCL_SOCKET_IFNAME"] = r < 2 ? "eth0" : "eth1";
  }
  check_clean(outcome);
}

TEST_CASE("a variable that no NCCL reads is named, with the name that is meant") {
  Outcome outcome = make_clean();
  set_everywhere(outcome, "nccl_version", "22809");
  outcome.run.processes[2].meta["env.NCCL_IB_TIMOUT"] = "22";
  const Finding finding = only_risk(outcome, Verdict::env_mismatch);
  CHECK(finding.summary == "NCCL_IB_TIMOUT is set on rank 2, and NCCL 2.28.9 does not read it");
  CHECK(finding.next == "is NCCL_IB_TIMEOUT meant?");
  CHECK(ranks_of(finding) == std::vector<int32_t>{2});
  REQUIRE(finding.evidence.size() == 1);
  CHECK(finding.evidence[0].text == "NCCL_IB_TIMOUT=22");
}

TEST_CASE("a variable of another release is named with the release that reads it") {
  Outcome outcome = make_clean();
  set_everywhere(outcome, "nccl_version", "22809");
  set_everywhere(outcome, "env.NCCL_MULTI_RANK_GPU_ENABLE", "1");
  CHECK(only_risk(outcome, Verdict::env_mismatch).summary ==
        "NCCL_MULTI_RANK_GPU_ENABLE is set on ranks 0-3, and NCCL 2.28.9 does not read it: NCCL "
        "2.30.3 is the first that does");
  set_everywhere(outcome, "nccl_version", "23003");
  check_clean(outcome);
}

TEST_CASE("variables that NCCL or somebody else reads are no finding") {
  Outcome outcome = make_clean();
  set_everywhere(outcome, "nccl_version", "22809");
  for (const char* name :
       {"NCCL_DEBUG", "NCCL_PROFILER_PLUGIN", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA",
        "NCCL_ASYNC_ERROR_HANDLING", "NCCL_VERSION", "NCCL_OFI_PROVIDER", "NCCL_FASTRAK_NUM_FLOWS",
        "NCCL_PROFILE_EVENT_MASK", "NCCL_TESTS_DEVICE", "NCCL_HOME"}) {
    set_everywhere(outcome, std::string("env.") + name, "1");
  }
  check_clean(outcome);
}

TEST_CASE("what is known of NCCL's names depends on its release") {
  CHECK(judge_variable("NCCL_DEBUG", 0).why.empty());
  CHECK(judge_variable("NCCL_DEBUG", kNewestNccl + 100).why.empty());
  CHECK(judge_variable("NCCL_DEBUG", 20805).why.empty());
  CHECK(judge_variable("NCCL_PROFILER_PLUGIN", 22304).why.empty());
  CHECK_FALSE(judge_variable("NCCL_PROFILER_PLUGIN", 22203).why.empty());
  const Unread gone = judge_variable("NCCL_AGG_CHANNEL_SIZE", 22005);
  CHECK(gone.why == "NCCL 2.20.5 does not read it: NCCL 2.19.3 was the last that did");
  CHECK(gone.is_certain);
  // A release behind the table may read names that it does not hold; a slip of the pen is likely.
  CHECK(judge_variable("NCCL_SOMETHING_NEW", kNewestNccl + 100).why.empty());
  CHECK_FALSE(judge_variable("NCCL_SOMETHING_NEW", kNewestNccl).why.empty());
  const Unread slip = judge_variable("NCCL_SOCKET_IFNAMES", kNewestNccl + 100);
  CHECK(slip.next == "NCCL_SOCKET_IFNAME");
  CHECK_FALSE(slip.is_certain);
  // Far from every name there is nothing to suggest.
  CHECK(judge_variable("NCCL_LAUNCH_TIMEOUT", 22809).next.empty());
}

TEST_CASE("the table of variables is in order, and its releases are") {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name, uint32_t first, uint32_t last) {
    CHECK(first <= last);
    CHECK(first >= kOldestNccl);
    CHECK(last <= kNewestNccl);
    names.push_back(name);
  };
#define ROLLCALL_X(name, first, last, must_agree) add(#name, first, last);
  ROLLCALL_NCCL_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(must_agree("NCCL_PROTO"));
  CHECK_FALSE(must_agree("NCCL_DEBUG"));
}

TEST_CASE("a communicator that one rank keeps while the others destroy it is a leak of that rank") {
  Outcome outcome = make_clean();
  outcome.run.processes[2].comms[0].state = CommState::ready;
  const Finding finding = only_risk(outcome, Verdict::comm_leak);
  CHECK(ranks_of(finding) == std::vector<int32_t>{2});
  CHECK(finding.summary == "rank 2 ended without destroying world, which 3 other ranks destroyed");
}

TEST_CASE("a job that ends without destroying anything leaks nothing") {
  Outcome outcome = make_clean();
  for (trace::Process& process : outcome.run.processes) process.comms[0].state = CommState::ready;
  check_clean(outcome);
}

TEST_CASE("a communicator used after its end is named with the rank") {
  Outcome outcome = make_clean();
  trace::Event used{.kind = EventKind::UseAfterDestroy, .called_ns = 1, .text = ""};
  used.returned_ns = 1;
  outcome.run.processes[1].events.push_back(used);
  const Finding finding = only_risk(outcome, Verdict::comm_leak);
  CHECK(ranks_of(finding) == std::vector<int32_t>{1});
  CHECK(finding.summary == "rank 1 used a communicator after its end");
}

}  // namespace risk_test
}  // namespace rollcall::analysis
