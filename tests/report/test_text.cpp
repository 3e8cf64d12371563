#include "analysis/record/index.h"
#include "analysis/words/lead.h"
#include "report/lines.h"
#include "report/text.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_text {

using namespace rollcall;

TEST_CASE("the verdict's text begins with the sentence and ends with what to do next") {
  const std::string text =
      report::diff_text(test::missing_call_run(), test::missing_call_report(), {});
  CHECK(text ==
        "Rank 2 never called AllReduce seq 2 on world; 3 ranks wait in it.\n"
        "RC-MISSING-CALL, hang, certain\n"
        "\n"
        "culprit   rank 2 on node0, pid 102: world rank 2 seq 2 AllReduce\n"
        "waiting   ranks 0-1,3 (3)\n"
        "evidence  its last call is seq 1, returned  [node0.102.a.ring, op 2]\n"
        "\n"
        "rank   communicator  last common call                  first difference                  "
        "state\n"
        "0-1,3  world         seq 1 AllReduce 1024 float32 sum  seq 2 AllReduce 1024 float32 sum  "
        "waits inside for 42.0 s\n"
        "2      world         seq 1 AllReduce 1024 float32 sum  -                                 "
        "never called\n"
        "\n"
        "Next: see what rank 2 does now: py-spy dump --pid 102 on node0\n");
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE(
    "what follows from the finding is told without codes, and what is not listed is counted") {
  analysis::Report report = test::missing_call_report();
  report.findings[0].waits.push_back({.ranks = {4},
                                      .for_ranks = {0},
                                      .call = "AllReduce",
                                      .comm = {},
                                      .comm_name = "",
                                      .seq = {},
                                      .text = "rank 4 waits in AllReduce for rank 0"});
  report.findings[0].waits_left_out = 1;
  const std::string text = report::diff_text(test::missing_call_run(), report, {});
  INFO(text);
  CHECK(text.find("What follows from it\n"
                  "  rank 4 waits in AllReduce for rank 0\n"
                  "  1 more call waits\n") != std::string::npos);
}

TEST_CASE("a verdict on a dry run whose kernels did nothing says that values are stale") {
  trace::Run run = test::missing_call_run();
  analysis::Report report = test::missing_call_report();
  CHECK(report::diff_text(run, report, {}).find("Dry run") == std::string::npos);
  run.processes[1].meta["not_emulated.kernels"] = "1";
  CHECK(report::diff_text(run, report, {}).find("Dry run: kernels do nothing on emulated GPUs.") !=
        std::string::npos);
  // Equal calls are equal, whatever decided about them.
  report.findings[0].verdict = analysis::Verdict::in_lockstep;
  CHECK(report::diff_text(run, report, {}).find("Dry run") == std::string::npos);
}

TEST_CASE("nobody is said to wait where a defect hangs nothing") {
  analysis::Report report = test::missing_call_report();
  report.findings.front().verdict = analysis::Verdict::redop_mismatch;
  report.findings.front().severity = analysis::Severity::corruption;
  const std::string text = report::diff_text(test::missing_call_run(), report, {});
  CHECK(text.find("\naffected  ranks 0-1,3 (3)\n") != std::string::npos);
  CHECK(text.find("waiting") == std::string::npos);
}

TEST_CASE("colours appear only where asked for") {
  report::TextOptions options;
  options.colour = true;
  const std::string text =
      report::diff_text(test::missing_call_run(), test::missing_call_report(), options);
  CHECK(text.find("\x1b[1;31mRC-MISSING-CALL") != std::string::npos);
}

TEST_CASE("the context shows each group of ranks its own calls around the difference") {
  report::TextOptions options;
  options.context = 1;
  const std::string text =
      report::diff_text(test::missing_call_run(), test::missing_call_report(), options);
  CHECK(text.find("ranks 0-1,3 on world\n"
                  "    seq 1        AllReduce 1024 float32 sum\n"
                  "  > seq 2        AllReduce 1024 float32 sum  (inside)\n"
                  "    seq 3        -\n"
                  "rank 2 on world\n"
                  "    seq 1        AllReduce 1024 float32 sum\n"
                  "  > seq 2        -\n"
                  "    seq 3        -\n") != std::string::npos);
}

TEST_CASE("a call whose record is gone is not shown as never called") {
  trace::Run run = test::missing_call_run();
  run.processes[0].ops.erase(run.processes[0].ops.begin() + 1);
  report::TextOptions options;
  options.context = 1;
  const std::string text = report::diff_text(run, test::missing_call_report(), options);
  CHECK(text.find("seq 1        (no longer on file)") != std::string::npos);
}

TEST_CASE("a culprit that left no file has no number of a process") {
  analysis::Report report = test::missing_call_report();
  analysis::Culprit& culprit = report.findings[0].culprits[0];
  culprit.rank = -1;
  culprit.process = analysis::kNone;
  const std::string text = report::diff_text(test::missing_call_run(), report, {});
  CHECK(text.find("culprit   a process without a file") != std::string::npos);
  CHECK(text.find("4294967295") == std::string::npos);
}

TEST_CASE("what does not fit into a first sentence of 160 characters follows as details, once") {
  analysis::Report report = test::missing_call_report();
  const std::string sentence = "rank 2 called (what it was is told; elsewhere) AllReduce";
  const std::string long_clause(120, 'x');
  report.findings[0].summary = sentence + "; in time; " + long_clause + "; on file; late";
  report.findings[0].evidence = {{.file = "", .record = "", .text = "this is on file already"}};
  const std::string text = report::diff_text(test::missing_call_run(), report, {});
  INFO(text);
  CHECK(text.starts_with(sentence + "; in time\nRC-MISSING-CALL"));
  CHECK(text.find("\n\ndetail    " + long_clause + "\n          late\nculprit ") !=
        std::string::npos);
  CHECK(report::diff_sentence(report) == "RC-MISSING-CALL: " + sentence + "; in time");
  report.findings[0].summary = sentence + "; " + std::string(102, 'y');
  CHECK(report::diff_text(test::missing_call_run(), report, {})
            .starts_with(report.findings[0].summary + "\n"));
}

TEST_CASE("a first clause that is too long by itself ends where an explanation begins") {
  analysis::Report report = test::missing_call_report();
  const auto lead = [&](const std::string& summary) {
    report.findings[0].summary = summary;
    return analysis::lead_of(report.findings[0]);
  };
  const std::string call = "rank 4 (of 8: all) called " + std::string(80, 'x');
  const std::string why(90, 'y');
  CHECK(lead(call + ": " + why).sentence == call);
  CHECK(lead(call + ": " + why).rest == std::vector{why});
  CHECK(lead(call + " where rank 6 called " + why + "; late").rest ==
        std::vector<std::string>{"where rank 6 called " + why, "late"});
  CHECK(lead(call + ", which rank 6 awaits, " + why).sentence == call);
  CHECK(lead(call + " (" + why + ")").rest == std::vector{"(" + why + ")"});
  // Nothing to end it at.
  CHECK(lead(call + " (is) " + why).rest.empty());
}

TEST_CASE("evidence beyond the first six is counted, and shown with --all") {
  analysis::Report report = test::missing_call_report();
  for (int at = 0; at < 9; ++at) report.findings[0].evidence.push_back({"", "", "more"});
  const trace::Run run = test::missing_call_run();
  CHECK(report::diff_text(run, report, {}).find("and 4 more (--all shows them)") !=
        std::string::npos);
  report::TextOptions all;
  all.all = true;
  const std::string text = report::diff_text(run, report, all);
  CHECK(text.find("(--all") == std::string::npos);
  CHECK(text.find("in step up to seq 1; first difference at seq 2") != std::string::npos);
}

TEST_CASE("the line of a communicator ends with what differs, however its ranks are scattered") {
  analysis::CommSummary comm;
  comm.nranks = 1024;
  comm.last_common_seq = 1;
  comm.first_difference_seq = 2;
  for (int32_t rank = 0; rank < 1024; rank += 2) comm.ranks.push_back(rank);
  const std::string line = report::comm_line(comm);
  CHECK(line ==
        "512 of 1024 on file: ranks 0,2,4,6,8,10,12,14 and 504 others; in step up to seq 1; "
        "first difference at seq 2");
  CHECK(report::comm_line(comm, SIZE_MAX).find(",1020,1022; in step") != std::string::npos);
  comm.ranks = {0, 1, 2, 3};
  CHECK(report::comm_line(comm).find("4 of 1024 on file: ranks 0-3; in step") == 0);
}

TEST_CASE("what is wrong with the files comes last and cannot drive the terminal") {
  trace::Run run = test::missing_call_run();
  run.issues.push_back({"run/x\x1b.ring", "is cut off", 3, false});
  const std::string text = report::diff_text(run, test::missing_call_report(), {});
  const std::string tail = "\nAbout the files\n  x?.ring: is cut off\n";
  REQUIRE(text.size() > tail.size());
  CHECK(text.substr(text.size() - tail.size()) == tail);
}

TEST_CASE("what is said of several files alike is said once, with all of them under --all") {
  trace::Run run = test::missing_call_run();
  for (const char* file : {"a.log", "b.log", "c.log"}) {
    run.issues.push_back({file, "has no sizes", 0, false});
  }
  run.issues.push_back({"b.log", "is cut off", 0, false});
  const std::string text = report::diff_text(run, test::missing_call_report(), {});
  const std::string tail =
      "\nAbout the files\n  a.log and 2 more: has no sizes\n  b.log: is cut off\n";
  REQUIRE(text.size() > tail.size());
  CHECK(text.substr(text.size() - tail.size()) == tail);
  report::TextOptions all;
  all.all = true;
  const std::string whole = report::diff_text(run, test::missing_call_report(), all);
  CHECK(whole.find("  c.log: has no sizes\n") != std::string::npos);
}

TEST_CASE("a report without findings says that there is nothing to compare") {
  const std::string text = report::diff_text({}, {}, {});
  CHECK(text == "There is nothing to compare: no usable record was found.\n");
}

}  // namespace test_text
