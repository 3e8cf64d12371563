// Events around life-cycle calls: creation, abort, errors. For life and threads see recorder.h. All
// of it is [cold].
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall::capture {

struct EventToken {
  EventRecord* record = nullptr;
  uint64_t ticket = 0;
};

// An event around a life-cycle call. [cold]
struct EventCall {
  EventKind kind = EventKind::CommAbort;
  uint32_t comm_index = kCommUnknown;
  int64_t arguments[8] = {};
  const char* text = nullptr;  // copied, cut to kEventTextBytes
  const void* caller = nullptr;
};
EventToken begin_event(const EventCall& call) noexcept;
// `text`, where given, replaces the text: an error message, for example.
void end_event(EventToken token, int result, const char* text = nullptr) noexcept;
// Both in one, for something that is already over.
void note_event(const EventCall& call, int result) noexcept;

}  // namespace rollcall::capture
