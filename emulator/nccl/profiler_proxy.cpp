#include "emulator/nccl/profiler_proxy.h"

#include <algorithm>

#include "emulator/device/device.h"
#include "emulator/nccl/communicator.h"
#include "emulator/nccl/profiler_plugin.h"
#include "emulator/nccl/settings.h"

namespace emu_nccl {
namespace {

constexpr uint64_t kChunkBytes = 512 * 1024;

bool wants_steps(const ProxyWork& work) {
  return (work.mask & (kProfileProxyStep | kProfileNetPlugin)) != 0;
}

void* start_step(const ProxyWork& work, void* operation, int number) {
  return start_event(
      work.context,
      {.type = kProfileProxyStep, .rank = work.rank, .parent = operation, .steps = number});
}

// Up to 2.26 the bytes are told of the operation alone.
void record_step(void* step, ProfilerState state, uint64_t bytes) {
  if (profiler_release() <= 3) return record_state(step, state);
  record_state(step, state, bytes);
}

void end_step(const ProxyWork& work, void* step, uint64_t bytes) {
  if (work.is_send) {
    record_step(step, kStepSendPeerWait, 0);
    record_step(step, kStepSendWait, bytes);
  } else {
    record_step(step, kStepReceiveFlushWait, bytes);
    record_step(step, kStepReceiveGpuWait, bytes);
  }
  stop_event(step);
}

// The next rank of the same node, all of whose ranks are a ring.
int next_on_node(const Communicator& communicator) {
  const int per_node = std::max(1, emu_gpus_per_node());
  const int node = communicator.job_rank / per_node;
  for (int distance = 1; distance < communicator.ranks; ++distance) {
    const int rank = (communicator.rank + distance) % communicator.ranks;
    if (communicator.region->slot(rank).job_rank / per_node == node) return rank;
  }
  return communicator.rank;
}

}  // namespace

ProxyEvents begin_proxy(const ProxyWork& work) {
  const auto steps = std::max<uint64_t>(1, (work.bytes + kChunkBytes - 1) / kChunkBytes);
  ProxyEvents events = {};
  events.operation = start_event(work.context, {.type = kProfileProxyOp,
                                                .rank = work.rank,
                                                .parent = work.parent,
                                                .root = work.peer,
                                                .pid = work.pid,
                                                .steps = static_cast<int>(steps),
                                                .chunk_bytes = static_cast<int>(kChunkBytes),
                                                .channel = work.channel,
                                                .is_send = work.is_send});
  record_state(events.operation, kOpInProgress, 0);
  record_state(events.operation, work.is_send ? kSendPosted : kReceivePosted, 0, 0);
  if (wants_steps(work)) {
    events.step = start_step(work, events.operation, 0);
    record_state(events.step, work.is_send ? kStepSendGpuWait : kStepReceiveWait);
  }
  return events;
}

void end_proxy(const ProxyWork& work, const ProxyEvents& events) {
  uint64_t left = work.bytes;
  void* step = events.step;
  for (int number = 0; number == 0 || left > 0; ++number) {
    const uint64_t bytes = std::min(left, kChunkBytes);
    left -= bytes;
    if (number > 0 && wants_steps(work)) step = start_step(work, events.operation, number);
    end_step(work, step, bytes);
    record_state(events.operation, work.is_send ? kSendTransmitted : kReceiveReceived, bytes,
                 number + 1);
  }
  record_state(events.operation, work.is_send ? kSendDone : kReceiveDone, 0, 0);
  stop_event(events.operation);
}

void ProxyNeighbour::learn(const Communicator& communicator) {
  if (settings().pxn == 0 || communicator.region == nullptr || !communicator.between_nodes) return;
  Region& region = *communicator.region;
  rank_ = communicator.rank;
  server_ = next_on_node(communicator);
  has_server_ = region.slot(server_).pid != region.slot(rank_).pid;
  region_ = communicator.region;
}

bool ProxyNeighbour::hand_over(const ProxyWork& work) {
  if (!has_server_ || !work.is_send) return false;
  ProxyInbox& inbox = region_->slot(server_).proxies;
  const uint64_t number = inbox.handed_over.get();
  if (number - inbox.taken.get() >= kHandedOverMax) return false;
  inbox.work[number % kHandedOverMax] = work;
  inbox.handed_over.set(number + 1);
  return true;
}

void ProxyNeighbour::serve() {
  if (region_ == nullptr) return;
  ProxyInbox& inbox = region_->slot(rank_).proxies;
  for (uint64_t number = inbox.taken.get(); number != inbox.handed_over.get(); ++number) {
    const ProxyWork work = inbox.work[number % kHandedOverMax];
    inbox.taken.set(number + 1);
    end_proxy(work, begin_proxy(work));
  }
}

}  // namespace emu_nccl
