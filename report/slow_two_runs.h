// What `rollcall slow OLD NEW` answers (slow/two_runs.h), for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "comparison/settings.h"
#include "slow/two_runs.h"

namespace rollcall::report {

struct TwoRunsReport {
  std::string before;  // what the runs are called
  std::string after;
  std::vector<comparison::SettingDifference> settings;
  slow::TwoRuns answer;
};

// What differs in versions and settings, then the step times, then the parts that differ.
std::string two_runs_text(const TwoRunsReport& report);
// One document of the schema rollcall.slow/1: that of the new run (slow_json()), with what differs
// from the old one in `against`. Unknown is null.
std::string two_runs_json(const std::string& of_new_run, const TwoRunsReport& report);

}  // namespace rollcall::report
