// One rank's end of a communicator.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "emulator/include/nccl.h"
#include "emulator/nccl/region.h"

namespace emu_nccl {

class ProfiledCommunicator;

// How an operation combines values; a custom one multiplies by a scalar first.
struct Reduction {
  ncclRedOp_t op = ncclSum;
  bool premultiply = false;
  const void* scalar_address = nullptr;  // not null: read when the operation starts
  uint64_t scalar = 0;
};

// Order of the units of work of one communicator on one rank. A unit may start when all that were
// put in before it are over, whatever their streams: as NCCL, whose kernels of one communicator run
// one after the other.
class UnitOrder {
 public:
  uint64_t add();
  bool is_first(uint64_t number);
  void remove(uint64_t number);
  bool empty();
  // Sleeps until nothing is left or `give_up` becomes true.
  void wait_empty(const std::atomic<bool>& give_up);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> pending_;
  uint64_t next_ = 0;
};

// Buffers that the ranks of a communicator have registered together. [any thread]
class Windows {
 public:
  void add(const void* buffer, size_t bytes);
  void remove(const void* buffer);
  bool hold(const void* address);

 private:
  std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> ends_;  // by begin
};

class Communicator {
 public:
  enum State { kInitialising, kReady, kFailed };

  int rank = 0;
  int ranks = 0;
  int device = 0;
  int job_rank = 0;
  bool blocking = true;
  bool between_nodes = false;
  bool several_here = false;  // another rank of it lives in this process
  uint64_t hash = 0;          // NCCL's commId
  std::string name;
  std::shared_ptr<Region> region;
  std::shared_ptr<ProfiledCommunicator> profiled;  // null: there is no profiler plugin

  std::atomic<int> state{kInitialising};
  std::atomic<ncclResult_t> error{ncclSuccess};  // of a failed initialisation, or asynchronous
  std::atomic<bool> aborted{false};              // operations end at once
  std::atomic<bool> revoked{false};
  std::atomic<bool> finalized{false};
  // Calls in progress in another thread (non-blocking communicators): ncclInProgress until 0.
  std::atomic<int> in_progress{0};

  UnitOrder units;
  // Units that CUDA graphs hold, from their capture until the last graph with them is destroyed.
  UnitOrder captured;
  // The position in the shared counters. Only the unit at the head of `units` touches these.
  uint64_t collectives = 0;
  uint64_t steps = 0;
  std::vector<uint64_t> sends_begun, sends_over, receives_begun, receives_over;

  uint64_t children[kChildKinds] = {};

  bool avoids_kernels = false;  // NCCL_CTA_POLICY_ZERO
  Windows windows;

  std::mutex reductions_mutex;
  std::map<int, std::pair<Reduction, ncclDataType_t>> reductions;

  bool stopped() const { return aborted.load() || revoked.load(); }
  RankSlot& self() { return region->slot(rank); }
  // What ncclCommGetAsyncError says.
  ncclResult_t asynchronous_error();
};

using CommunicatorPointer = std::shared_ptr<Communicator>;

// Handles. A handle is the object's address, checked against the list of live ones: a stale handle
// is an error, not a crash.
ncclComm_t register_communicator(const CommunicatorPointer& communicator);
CommunicatorPointer find_communicator(ncclComm_t handle);
void forget_communicator(ncclComm_t handle);

// True when the process is gone (or a zombie), or its id has passed to another.
bool process_is_gone(int pid, uint64_t started);
uint64_t process_started(int pid);

}  // namespace emu_nccl
