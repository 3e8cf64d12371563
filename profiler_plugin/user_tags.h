// User tags of NCCL 2.31: a number that the job gives to a call. Kept as an event per change of tag
// on a communicator, so that a loop which tags every call alike costs one event.
#pragma once

#include "profiler_plugin/contexts.h"

namespace rollcall::profiler {

void note_changed_tag(Context& context, capture::OpToken token, uint64_t user_tag) noexcept;
// `token` names the tagged operation; empty where it was not recorded.
inline void note_user_tag(Context& context, capture::OpToken token, uint64_t user_tag) noexcept {
  const bool is_another = user_tag != context.user_tag.load(std::memory_order_relaxed);
  if (__builtin_expect(is_another, 0)) note_changed_tag(context, token, user_tag);
}

}  // namespace rollcall::profiler
