// What `rollcall slow` answers (slow/answer.h), for people and for programs.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "slow/answer.h"
#include "slow/efficiency.h"
#include "trace/model.h"

namespace rollcall::report {

// The verdict first, then where the time of the steps went, then the ranks among their peers.
// `workload`: what is known of the job besides.
std::string slow_text(const trace::Run& run, const slow::Answer& answer,
                      const slow::Question& question, const slow::Workload& workload = {});

// What that text is made of, for a page.
// The verdict and what it rests on, or why there is none: sentences, which may be of several lines.
std::string slow_verdict(const trace::Run& run, const slow::Answer& answer);
struct SlowCharge {
  std::string what;
  std::string share;
  bool is_part = false;  // of a line above
};
std::vector<SlowCharge> slow_charges(const slow::Answer& answer);
using SlowRankCells = std::array<std::string, 8>;
inline constexpr std::array<const char*, 8> kSlowRankColumns = {
    "rank", "host", "role", "peers", "own work", "to peers", "z", "charged"};
inline constexpr const char* kSlowAccusesNobody =
    "z and charged accuse nobody: the verdict does, or there is none.";
// The ranks that are compared with peers and asked for, the slowest among their peers first.
std::vector<SlowRankCells> slow_ranks(const trace::Run& run, const slow::Answer& answer,
                                      const slow::Question& question);
std::vector<std::string> slow_over_time(const slow::Answer& answer);
// "a step of rank 0 has 12 calls or groups of calls"
std::string slow_step(const slow::Answer& answer);

// In one line, without a stop: how long the steps take, how much they vary, and the largest cause,
// or that there is none. Empty where nothing was compared.
std::string slow_sentence(const trace::Run& run, const slow::Answer& answer);
// Schema rollcall.slow/1, one document. Unknown is null. report/slow_efficiency.h has the fields
// `exposed_communication`, `efficiency` and, of each rank, `busy`.
std::string slow_json(const trace::Run& run, const slow::Answer& answer,
                      const slow::Question& question, const slow::Workload& workload = {});

}  // namespace rollcall::report
