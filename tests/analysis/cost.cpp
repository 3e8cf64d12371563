#include "tests/analysis/cost.h"

#include <algorithm>
#include <cstdint>
#include <ctime>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {

trace::Run make_yardstick(int ranks) {
  Program program;
  program.comms = {{.ranks = {0, 1}}};
  program.ranks.resize(2);
  for (Steps& steps : program.ranks) {
    for (uint64_t i = 0; i < 5; ++i) steps.push_back(call(OpKind::AllReduce, 64 + i));
  }
  trace::Run run = execute(program).run;
  multiply(run, ranks);
  return run;
}

double seconds_to_judge(const trace::Run& run, Report& report) {
  const std::clock_t begin = std::clock();
  report = analyse(run);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

double yards_to_judge(const char* what, const trace::Run& run, Report& report) {
  static const trace::Run yardstick = make_yardstick(16'384);
  Report usual;
  const double before = seconds_to_judge(yardstick, usual);
  const double spent = seconds_to_judge(run, report);
  const double yard = std::max({before, seconds_to_judge(yardstick, usual), 0.001});
  WARN(what << ": " << spent << " s of processor time, " << spent / yard << " yards");
  return spent / yard;
}

}  // namespace rollcall::analysis
