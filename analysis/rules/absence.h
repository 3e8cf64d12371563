// Why a host that others wait for has not made the call: what is on file of it, from an abort down
// to silence.
#pragma once

#include <cstdint>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

struct Absence {
  Verdict verdict = Verdict::missing_call;
  Confidence confidence = Confidence::certain;
};
Absence judge_absence(const Facts& facts, uint32_t process, const Node& waited);

// The rank aborted because NCCL told it of a peer's end, when asked or by refusing a call, and a
// peer had begun to abort: who was first, and not who had not come yet, is for judge_errors to say.
bool follows_an_abort(const Facts& facts, uint32_t process, const Node& waited);
// The rank's own steps before had the call where it went on without it.
bool has_passed_by(const Facts& facts, uint32_t process, const Node& waited);
// Null: false.
bool is_ended(const trace::Comm* comm);

}  // namespace rollcall::analysis
