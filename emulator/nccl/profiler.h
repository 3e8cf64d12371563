// What a profiler plugin hears of a communicator: NCCL's events, in NCCL's order, on its threads.
//
// Of a call, on the calling thread: GroupApi with the first operation of the outermost group,
// CollApi and P2pApi inside the call (both from release 5, NCCL 2.28, on), KernelLaunch around the
// launch, then Group, Coll and P2p. The launch of a non-blocking communicator is another thread's.
// From the GPU, on threads of their own: KernelCh (release 3 on; with KernelPhase in 7) and,
// between nodes, ProxyOp and ProxyStep. In release 7 NCCL counts the kernels that it tells of,
// while the GPU counts all: behind a kernel that it keeps silent about, a Broadcast's, KernelCh
// events have the times of earlier kernels. In a group, NCCL launches larger collectives first and
// sends and receives by distance, whatever the order of the calls.
//
// Left out, as by NCCL: what a communicator of one rank does, empty operations, from release 6 on
// all of a Broadcast behind its call (NCCL_ALLGATHERV_ENABLE=0 brings it back), and the names
// AlltoAll, Gather and Scatter. Left out, as the stand-in has nothing like it: network plugins.
//
// With buffers in symmetric windows: a symmetric kernel is told like any other from release 7 on,
// before its call only, in release 4 nothing of it. A collective by copy engines
// (NCCL_CTA_POLICY=2) has CeColl, CeSync and CeBatch from release 6 on in place of everything
// behind its call; in release 5 it has nothing, and before there was no such thing. Release 7 has
// user tags.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/nccl/profiler_proxy.h"
#include "emulator/nccl/profiler_thread.h"
#include "emulator/nccl/unit.h"

namespace emu_nccl {

// The GPU's reports of kernels, as NCCL 2.31 reads them: by number, from a ring. One channel stands
// for all. Used on one thread.
class KernelReports {
 public:
  struct Times {
    uint64_t number = 0;
    uint64_t begun_ns = 0;
    uint64_t ended_ns = 0;
  };
  // The GPU begins its next kernel; `is_told`: it reports.
  void begin(bool is_told, uint64_t gpu_ns);
  // All that have begun are over.
  void end(uint64_t gpu_ns);
  // NCCL's next number; 0 where it waits for a report that does not come.
  uint64_t next_to_read();
  const Times& at(uint64_t number) const { return ring_[number % kRing]; }

 private:
  static constexpr uint64_t kRing = 64;
  uint64_t begun_ = 0;
  uint64_t read_ = 0;
  Times ring_[kRing];
};

// A communicator under a plugin's eyes.
class ProfiledCommunicator {
 public:
  // Up to NCCL 2.26 a plugin hears of a communicator before its ranks have met.
  static bool begins_early();
  // Null where there is no plugin.
  static std::shared_ptr<ProfiledCommunicator> create(const Communicator& communicator);
  // The ranks have met.
  void learn(const Communicator& communicator);
  // The communicator is gone: its events end, then its context.
  void finalize();
  ~ProfiledCommunicator() { finalize(); }

  void* context() const { return context_; }
  uint64_t hash() const { return hash_; }
  const char* name() const { return name_.c_str(); }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool uses_network() const { return uses_network_; }
  // NCCL counts per function.
  uint64_t next_sequence(Kind kind) { return sequences_[static_cast<size_t>(kind)]++; }
  uint64_t next_copies() { return copies_++; }
  ProfilerThread& proxy_thread() { return proxy_; }
  ProxyNeighbour& neighbour() { return neighbour_; }
  ProfilerThread& kernel_thread();
  KernelReports& kernel_reports() { return kernel_reports_; }  // on the kernel thread

 private:
  ProfiledCommunicator();
  void tell_idle(bool idle);

  uint64_t hash_ = 0;
  std::string name_;
  int rank_ = 0;
  int ranks_ = 0;
  bool uses_network_ = false;
  void* context_ = nullptr;
  void* control_ = nullptr;  // ProxyCtrl event of the proxy thread's sleep
  uint64_t sequences_[5] = {};
  uint64_t copies_ = 0;  // collectives by copy engines
  std::atomic<bool> finalized_{false};
  ProxyNeighbour neighbour_;
  ProfilerThread proxy_;
  ProfilerThread kernels_;
  KernelReports kernel_reports_;
};

// A collective, send or receive as NCCL schedules it: an AlltoAll is several.
struct ProfiledTask {
  Kind kind = Kind::kAllReduce;
  size_t count = 0;
  size_t bytes = 0;
  ncclDataType_t type = ncclInt8;
  const void* send = nullptr;
  void* receive = nullptr;
  int root = 0;  // or the peer
  Method method = Method::kKernel;
  uint64_t user_tag = 0;
  uint32_t mask = 0;       // what the plugin wanted when the call was made
  void* call = nullptr;    // handle of the CollApi or P2pApi
  void* handle = nullptr;  // of the Coll or P2p
};

// What one unit of work is to a plugin.
class ProfiledPlan : public std::enable_shared_from_this<ProfiledPlan> {
 public:
  ProfiledPlan(std::shared_ptr<ProfiledCommunicator> communicator, std::vector<ProfiledTask> tasks);

  // Launches through `launch` and tells of it. `group`: handle of the GroupApi. [launching thread]
  ncclResult_t launch(void* group, void* stream, bool captured,
                      const std::function<ncclResult_t()>& launch);
  // A graph is replayed: the plan of the replay. Null where NCCL would tell nothing.
  std::shared_ptr<ProfiledPlan> replay() const;

  // The unit runs; it is over, or was dropped before it was complete. `met_ns`: when the last rank
  // arrived at its first collective, 0 where there was none. [threads of the GPU]
  void begin();
  void end(bool complete, uint64_t met_ns);

 private:
  // One KernelCh in progress.
  struct Kernel {
    void* handle;
    const ProfiledTask* task;
    uint8_t channel;
    uint64_t begun_ns;
    uint64_t number;  // in the communicator's KernelReports; 0: it has none there
  };
  // One ProxyOp in progress.
  struct Proxy {
    ProxyWork work;
    ProxyEvents events;
  };

  bool is_told_at_replay() const;
  void tell_copies(const ProfiledTask& task, void* stream);
  void tell_operations();
  void wait_until_told();
  bool reports_kernels() const;
  void begin_kernels(uint64_t gpu_ns);
  void end_kernels(uint64_t gpu_ns, uint64_t met_gpu_ns);
  void tell_phases(const Kernel& kernel, uint64_t end_ns, uint64_t met_gpu_ns) const;
  void begin_proxies();
  void carry_out(const ProfiledTask& task, uint8_t channel, int peer, bool is_send);
  void end_proxies();
  bool wants(uint32_t types) const;

  const std::shared_ptr<ProfiledCommunicator> communicator_;
  std::vector<ProfiledTask> tasks_;
  bool is_replay_ = false;
  bool suppressed_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool told_ = false;
  bool begun_ = false;
  std::vector<Kernel> kernels_;
  std::vector<Proxy> proxies_;
};

// A thread's outermost group.
class ProfiledGroup {
 public:
  // An operation was called. Adds what NCCL makes of it to `tasks`.
  void call(ProfiledCommunicator& communicator, const Operation& operation, void* stream,
            bool captured, int depth, std::vector<ProfiledTask>& tasks);
  void end_begins();
  void end_is_over();
  void* handle() const { return handle_; }

 private:
  void* call_task(ProfiledCommunicator& communicator, const ProfiledTask& task, void* stream,
                  bool captured) const;

  void* handle_ = nullptr;  // of the GroupApi
};

}  // namespace emu_nccl
