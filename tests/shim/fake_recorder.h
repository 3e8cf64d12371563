// A recorder that keeps what it is told, for tests of the shim's logic. One per process; tests call
// reset() first.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/capture/recorder.h"

namespace rollcall::fake {

struct Op {
  capture::OpCall call;
  uint64_t ticket = 0;
  int result = kResultUnknown;
};
struct Event {
  EventKind kind = EventKind::CommAbort;
  uint32_t comm_index = kCommUnknown;
  int64_t arguments[8] = {};
  std::string text;
  int result = kResultUnknown;
};
struct CommRecord {
  CommEntry entry = {};
  std::string name;
  uint32_t children = 0;
};

struct Recorder {
  bool recording = true;
  bool has_room = true;  // for another communicator
  std::vector<Op> ops;
  std::vector<Event> events;
  std::vector<CommRecord> comms;
  std::vector<std::string> meta;
  std::vector<std::string> coverage;
  std::vector<uint32_t> simulated_groups;
  std::vector<std::pair<uint32_t, bool>> settled;  // calls_settled()
  unsigned nested_calls = 0;
  unsigned exits = 0;

  std::vector<Event> events_of(EventKind kind) const;
};
Recorder& recorder();
void reset();

}  // namespace rollcall::fake
