#include "profiler_plugin/user_tags.h"

namespace rollcall::profiler {

void note_changed_tag(Context& context, capture::OpToken token, uint64_t user_tag) noexcept {
  const uint64_t before = context.user_tag.exchange(user_tag, std::memory_order_relaxed);
  if (before == user_tag) return;
  capture::EventCall call{.kind = EventKind::UserTag,
                          .comm_index = context.comm_index.load(std::memory_order_relaxed)};
  call.arguments[0] = static_cast<int64_t>(user_tag);
  call.arguments[1] = static_cast<int64_t>(token.ticket);
  capture::note_event(call, kResultSuccess);
}

}  // namespace rollcall::profiler
