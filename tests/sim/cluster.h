// A virtual cluster without processes: programs of NCCL calls, executed under the rules of streams,
// and the run that a recorder would have left behind. It shares no code with the analysis: its
// rules are written down a second time here, naively, so that one can be held against the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/model.h"

namespace rollcall::sim {

// What a rank's program does next. `create`: a communicator whose `is_late`; waits for all of them.
// `hold`: the next call enters NCCL and does not come back; `refuse`: NCCL refuses it, because CUDA
// has failed, and the program makes no call any more. `block`: something that is not NCCL's and
// does not end goes onto the stream. `replay`: what was captured into a graph goes onto the stream.
enum class Act : uint8_t {
  call,
  sync,
  exit,
  die,
  stop,
  stick,
  abort,
  create,
  hold,
  refuse,
  block,
  replay
};

struct Step {
  Act act = Act::call;
  int comm = 0;  // index into Cluster::comms
  OpKind kind = OpKind::AllReduce;
  uint64_t count = 1;
  uint8_t datatype = 7;
  uint8_t reduction = 0;
  int root_or_peer = -1;  // communicator rank
  int stream = 0;
  uint32_t group = 0;  // calls of one rank with the same number are one group
  uint32_t graph = 0;  // of a call: captured, so that it runs in replays, if there are any
  // As by CUDA events: starts behind all earlier calls of the rank, or its group, on all streams,
  // but for those that are `detached`, which no other stream waits for.
  bool joins = false;
  bool detached = false;
  bool is_varied = false;  // of another size in every step
  bool is_lame = false;    // this rank's kernel begins and comes to no end
  // Of a replay: the unit (a call, or a group of them; from 1) in front of which something that is
  // not NCCL's does not end, or which begins and does not end itself (`is_lame`). 0: all is well.
  uint32_t stands_at = 0;
};

struct CommSpec {
  std::vector<int> ranks;  // job ranks, by communicator rank
  int parent = -1;
  // Of a child: a split is called by all ranks of the parent, a shrink and a grow by the child's.
  CommOrigin origin = CommOrigin::split;
  uint32_t child_number = 0;
  int colour = 0;
  bool is_late = false;  // made by Act::create; else it is there from the beginning
  // Rank 0 hands out the id of it when it calls: until then the others wait for that, outside of
  // NCCL, with nothing on file.
  bool has_late_id = false;
};

struct Program {
  std::vector<CommSpec> comms;
  std::vector<std::vector<Step>> ranks;

  bool replays() const;  // graphs
};

struct ClusterOptions {
  uint64_t seed = 1;
  // How long the hung job stands before it is killed (or looked at).
  int64_t stall_ns = 20'000'000'000;
  uint64_t eager_bytes = 512 * 1024;
  bool live = false;     // look at it while it hangs
  bool watched = false;  // when a stream came to a call, and when it was through, is on file
};

struct Outcome {
  trace::Run run;
  bool hung = false;
  std::vector<bool> stands;  // by rank: in calls that have not finished
};

// Runs until nothing moves.
Outcome execute(const Program& program, const ClusterOptions& options = {});

// The program as text, one line per rank: for the report of a failing seed.
std::string describe(const Program& program);

int rank_in(const CommSpec& comm, int job_rank);

}  // namespace rollcall::sim
