// What `rollcall slow` answers (slow/answer.h), for people and for programs.
#pragma once

#include <string>

#include "slow/answer.h"
#include "trace/model.h"

namespace rollcall::report {

// The verdict first, then where the time of the steps went, then the ranks among their peers.
std::string slow_text(const trace::Run& run, const slow::Answer& answer,
                      const slow::Question& question);
// In one line, without a stop: how long the steps take, how much they vary, and the largest cause,
// or that there is none. Empty where nothing was compared.
std::string slow_sentence(const trace::Run& run, const slow::Answer& answer);
// Schema rollcall.slow/1, one document. Unknown is null.
std::string slow_json(const trace::Run& run, const slow::Answer& answer,
                      const slow::Question& question);

}  // namespace rollcall::report
