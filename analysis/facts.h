// What is known of a job before anybody is blamed: the record, who waits for whom, where calls
// part. Rules look at nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "analysis/alignment/sequence.h"
#include "analysis/options.h"
#include "analysis/record/changing_sizes.h"
#include "analysis/record/index.h"
#include "analysis/record/process_state.h"
#include "analysis/waits/playback.h"
#include "analysis/waits/unheard_ranks.h"
#include "analysis/waits/wait_graph.h"

namespace rollcall::analysis {

// What is asked again and again, found at the first question. Whoever finds it keeps notes of a
// type of its own.
class Memo {
 public:
  // Of one type always the same object; made without arguments when it is first asked for.
  template <typename Notes>
  Notes& notes() {
    std::shared_ptr<void>& known = by_type_[std::type_index(typeid(Notes))];
    if (!known) known = std::make_shared<Notes>();
    return *static_cast<Notes*>(known.get());
  }

 private:
  std::unordered_map<std::type_index, std::shared_ptr<void>> by_type_;
};

struct Facts {
  const Index& index;
  const Options& options;
  const JobState& job;
  const std::vector<Difference>& differences;
  const Playback& playback;
  const WaitGraph& graph;
  const UnheardRanks& unheard;
  const ChangingSizes& sizes;
  Memo& memo;

  const trace::Process& process(uint32_t p) const { return index.run().processes[p]; }
  const Group& group(uint32_t g) const { return index.groups()[g]; }
};

// What NCCL answered: of an asynchronous error the error, not the result of asking for it.
int result_of(const trace::Event& event);
// Destroying, finalizing or aborting a communicator.
bool is_teardown(EventKind kind);
// The process's own entry of a communicator; null when it has none.
const trace::Comm* comm_of(const Facts& facts, uint32_t process, uint32_t group);
// How the process ended its part of a communicator before the call that it waits in now, so that it
// will call nothing there any more: the record of it; null where it did not.
const trace::Event* end_before_wait(const Facts& facts, uint32_t process, uint32_t group);
// The process that is this rank of a group; kNone where it left no file.
uint32_t process_at(const Facts& facts, uint32_t group, int32_t rank);
// The ranks of a group of which no file is a member, by their numbers in it.
std::vector<int32_t> ranks_without_member(const Group& group);
// The collectives of a process, by group.
std::unordered_map<uint32_t, const Lane*> lanes_of(const Facts& facts, uint32_t process);
// The record of a call that waits in a node, for quoting: {process, op}; kNone if none is on file.
OpRef example_of(const Facts& facts, uint32_t node);
// How a communicator that a node is about is made: "CommInitRank", "CommSplit", "CommShrink",
// "CommGrow".
EventKind creating_call(const Facts& facts, const Node& node);

}  // namespace rollcall::analysis
