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

// An answer of NCCL's that nothing is in progress, and which question it is the answer to.
struct Settled {
  uint32_t comm_index = kCommUnknown;
  bool is_launched = false;
  uint64_t question = 0;
  bool operator==(const Settled&) const = default;
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
  uint64_t questions = 0;        // before_asking()
  std::vector<Settled> settled;  // calls_settled()
  unsigned nested_calls = 0;
  unsigned exits = 0;

  std::vector<Event> events_of(EventKind kind) const;
};
Recorder& recorder();
void reset();

}  // namespace rollcall::fake
