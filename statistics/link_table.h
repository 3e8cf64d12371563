// What the network steps of a run waited for, by communicator, link and side, and which links are
// slow beside the others: where the profiler plugin told of the proxy operations
// (ROLLCALL_PLUGIN_EVENTS=proxy).
//
// The steps of a link overlap, so the waits of all may add up to more than the time that passed;
// per step they tell how long one took. All steps of a ring take about equally long, because each
// waits for the one before: what tells links apart is what their steps wait for. A sender's wait
// for the network is the link's own; a receiver's is also for a sender that has nothing to send.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/model.h"

namespace rollcall::statistics {

// Its channels together.
struct LinkRow {
  CommKey comm{};
  std::string comm_name;
  int32_t nranks = -1;
  int32_t rank = -1;  // that tells of it; -1 unknown
  int32_t peer = -1;
  bool is_send = false;  // the rank sends, the peer receives
  uint32_t channels = 0;
  uint64_t operations_started = 0;
  uint64_t operations_done = 0;
  uint64_t steps = 0;
  uint64_t bytes = 0;
  uint64_t wait_ns[kChannelWaitCount] = {};
  // The network wait per step to that of the median link of this communicator and side; absent
  // where there is no other link, or the median did not wait.
  std::optional<double> to_median;
  // How much longer all of its steps waited for the network than as many of the median link's.
  double behind_median_ns = 0;

  // Absent where no step is done.
  std::optional<double> per_step_ns(ChannelWait wait) const;
  ChannelWait network_wait() const {
    return is_send ? ChannelWait::send_network : ChannelWait::recv_network;
  }
  // The wait that took longest; none: there was no named one.
  ChannelWait longest_wait() const;
};

// By communicator in the order of creation, senders first, then by the network wait per step, the
// longest first. Empty where nobody told of network steps.
std::vector<LinkRow> link_table(const trace::Run& run);

}  // namespace rollcall::statistics
