// What `rollcall slow` says of a run, as a tab of its page.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "slow/answer.h"
#include "trace/model.h"

namespace rollcall::report {

// The verdict, where the time of the steps went, the ranks among their peers, and what changed over
// time. Empty: no steps could be compared.
std::string steps_html(const trace::Run& run, const slow::Answer& answer);

}  // namespace rollcall::report
