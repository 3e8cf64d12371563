// What the plugin keeps of a thread of NCCL's from one event to the next. One variable, so that an
// event looks it up once.
#pragma once

#include <cstdint>

#include "core/capture/operations.h"

namespace rollcall::profiler {

// Turns of handles (handles.h) that the thread may give out: [next, end). Zero in both: none yet.
struct Turns {
  uint64_t next = 0;
  uint64_t end = 0;
};

// The GroupApi that the thread began last. NCCL begins and ends a group on the thread that calls,
// one at a time: so it needs no place in a table, which others could want. On another thread, and
// when the next one has begun, its handle is stale.
struct Group {
  uint64_t turn = 0;         // 0: none yet
  uint64_t newest_call = 0;  // turn of its newest call, of which each knows the one before
  uint64_t calls = 0;
  uint32_t number = 0;  // 0: of a bare call, or the calls are the shim's
  bool is_of_user = false;
  bool is_stopped = false;
  capture::OpToken end;  // the record of its end, where there is one
};

struct PluginThread {
  uint64_t launched_ticks = 0;  // its last launch of a kernel; 0: none since the group began
  Group group;
  Turns op_turns;
  Turns proxy_turns;
  Turns group_turns;
};
// Initial-exec as capture's this_thread, for the same reason; takes 104 bytes.
extern thread_local constinit PluginThread this_plugin_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

}  // namespace rollcall::profiler
