// User tags of NCCL 2.31: a number that the job gives to a call. Kept as an event per change of tag
// on a communicator, so that a loop which tags every call alike costs one event.
#pragma once

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/event.h"

namespace rollcall::profiler {

// `token` names the tagged operation; empty where it was not recorded.
void note_user_tag(Context& context, capture::OpToken token, const Event& event) noexcept;

}  // namespace rollcall::profiler
