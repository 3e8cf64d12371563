// One rank of a run as packets of a Perfetto trace.
//
//   rank 3 node0 pid 4711   what it does: in a call, enqueued, on the GPU, ended (rank_state.h)
//     world                 a communicator
//       calls               the host's calls, from being called to having returned
//       GPU                 the operations on the GPU, where they were timed
//       busbw               their speed
//     other calls           those that make and end communicators, ends of groups, graphs
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "report/perfetto/perfetto.h"
#include "trace/model.h"

namespace rollcall::report::perfetto {

// What the packets of all ranks have in common. Numbers are handed on from rank to rank.
struct TraceState {
  int64_t base_ns = 0;  // about the oldest time
  uint64_t parent = 0;  // the track that all ranks are below
  uint64_t next_uuid = 1;
  uint32_t next_sequence = 1;
  uint64_t slices = 0;       // written so far
  uint64_t newest_rank = 0;  // the track of the rank that was written last
  // Of each communicator: its number from 0 on, and its name.
  std::map<std::pair<uint64_t, uint64_t>, std::pair<uint64_t, std::string>> comms = {};
};

struct RankTitle {
  uint64_t order = 0;                                // among the ranks
  std::string remark;                                // "culprit"; empty: nothing
  std::string details;                               // sentences that the viewer shows as help
  std::map<uint64_t, KinetoName> kineto_names = {};  // by ticket
};

// Memory: about 200 bytes per call of the rank. False: the sink wants no more.
bool write_rank(const trace::Process& process, const RankTitle& title, TraceState& state,
                const Sink& sink);

}  // namespace rollcall::report::perfetto
