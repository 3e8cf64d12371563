#include "tests/slow/score.h"

#include <algorithm>

#include "slow/answer.h"
#include "tests/slow/baselines.h"

namespace rollcall::timed {

Outcome judge(const Truth& truth, std::vector<int> named) {
  std::sort(named.begin(), named.end());
  if (truth.culprits.empty()) return named.empty() ? Outcome::right : Outcome::wrong;
  if (named.empty()) return Outcome::abstained;
  return std::includes(truth.culprits.begin(), truth.culprits.end(), named.begin(), named.end())
             ? Outcome::right
             : Outcome::wrong;
}

Scored score(const Training& training) {
  const Case made = make_case(training);
  Scored scored;
  scored.training = training;
  scored.truth = made.truth;
  const slow::Answer answer = slow::answer(made.timed.run);
  std::vector<int> named;
  if (answer.finding) {
    for (const uint32_t gpu : answer.finding->gpus) named.push_back(answer.gpus[gpu].rank);
    scored.verdict = analysis::code_of(answer.finding->verdict);
    // The truth is about all steps, and a finding may be about a part of them.
    scored.recovered = answer.finding->recovered * answer.finding->compared / answer.compared;
  }
  for (const std::string& reason : answer.why_not) scored.why_not += reason + "; ";
  const auto one = [](int rank) { return rank < 0 ? std::vector<int>() : std::vector<int>{rank}; };
  scored.ours = judge(made.truth, named);
  scored.last_arrivals = judge(made.truth, one(last_arrivals(made.timed.run)));
  scored.dixon_votes = judge(made.truth, one(dixon_votes(made.timed.run)));
  return scored;
}

bool is_worth(const Truth& truth, double least) { return truth.recovered >= least; }

}  // namespace rollcall::timed
