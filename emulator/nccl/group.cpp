#include "emulator/nccl/group.h"

#include <pthread.h>

#include <algorithm>
#include <thread>

#include "emulator/device/device.h"
#include "emulator/nccl/log.h"
#include "emulator/nccl/profiler.h"

// The part of the driver API that is needed to switch devices.
extern "C" {
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuCtxGetCurrent(void** context);
}

namespace emu_nccl {
namespace {

struct Batch {
  CommunicatorPointer communicator;
  std::vector<void*> streams;
  std::vector<Operation> operations;
  uint32_t slow_factor = 1;
  std::vector<ProfiledTask> profiled;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Batch> batches;  // one per communicator, in the order of first use
  std::vector<Creation> creations;
  ProfiledGroup profiled;
};

Group& group() {
  static thread_local Group* mine = nullptr;
  static thread_local struct Owner {
    ~Owner() {
      delete mine;
      mine = nullptr;
    }
  } owner;
  (void)owner;
  if (mine == nullptr) mine = new Group;
  return *mine;
}

ncclResult_t complete(const Creation& creation) {
  Communicator& communicator = *creation.communicator;
  // A rank that a split leaves out has no communicator in the end.
  const bool is_profiled = creation.handle != nullptr;
  const bool is_early = ProfiledCommunicator::begins_early();
  if (is_profiled && is_early) communicator.profiled = ProfiledCommunicator::create(communicator);
  const ncclResult_t result = creation.run();
  if (result != ncclSuccess) {
    communicator.error.store(result);
    communicator.state.store(Communicator::kFailed);
    return result;
  }
  if (is_profiled && !is_early) communicator.profiled = ProfiledCommunicator::create(communicator);
  if (communicator.profiled) communicator.profiled->learn(communicator);
  communicator.state.store(Communicator::kReady);
  return ncclSuccess;
}

// On a thread of its own. What is made of a communicator has a handle when that one is through with
// it.
void complete_unasked(const Creation& creation) {
  complete(creation);
  if (!creation.parent) return;
  if (creation.handle != nullptr) *creation.handle = register_communicator(creation.communicator);
  creation.parent->in_progress.fetch_sub(1);
}

// Creations of one group go on at the same time, each on a thread: each blocks until its peers are
// there.
ncclResult_t create_all(std::vector<Creation> creations) {
  const bool blocking = creations[0].blocks();
  for (const Creation& creation : creations) {
    if (creation.blocks() != blocking) {
      warn("blocking and non-blocking communicators are mixed in one group");
      return ncclInvalidArgument;
    }
  }
  if (!blocking) {
    for (Creation& creation : creations) {
      if (creation.parent) creation.parent->in_progress.fetch_add(1);
    }
    for (Creation& creation : creations) {
      std::thread([creation = std::move(creation)] { complete_unasked(creation); }).detach();
    }
    return ncclInProgress;
  }
  std::vector<ncclResult_t> results(creations.size(), ncclSuccess);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < creations.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = complete(creations[i]); });
  }
  results[0] = complete(creations[0]);
  for (std::thread& thread : threads) thread.join();
  ncclResult_t worst = ncclSuccess;
  for (size_t i = 0; i < creations.size(); ++i) {
    if (results[i] == ncclSuccess) continue;
    worst = results[i];
    if (creations[i].handle != nullptr) {
      forget_communicator(*creations[i].handle);
      *creations[i].handle = nullptr;
    }
  }
  return worst;
}

bool is_capturing(void* stream) {
  uint64_t graph = 0;
  return emu_stream_capturing(stream, &graph) != 0;
}

ncclResult_t launch(Batch& batch, const ProfiledGroup& profiled) {
  const DeviceScope device(batch.communicator->device);
  std::shared_ptr<ProfiledPlan> plan;
  if (!batch.profiled.empty()) {
    plan = std::make_shared<ProfiledPlan>(batch.communicator->profiled, std::move(batch.profiled));
  }
  const auto launch_unit = [&] {
    return Unit::launch(
        std::make_shared<Unit>(batch.communicator, batch.operations, batch.slow_factor, plan),
        batch.streams);
  };
  if (!plan) return launch_unit();
  return plan->launch(profiled.handle(), batch.streams[0], is_capturing(batch.streams[0]),
                      launch_unit);
}

ncclResult_t launch_all(std::vector<Batch>& batches, const ProfiledGroup& profiled) {
  for (Batch& batch : batches) {
    const ncclResult_t result = launch(batch, profiled);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

// Another thread's work: the caller comes back at once and has to ask how it went.
ncclResult_t launch_unasked(std::vector<Batch> batches, const ProfiledGroup& profiled) {
  for (const Batch& batch : batches) batch.communicator->in_progress.fetch_add(1);
  std::thread([batches = std::move(batches), profiled]() mutable {
    const ncclResult_t result = launch_all(batches, profiled);
    for (const Batch& batch : batches) {
      if (result != ncclSuccess) batch.communicator->error.store(result);
      batch.communicator->in_progress.fetch_sub(1);
    }
  }).detach();
  return ncclInProgress;
}

ncclResult_t run_all(std::vector<Batch> batches, const ProfiledGroup& profiled) {
  const bool blocking = batches[0].communicator->blocking;
  for (const Batch& batch : batches) {
    if (batch.communicator->blocking == blocking) continue;
    warn("Blocking and nonblocking communicators are not allowed in the same group.");
    return ncclInvalidArgument;
  }
  return blocking ? launch_all(batches, profiled) : launch_unasked(std::move(batches), profiled);
}

}  // namespace

// The reference to the primary context is kept: a device that has a communicator stays in use.
DeviceScope::DeviceScope(int device) {
  // A thread of our own has no context yet.
  if (cuCtxGetCurrent(&before_) != 0) return;
  if (before_ != nullptr && device == emu_current_device()) return;
  void* context = nullptr;
  if (cuDevicePrimaryCtxRetain(&context, device) != 0) return;
  changed_ = cuCtxSetCurrent(context) == 0;
}

DeviceScope::~DeviceScope() {
  if (changed_) cuCtxSetCurrent(before_);
}

bool in_group() { return group().depth > 0; }

void group_start() { ++group().depth; }

ncclResult_t note_error(ncclResult_t result) {
  Group& mine = group();
  if (mine.depth > 0 && result != ncclSuccess && mine.error == ncclSuccess) mine.error = result;
  return result;
}

void add_operation(const CommunicatorPointer& communicator, void* stream,
                   const Operation& operation, uint32_t slow_factor) {
  Group& mine = group();
  auto found = std::find_if(mine.batches.begin(), mine.batches.end(),
                            [&](const Batch& batch) { return batch.communicator == communicator; });
  if (found == mine.batches.end()) {
    mine.batches.push_back({communicator, {}, {}, 1, {}});
    found = mine.batches.end() - 1;
  }
  if (std::find(found->streams.begin(), found->streams.end(), stream) == found->streams.end()) {
    found->streams.push_back(stream);
  }
  found->operations.push_back(operation);
  if (communicator->profiled) {
    mine.profiled.call(*communicator->profiled, operation, stream, is_capturing(stream), mine.depth,
                       found->profiled);
  }
  found->slow_factor = std::max(found->slow_factor, slow_factor);
}

void add_creation(Creation creation) { group().creations.push_back(std::move(creation)); }

ncclResult_t group_end() {
  Group& mine = group();
  if (mine.depth == 0) {
    warn("ncclGroupEnd: not in a group call.");
    return ncclInvalidUsage;
  }
  if (--mine.depth > 0) return ncclSuccess;
  Group all;
  std::swap(all, mine);
  ncclResult_t result = all.error;
  if (result != ncclSuccess) {
    for (const Creation& creation : all.creations) {
      if (creation.handle == nullptr) continue;
      forget_communicator(*creation.handle);
      *creation.handle = nullptr;
    }
  }
  if (result == ncclSuccess && !all.creations.empty())
    result = create_all(std::move(all.creations));
  all.profiled.end_begins();
  if (result == ncclSuccess && !all.batches.empty()) {
    result = run_all(std::move(all.batches), all.profiled);
  }
  all.profiled.end_is_over();
  return result;
}

ncclResult_t group_simulate_end(float* estimated_us) {
  Group& mine = group();
  if (mine.depth == 0) {
    warn("ncclGroupSimulateEnd: not in a group call.");
    return ncclInvalidUsage;
  }
  if (--mine.depth > 0) return ncclSuccess;
  Group all;
  std::swap(all, mine);
  all.profiled.end_is_over();
  *estimated_us = 0;
  for (const Batch& batch : all.batches) {
    for (const Operation& operation : batch.operations) {
      *estimated_us += static_cast<float>(emu_transfer_ns(
                           operation.bytes, batch.communicator->between_nodes ? 1 : 0)) /
                       1000.0f;
    }
  }
  return all.error;
}

}  // namespace emu_nccl
