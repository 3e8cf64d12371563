// Random training jobs for the virtual cluster, and one planted fault with the truth about it.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "analysis/finding.h"
#include "tests/sim/cluster.h"

namespace rollcall::sim {

using Random = std::mt19937_64;
inline uint64_t pick(Random& random, uint64_t below) { return random() % below; }

// More than NCCL buffers: such a send waits for its receive.
inline constexpr uint64_t kLargeCount = 200'000;

// X(name, words): what one rank does wrong.
// clang-format 14 folds this list differently each time it sees it.
// clang-format off
#define ROLLCALL_SIM_FAULTS(X) \
  X(none, "nothing is wrong") \
  X(missing, "a call left out") \
  X(extra, "a call more that no step has") \
  X(alone, "a call more behind the last one, and the program goes on") \
  X(detour, "a call more behind the last one, and the program waits for it") \
  X(again, "one usual call more") \
  X(op, "another operation") \
  X(count, "another count") \
  X(dtype, "another datatype") \
  X(redop, "another reduction") \
  X(root, "another root") \
  X(order, "two calls swapped") \
  X(die, "the process dies") \
  X(stop, "the process is stopped") \
  X(exit, "the process exits") \
  X(stick, "the host stops outside NCCL") \
  X(comm_order, "calls of two communicators swapped") \
  X(p2p_unmatched, "a send left out") \
  X(p2p_extra, "one usual transfer more") \
  X(p2p_count, "a send of another count") \
  X(part_missing, "a transfer of a group left out") \
  X(batch_missing, "a group of transfers left out") \
  X(part_count, "a transfer of a group with another count") \
  X(p2p_cycle, "a send and a receive swapped") \
  X(signal_missing, "a signal left out") \
  X(abort, "a communicator aborted") \
  X(hold, "a call does not come back") \
  X(refuse, "CUDA fails") \
  X(leak, "a communicator never destroyed") \
  X(version, "another NCCL") \
  X(setting, "another setting") \
  X(shrink_missing, "a shrink left out") \
  X(grow_missing, "a grow left out") \
  X(split_missing, "a split left out") \
  X(init_missing, "the rank never joins") \
  X(block, "a stream is blocked") \
  X(lame, "a kernel never ends") \
  X(replay_missing, "a replay left out") \
  X(replay_order, "two replays swapped") \
  X(replay_block, "a replay is blocked") \
  X(replay_lame, "a kernel of a replay never ends")
// clang-format on
enum class Fault : uint8_t {
#define ROLLCALL_X(name, words) name,
  ROLLCALL_SIM_FAULTS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
// Only where GPUs are watched does anything tell of the others; the last ones are of graphs.
constexpr uint64_t kFaultsOfCalls = static_cast<uint64_t>(Fault::block);
constexpr uint64_t kFaultsOfStreams = static_cast<uint64_t>(Fault::replay_missing);
std::string_view name_of(Fault fault);
// In words, as docs/ACCURACY.md has it.
std::string_view words_of(Fault fault);

struct TrainingOptions {
  int dp = 2;
  int tp = 1;
  int pp = 1;
  int steps = 4;
  uint64_t seed = 1;
  bool random_syncs = false;  // also inside a step
  bool nested = false;        // pairs split off the data groups
  bool groups = false;        // collectives of several communicators in one group
  bool streams = false;       // the data groups' calls on a stream of their own
  bool chained = false;    // each communicator's calls on a stream of its own; they wait for others
  bool creations = false;  // communicators made on the way: init, split, shrink and grow
  bool batches = false;    // groups of transfers of several sizes
  bool varied = false;     // sizes change from step to step
  bool graphs = false;     // some phases are captured once, and replayed in every step
  bool branches = false;   // there each communicator's calls are on a stream; some wait for others
  bool apart = false;      // where chained, each graph is launched on a stream of its own
  bool asides = false;     // one-sided operations, and calls captured into graphs
  uint32_t left_out = 0;   // phases of a step that are left out, a bit each: for shrinking
};

Program make_training(const TrainingOptions& options);

// What the fault is, independent of any analysis.
struct Truth {
  Fault fault = Fault::none;
  bool is_planted = false;  // false: the program has no place for this fault
  int rank = -1;
  int comm = -1;
  uint64_t seq = 0;  // collective seq or p2p seq
  bool is_p2p = false;
  // The rank makes no call behind the one it left out: nobody can tell that it will not come.
  bool is_last = false;
  // The wrong call looks like the next one: leaving a call out would look the same.
  bool is_twin = false;
  // The call left out comes again behind the next one: the two might have been swapped.
  bool may_be_order = false;
  bool is_other_size = false;  // of a transfer: its channel has others of the wrong size
  // The call's size, as all of its kind, changes from step to step: it tells nothing of the call.
  bool is_varied = false;
  bool is_size_twin = false;  // but for its size it looks like the next one
  bool is_captured = false;   // the call was, or was to be, captured into a graph
  std::string where;
};

// Faults that no program shows: in what is on file of the rank beside its calls.
bool is_blemish(Fault fault);
void blemish(const Truth& truth, Outcome& outcome);

// Some rank does not take part in the making of a communicator.
bool is_creation(Fault fault);

// Changes the program of one rank in the middle of the job; not one of `spared`.
Truth plant(Program& program, Fault fault, uint64_t seed, const std::vector<int>& spared = {});

}  // namespace rollcall::sim
