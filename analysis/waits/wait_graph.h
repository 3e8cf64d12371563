// Who waits for whom, and what is at the bottom of it.
//
// Nodes are hosts (a process that has not called something yet) and calls (a collective position, a
// send or receive, the creation of a communicator). A call waits for the hosts that have not made
// it and for the calls that stand in front of it on another rank's stream; a host waits for the
// calls at the front of its streams, and so do the other GPUs of a process that the same thread
// calls for. What waits for nothing, and what waits only for itself in a
// circle, is a root; everything else follows from the roots it can reach.
//
// Linear in processes, members and transfers: a communicator has few positions that are at the
// front anywhere. What many transfers wait behind together, the calls at the front of one stream,
// is a node of its own: an exchange between all of a thousand ranks would else have a billion
// edges.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/alignment/sequence.h"
#include "analysis/record/index.h"
#include "analysis/record/process_state.h"
#include "analysis/waits/join_disputes.h"
#include "analysis/waits/playback.h"

namespace rollcall::analysis {

// `front`: no call and no host, but the calls at the front of a stream, which it waits for.
enum class NodeKind : uint8_t { host, collective, p2p, creation, unknown, front };

struct Node {
  NodeKind kind = NodeKind::host;
  uint32_t process = kNone;   // host; p2p: who called; front: whose stream it is
  uint32_t op = kNoRecord;    // p2p
  uint32_t group = kNone;     // collective, p2p, creation (the child, or for a split the parent)
  uint64_t seq = 0;           // collective, p2p; creation: child number
  uint32_t creation = kNone;  // index into WaitGraph::creations
  bool is_disputed = false;   // the ranks disagree about the call: it waits for nothing else
  int64_t since_ns = 0;       // calls: when the first caller came
  std::vector<uint32_t> waits_for;
  std::vector<uint32_t> callers;  // processes that made the call and wait in it
};

// A communicator that some ranks are creating and others have not joined.
struct Creation {
  uint32_t group = kNone;  // child (init, shrink, grow) or parent (split)
  bool is_split = false;
  uint32_t child_number = 0;
  std::vector<uint32_t> callers;       // processes
  std::vector<uint32_t> absent;        // processes that have files and did not call
  std::vector<int32_t> missing_ranks;  // communicator ranks of which no file is known
  // Where all ranks of the job are on file: the missing ones are among these processes. With
  // `is_guess` the absent ones are taken for them by their numbers alone, which a communicator of
  // few gives anew.
  std::vector<uint32_t> candidates;
  bool is_guess = false;
  uint32_t dispute = kNone;  // index into WaitGraph::join_disputes: it waits for nothing else
  int64_t since_ns = 0;
};

struct Root {
  std::vector<uint32_t> nodes;  // one host, one disputed call, or those of a circle, rising
  bool is_circle = false;
  uint32_t component = kNone;
  std::vector<uint32_t> waiters;  // call nodes that wait directly for it, oldest first
  std::vector<uint32_t> victims;  // processes that end up here
  int64_t since_ns = 0;
};

class WaitGraph {
 public:
  WaitGraph(const Index& index, const JobState& job, const Playback& playback,
            const std::vector<Difference>& differences);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Creation>& creations() const { return creations_; }
  const std::vector<JoinDispute>& join_disputes() const { return join_disputes_; }
  const std::vector<Root>& roots() const { return roots_; }
  // Index into roots() of what this node waits for in the end; kNone if nothing.
  uint32_t root_of(uint32_t node) const { return root_of_component_[component_[node]]; }
  bool is_in(const Root& root, uint32_t node) const { return component_[node] == root.component; }
  // The node of a call; kNone where nobody waits in it or behind it.
  uint32_t find_collective(uint32_t group, uint64_t seq) const;
  uint32_t find_p2p(uint32_t process, uint32_t op) const;

 private:
  uint32_t host(uint32_t process);
  uint32_t collective(uint32_t group, uint64_t seq);
  uint32_t p2p(uint32_t process, uint32_t op);
  uint32_t call(uint32_t process, uint32_t op);
  uint32_t front(uint32_t process, uint32_t behind);
  void add_waiting_hosts();
  void add_shared_threads();
  void add_creations();
  std::vector<uint32_t> add_disputed_joins();
  void add_init(uint32_t group, bool are_pairs_in_order);
  void keep_possible_peers(Creation& creation, bool are_pairs_in_order) const;
  void find_missing(Creation& creation, bool same_numbers) const;
  void add_splits();
  void add_creation_node(Creation creation);
  void add_called(uint32_t node, uint32_t process, uint32_t op);
  void expand_collective(uint32_t node);
  void expand_p2p(uint32_t node);
  bool is_released(uint32_t process, const trace::Op& op) const;
  bool is_in_open_group(uint32_t process, const trace::Op& op) const;
  void find_components();
  void find_roots();
  void add_root(uint32_t component, std::vector<uint32_t> members);
  std::vector<std::vector<uint32_t>> distinct_fronts() const;

  const Index& index_;
  const JobState& job_;
  const Playback& playback_;
  std::vector<Node> nodes_;
  std::vector<Creation> creations_;
  std::vector<JoinDispute> join_disputes_;
  std::vector<Root> roots_;
  std::vector<uint32_t> host_of_;
  std::unordered_map<ChannelKey, uint32_t, ChannelHash> collective_of_;
  std::unordered_map<ChannelKey, uint32_t, ChannelHash> p2p_of_;
  std::unordered_map<ChannelKey, uint32_t, ChannelHash> front_of_;
  std::unordered_set<ChannelKey, ChannelHash> disputed_;  // positions
  std::vector<uint32_t> component_;
  std::vector<uint32_t> component_size_;
  std::vector<uint32_t> root_of_component_;
};

}  // namespace rollcall::analysis
