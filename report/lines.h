// What a report says of a finding, line by line: the words that the text for a terminal and the
// page share. Names in them are made printable, for any reader.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::report {

// "rank 2 on node0, pid 102: world rank 2 seq 2 AllReduce"
std::string culprit_line(const analysis::Culprit& culprit);
// "its last call is seq 1, returned  [node0.102.a.ring, op 2]"
std::string evidence_line(const analysis::Evidence& evidence);
// "RC-MISSING-CALL, hang, certain"
std::string code_line(const analysis::Finding& finding);
// What the victims of a finding are: "waiting", or "affected" of a job that went past what it
// should not have.
std::string_view word_for_victims(const analysis::Finding& finding);
// "3 more calls wait"
std::string waits_left_out_line(uint32_t count);
// "4 of 4 on file: ranks 0-3; in step up to seq 1; first difference at seq 2"; of ranks that do
// not follow one another only the first.
std::string comm_line(const analysis::CommSummary& comm, size_t ranges_max = 8);

// Said where nothing can be.
inline constexpr std::string_view kNothingToCompare =
    "There is nothing to compare: no usable record was found.";
// Said where the values of the job are made up.
inline constexpr std::string_view kDryRun =
    "Dry run: kernels do nothing on emulated GPUs. A branch that depends on a value computed there"
    "\nmay go another way than on real ones.";

// Rows of the table of ranks that say the same are one row. They keep the order of their first
// rank, whose time stands for all: ranks that are otherwise alike differ by microseconds.
struct GroupedRow {
  std::vector<int32_t> ranks;  // labels of process_labels()
  std::string comm_name;
  std::string last_common;
  std::string here;
  std::string state;  // with the time: "waits inside for 42.0 s"
};
// What stands above the columns.
inline constexpr const char* kRankColumns[] = {"rank", "communicator", "last common call",
                                               "first difference", "state"};
std::vector<GroupedRow> grouped_rows(const std::vector<analysis::RankRow>& table,
                                     const std::vector<int32_t>& labels);

// What is said of several files alike is said once, by the first of them.
struct SharedIssue {
  const trace::Issue* issue = nullptr;
  size_t files = 1;
};
std::vector<SharedIssue> shared_issues(const trace::Run& run, bool each_alone);
// The same, but each alone where they are few enough for all files to be named.
std::vector<SharedIssue> issues_to_name(const trace::Run& run);
// "node0.102.a.ring and 3 more: what is the matter". The file's path stands there where `has_path`.
std::string issue_line(const SharedIssue& shared, bool has_path = false);

}  // namespace rollcall::report
