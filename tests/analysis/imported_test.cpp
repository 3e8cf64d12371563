// What other recorders' files of known jobs must lead to, and above all: what they must not.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/analysis/steps.h"
#include "trace/loader.h"

namespace rollcall::analysis {
namespace imported_test {

std::string sample(const std::string& name) { return std::string(ROLLCALL_SAMPLES) + "/" + name; }

Report judge(const std::string& name) { return analyse(trace::load_run(sample(name))); }

struct Expected {
  const char* name;
  Verdict verdict;
  int32_t rank;
  uint64_t seq;
};

void check_lead(const Expected& expected) {
  const Report report = judge(expected.name);
  INFO(expected.name << "\n" << text_of(report));
  const Finding& lead = report.findings.front();
  CHECK(lead.verdict == expected.verdict);
  CHECK(report.status == 1);
  REQUIRE(lead.culprits.size() == 1);
  CHECK(lead.culprits[0].rank == expected.rank);
  CHECK(lead.culprits[0].seq == expected.seq);
}

TEST_CASE("healthy jobs of other recorders are in lockstep and nothing else") {
  for (const char* name :
       {"nccl_debug/clean", "flight_recorder/clean", "flight_recorder/clean_timing",
        "flight_recorder/clean_no_frames", "flight_recorder/old_v2_4", "flight_recorder/old_v2_7",
        "flight_recorder/long_memo", "flight_recorder/coalesced_batch",
        "flight_recorder/json_clean", "pytorch-2.15/nccl2-ok", "pytorch-2.15/legacy-ok"}) {
    const Report report = judge(name);
    INFO(name << "\n" << text_of(report));
    CHECK(report.findings.size() == 1);
    CHECK(report.findings[0].verdict == Verdict::in_lockstep);
    CHECK(report.status == 0);
  }
}

TEST_CASE("NCCL's log names the rank and the position that differ") {
  // Positions count the collectives of the communicator; a ring of sends and receives lies before.
  const Expected cases[] = {{"nccl_debug/count", Verdict::count_mismatch, 1, 6},
                            {"nccl_debug/dtype", Verdict::dtype_mismatch, 3, 6},
                            {"nccl_debug/redop", Verdict::redop_mismatch, 1, 6},
                            {"nccl_debug/missing", Verdict::missing_call, 2, 6},
                            {"nccl_debug/timestamps", Verdict::missing_call, 2, 6},
                            {"nccl_debug/interleaved", Verdict::missing_call, 2, 6},
                            {"nccl_debug/coll", Verdict::op_mismatch, 2, 6},
                            {"nccl_debug/order", Verdict::order_mismatch, 1, 6},
                            {"nccl_debug/root", Verdict::root_mismatch, 3, 12}};
  for (const Expected& expected : cases) check_lead(expected);
}

TEST_CASE("a send without a receive in NCCL's log is found by counting") {
  const Report report = judge("nccl_debug/send_without_recv");
  INFO(text_of(report));
  const Finding& lead = report.findings.front();
  CHECK(lead.verdict == Verdict::p2p_unmatched);
  CHECK(report.findings.size() == 1);
  REQUIRE(lead.culprits.size() == 1);
  CHECK(lead.culprits[0].rank == 0);
  CHECK(lead.culprits[0].peer == 1);
}

TEST_CASE("Flight Recorder dumps name the rank and the position that differ") {
  const Expected cases[] = {{"flight_recorder/missing_rank2_stuck", Verdict::missing_call, 2, 8},
                            {"flight_recorder/json_missing_rank2", Verdict::missing_call, 2, 8},
                            {"flight_recorder/size_mismatch_rank1", Verdict::count_mismatch, 1, 8},
                            {"flight_recorder/dtype_mismatch_rank3", Verdict::dtype_mismatch, 3, 8},
                            {"flight_recorder/type_mismatch_rank2", Verdict::op_mismatch, 2, 8}};
  for (const Expected& expected : cases) check_lead(expected);
}

TEST_CASE("states that contradict a missing call leave it open") {
  for (const char* name : {"pytorch-2.15/nccl2-missing", "pytorch-2.15/legacy-missing"}) {
    check_lead({name, Verdict::missing_call, 1, 12});
    const Finding lead = judge(name).findings.front();
    CHECK(lead.confidence == Confidence::open);
    CHECK(lead.summary.find("contradict") != std::string::npos);
  }
}

TEST_CASE("a rank whose dump is absent is unknown, not silent") {
  const Report report = judge("flight_recorder/absent_dump_rank2");
  INFO(text_of(report));
  for (const Finding& finding : report.findings) CHECK_FALSE(is_defect(finding));
}

TEST_CASE("equal calls that were not complete when the dumps were written are no lockstep") {
  const Report report = judge("flight_recorder/ring_overwritten");
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].verdict == Verdict::insufficient);
  CHECK(report.findings[0].culprits.empty());
  CHECK(report.findings[0].summary.find("ranks 0-3 were not complete") != std::string::npos);
  CHECK(report.status == 3);
}

TEST_CASE("a dump without entries tells by its position that its rank is behind") {
  for (const char* name : {"flight_recorder/only_active", "flight_recorder/json_python_indent4",
                           "flight_recorder/repickled_python"}) {
    check_lead({name, Verdict::missing_call, 2, 8});
  }
}

TEST_CASE("dumps that number all groups with one counter are not compared") {
  const Report report = judge("flight_recorder/torchcomms_hook");
  INFO(text_of(report));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].verdict == Verdict::insufficient);
}

TEST_CASE("NCCL Inspector's files name what differs in size, and what is shifted") {
  const Expected cases[] = {{"inspector/count", Verdict::count_mismatch, 1, 6},
                            {"inspector/missing", Verdict::missing_call, 2, 6},
                            // One call replaced by another: left out of one function's calls.
                            {"inspector/coll", Verdict::missing_call, 2, 6}};
  for (const Expected& expected : cases) check_lead(expected);
}

TEST_CASE("what NCCL Inspector lost, or cannot see, is no finding") {
  for (const char* name :
       {"inspector/clean", "inspector/broadcast_visible", "inspector/order",
        "inspector/clean_default_timing", "inspector/ring_overflow", "inspector/tail_lost"}) {
    const Report report = judge(name);
    INFO(name << "\n" << text_of(report));
    CHECK(report.findings.size() == 1);
    CHECK(report.findings[0].verdict == Verdict::in_lockstep);
    CHECK(report.findings[0].confidence != Confidence::certain);
    CHECK(report.findings[0].summary.find("but not every call is, nor their order") !=
          std::string::npos);
  }
}

TEST_CASE("a rank without a file of NCCL Inspector is unknown, not silent") {
  const Report report = judge("inspector/mkdir_race");
  INFO(text_of(report));
  for (const Finding& finding : report.findings) CHECK_FALSE(is_defect(finding));
}

// A report lies beside others of the same moment: each is judged by itself.
Report judge_file(const std::string& name) { return analyse(trace::load_run(sample(name))); }

TEST_CASE("RAS's counts name the rank that is behind") {
  for (const char* name : {"ras/missing/status.json", "ras/missing/status.txt",
                           "ras/missing/status_verbose.txt", "ras/missing"}) {
    const Report report = judge_file(name);
    INFO(name << "\n" << text_of(report));
    const Finding& lead = report.findings.front();
    CHECK(lead.verdict == Verdict::missing_call);
    REQUIRE(lead.culprits.size() == 1);
    CHECK(lead.culprits[0].rank == 2);
    CHECK(lead.culprits[0].op == "AllReduce");
    // The ranks were not asked at one moment.
    CHECK(lead.confidence == Confidence::open);
  }
}

TEST_CASE("RAS's counts show a call in the place of another") {
  for (const char* name : {"ras/coll/status.json", "ras/coll/status.txt"}) {
    const Report report = judge_file(name);
    INFO(name << "\n" << text_of(report));
    const Finding& lead = report.findings.front();
    CHECK(lead.verdict == Verdict::op_mismatch);
    REQUIRE(lead.culprits.size() == 1);
    CHECK(lead.culprits[0].rank == 2);
    CHECK(lead.culprits[0].op == "ReduceScatter");
  }
}

TEST_CASE("a process that RAS cannot reach is named dead") {
  for (const char* name : {"ras/killed/status_early.json", "ras/killed/status_late.json",
                           "ras/killed/status_early.txt", "ras/killed/status_late.txt"}) {
    const Report report = judge_file(name);
    INFO(name << "\n" << text_of(report));
    const Finding& lead = report.findings.front();
    CHECK(lead.verdict == Verdict::rank_dead);
    REQUIRE(lead.culprits.size() == 1);
    CHECK(lead.culprits[0].rank == 2);
    CHECK(lead.confidence != Confidence::certain);
    // No report says when it died, nor what it called before.
    CHECK(lead.summary.find(" RAS") != std::string::npos);
    CHECK(lead.summary.find("before") == std::string::npos);
    CHECK(lead.summary.find("it has called no") == std::string::npos);
  }
}

TEST_CASE("a report of RAS without differences is neither a finding nor an all-clear") {
  for (const char* name : {"ras/clean/status.json", "ras/clean/status.txt", "ras/clean"}) {
    const Report report = judge_file(name);
    INFO(name << "\n" << text_of(report));
    CHECK(report.findings.size() == 1);
    CHECK(report.findings[0].verdict == Verdict::insufficient);
    CHECK(report.findings[0].summary.find("does not tell whether these calls ended") !=
          std::string::npos);
    CHECK(report.status == 3);
  }
}

TEST_CASE("every importer says what its source lacks") {
  constexpr std::pair<const char*, const char*> kLacks[] = {
      {"inspector/clean", "no order between different functions"},
      {"ras/clean/status.json", "without sizes, order"},
      {"ras/clean/status.txt", "without sizes, order"},
      {"nccl_debug/clean", "nor whether they returned or finished"},
      {"flight_recorder/clean", "no reductions, roots and streams"},
      {"flight_recorder/json_clean", "no reductions, roots and streams"}};
  for (const auto& [name, words] : kLacks) {
    const trace::Run run = trace::load_run(sample(name));
    INFO(name);
    REQUIRE_FALSE(run.issues.empty());
    CHECK(run.issues.front().text.find(words) != std::string::npos);
  }
}

TEST_CASE("of two recorders of one job only the one that knows states is compared") {
  const trace::Run run = trace::load_run(sample("pytorch-2.15/nccl2-ok"));
  CHECK(run.processes.size() == 8);
  for (const trace::Process& process : run.processes) {
    CHECK(process.superseded == (process.recorder == "nccl_log"));
  }
  CHECK_FALSE(run.issues.empty());
}

TEST_CASE("one dump is a run of one process, and a file of neither recorder is none") {
  const trace::Run one = trace::load_run(sample("flight_recorder/clean/comm_lib_trace_rank_0"));
  CHECK(one.processes.size() == 1);
  CHECK_FALSE(one.live);
  const trace::Run none = trace::load_run(__FILE__);
  CHECK(none.processes.empty());
}

// The sample with the dump of rank 2 cut down to `bytes`.
Report judge_with_cut_dump(size_t bytes) {
  namespace fs = std::filesystem;
  const fs::path from = fs::path(ROLLCALL_SAMPLES) / "flight_recorder" / "absent_dump_rank2";
  const fs::path to = fs::temp_directory_path() / ("rollcall-cut-" + std::to_string(::getpid()));
  fs::remove_all(to);
  fs::copy(from, to);
  std::string name;
  std::string dump;
  for (const auto& entry : fs::directory_iterator(from)) {
    name = entry.path().filename();
    std::ifstream file(entry.path(), std::ios::binary);
    dump.assign(std::istreambuf_iterator<char>(file), {});
  }
  const size_t digit = name.find_last_of("0123456789");
  std::ofstream(to / name.replace(digit, 1, "2"), std::ios::binary) << dump.substr(0, bytes);
  const trace::Run run = trace::load_run(to.string());
  fs::remove_all(to);
  return analyse(run);
}

TEST_CASE("the dump of a rank that was cut off at once is named, and not called absent") {
  for (const size_t bytes : {size_t{0}, size_t{40}}) {
    const Report report = judge_with_cut_dump(bytes);
    INFO(bytes << " bytes: " << text_of(report));
    const Finding& lead = report.findings.front();
    CHECK_FALSE(is_defect(lead));
    CHECK(lead.summary.find("the dump of rank 2 was cut off while it was written, or the rank was "
                            "killed") != std::string::npos);
    const auto is_of_it = [](const Evidence& evidence) {
      return evidence.text.starts_with("the dump of rank 2 ");
    };
    CHECK(std::count_if(lead.evidence.begin(), lead.evidence.end(), is_of_it) == 1);
  }
  const Report absent = judge("flight_recorder/absent_dump_rank2");
  for (const Evidence& evidence : absent.findings.front().evidence) {
    CHECK_FALSE(evidence.text.starts_with("the dump of rank 2 "));
  }
}

}  // namespace imported_test
}  // namespace rollcall::analysis
