// What `rollcall slow OLD NEW` answers (slow/two_runs.h), for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "comparison/settings.h"
#include "slow/efficiency.h"
#include "slow/two_runs.h"

namespace rollcall::report {

struct TwoRunsReport {
  std::string before;  // what the runs are called
  std::string after;
  std::vector<comparison::SettingDifference> settings;
  slow::TwoRuns answer;
  slow::Workload workload = {};  // the tokens of both
};

// Said where no setting differs.
inline constexpr const char* kSameSettings =
    "Versions, settings, ranks and hosts are the same, as far as they are on file.";
// "2.29.7" of a version's code, "(not set)" of none; printable and cut.
std::string setting_value(const std::string& name, const std::string& value);

// Lines about steps that were compared: what they take in both runs, and what would have been told.
std::string steps_of_two_runs(const slow::TwoRuns& answer);
// One part of a step that differs, in words.
struct DifferenceWords {
  std::string share;                // "+12.3 %"
  std::string span;                 // "+1.20 ms"
  std::string part;                 // "transfers, when everybody had come"
  std::string ranks;                // "all ranks"
  std::vector<std::string> places;  // where it differs most
};
DifferenceWords words_of(const slow::Difference& difference);
inline constexpr const char* kListedParts =
    "a part is listed if it differs by 4.5 standard errors of both runs and costs 1 % or more";
inline constexpr const char* kNoPart = "no part differs that much";
inline constexpr const char* kOtherSizes =
    "Calls of other sizes were compared with each other: the runs move other data.";

// What differs in versions and settings, then the step times, and of runs with other numbers of
// GPUs the scaling efficiency, then the parts that differ.
std::string two_runs_text(const TwoRunsReport& report);
// `against` of two_runs_json(), by itself; report/slow_efficiency.h has its field `scaling`.
std::string against_json(const TwoRunsReport& report);
// One document of the schema rollcall.slow/1: that of the new run (slow_json()), with what differs
// from the old one in `against`. Unknown is null.
std::string two_runs_json(const std::string& of_new_run, const TwoRunsReport& report);

}  // namespace rollcall::report
