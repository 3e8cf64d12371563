// The oldest calls are not at hand: what the digests of the history tell of them.
#include "analysis/record/unread_prefix.h"

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace unread_prefix_test {

constexpr int kOdd = 2;
constexpr uint64_t kCalls = 600;
constexpr uint64_t kHeldFrom = 200;  // seq
constexpr uint64_t kDigest = 0xd1;

// Ranks that called alike and exited, and of which the oldest calls are on no file.
trace::Run make_bounded_run(int ranks) {
  Program program;
  program.comms.emplace_back();
  for (int r = 0; r < ranks; ++r) {
    program.comms[0].ranks.push_back(r);
    program.ranks.emplace_back(kCalls, call(OpKind::AllReduce, 8));
  }
  trace::Run run = execute(program).run;
  for (trace::Process& process : run.processes) {
    process.ops.erase(process.ops.begin(), process.ops.begin() + kHeldFrom);
    process.lost = kHeldFrom;
  }
  return run;
}

void set_digests(trace::Run& run, uint64_t seq, int odd = -1) {
  for (int r = 0; r < static_cast<int>(run.processes.size()); ++r) {
    run.processes[static_cast<size_t>(r)].comms[0].digests = {
        {128, r == odd ? kDigest + 1 : kDigest}, {seq, r == odd ? kDigest + 3 : kDigest + 2}};
  }
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("calls that are not at hand are compared by their digests") {
  trace::Run run = make_bounded_run(4);
  set_digests(run, 512);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).confidence == Confidence::certain);
  CHECK_FALSE(says(lead(report).summary, "older calls"));
}

TEST_CASE(
    "whose digest differs from that of most has called otherwise, and nothing is in lockstep") {
  trace::Run run = make_bounded_run(4);
  set_digests(run, 512, kOdd);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(report.status == 3);
  CHECK(check_blames(report, Verdict::insufficient, kOdd).comm.has_value());
  CHECK(says(lead(report).summary, "in front of seq 200:"));
}

TEST_CASE("of two ranks with different digests both are named") {
  trace::Run run = make_bounded_run(2);
  set_digests(run, 512, 1);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::insufficient);
  CHECK(lead(report).culprits.size() == 2);
  CHECK(says(lead(report).summary, "ranks 0-1 did not all make the same calls"));
}

TEST_CASE("without a digest of calls that are not at hand the rest is in lockstep, and no more") {
  trace::Run run = make_bounded_run(4);
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(says(lead(report).summary, "from seq 200 of world on; older calls are on no file"));
}

TEST_CASE("a digest in front of the calls at hand leaves those between the two open") {
  trace::Run run = make_bounded_run(4);
  set_digests(run, 192);
  const Report report = analyse(run);
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("digests of different positions tell nothing of each other") {
  trace::Run run = make_bounded_run(2);
  run.processes[0].comms[0].digests = {{384, kDigest}};
  run.processes[1].comms[0].digests = {{512, kDigest}};
  const Report report = analyse(run);
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(lead(report).confidence == Confidence::likely);
}

TEST_CASE("calls that are missing between others are not at hand") {
  trace::Run run = make_bounded_run(2);
  std::vector<trace::Op>& ops = run.processes[1].ops;
  ops.erase(ops.begin() + 100);  // seq 300
  CHECK(says(lead(analyse(run)).summary, "from seq 301 of world on"));
  set_digests(run, 512);
  CHECK(lead(analyse(run)).confidence == Confidence::certain);
}

TEST_CASE("where all calls are at hand no digest is asked") {
  Program program;
  program.comms.push_back({.ranks = {0, 1}});
  program.ranks.assign(2, Steps(300, call(OpKind::AllReduce, 8)));
  trace::Run run = execute(program).run;
  set_digests(run, 256, 1);
  const Index index(run);
  const UnreadPrefixes prefixes = unread_prefixes(index);
  CHECK(prefixes.parted.empty());
  CHECK(prefixes.open.empty());
}

TEST_CASE("calls on a communicator without an entry are told as not compared") {
  Program program;
  program.comms.push_back({.ranks = {0, 1}});
  program.ranks.assign(2, Steps(3, call(OpKind::AllReduce, 8)));
  trace::Run run = execute(program).run;
  run.processes[1].statistics["comm_unknown"] = 50;
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(report.status == 3);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(says(text_of(report), "50 calls were made on communicators that are not on file"));
}

}  // namespace unread_prefix_test
}  // namespace rollcall::analysis
