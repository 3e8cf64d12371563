// A NCCL that consists of nothing but its calls into a profiler plugin: the events of each release
// in its order, with its parents, through the exported structure of the version it would pick.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "profiler_plugin/descriptors.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/exports.h"

namespace rollcall::mini {

namespace abi = rollcall::profiler;

template <unsigned kVersion>
struct Abi;
#define ROLLCALL_ABI(number)                                  \
  template <>                                                 \
  struct Abi<number> {                                        \
    using Profiler = abi::v##number::Profiler;                \
    using Descriptor = abi::v##number::Descriptor;            \
    using StateArgs = abi::v##number::StateArgs;              \
    static Profiler& own() { return ncclProfiler_v##number; } \
  };
ROLLCALL_ABI(1)
ROLLCALL_ABI(2)
ROLLCALL_ABI(3)
ROLLCALL_ABI(4)
ROLLCALL_ABI(5)
ROLLCALL_ABI(6)
ROLLCALL_ABI(7)
#undef ROLLCALL_ABI

struct Op {
  const char* func = "AllReduce";
  size_t count = 1024;
  int peer = 0;  // or root
  const void* send = nullptr;
  void* recv = nullptr;
  uint64_t user_tag = 0;
  bool is_captured = false;
  bool is_p2p() const { return strcmp(func, "Send") == 0 || strcmp(func, "Recv") == 0; }
};

struct Comm {
  void* context = nullptr;
  uint64_t id = 0;
  int rank = 0;
};

// What NCCL keeps of an operation between its call and its end.
struct Task {
  Op op;
  void* api = nullptr;
  void* handle = nullptr;  // of Coll or P2p
};

template <unsigned kVersion>
class Nccl {
 public:
  using Descriptor = typename Abi<kVersion>::Descriptor;
  using StateArgs = typename Abi<kVersion>::StateArgs;
  static constexpr bool kHasApi = kVersion >= 5;

  typename Abi<kVersion>::Profiler* plugin = &Abi<kVersion>::own();
  int mask = 0;

  Comm init(uint64_t id, int rank, int ranks, const char* name = nullptr) {
    Comm comm{.id = id, .rank = rank};
    if constexpr (kVersion <= 3) {
      plugin->init(&comm.context, &mask);
    } else if constexpr (kVersion == 4) {
      plugin->init(&comm.context, &mask, name, id, 1, ranks, rank, nullptr);
    } else {
      plugin->init(&comm.context, id, &mask, name, 1, ranks, rank, nullptr);
    }
    return comm;
  }
  void finalize(const Comm& comm) { plugin->finalize(comm.context); }

  // The bytes behind a one-byte type are whatever was on NCCL's stack.
  static Descriptor blank(uint32_t type, void* parent = nullptr) {
    Descriptor descriptor;
    memset(static_cast<void*>(&descriptor), 0xa5, sizeof(descriptor));
    descriptor.type = static_cast<decltype(descriptor.type)>(type);
    descriptor.parent = parent;
    descriptor.rank = 0;
    return descriptor;
  }
  void* start(const Comm& comm, Descriptor& descriptor) {
    // Never cleared by NCCL since 2.27: what is left in it must be overwritten.
    void* handle = reinterpret_cast<void*>(uintptr_t{0xdeadbeef});
    plugin->start_event(comm.context, &handle, &descriptor);
    return handle;
  }
  void stop(void* handle) {
    if (handle != nullptr) plugin->stop_event(handle);
  }
  void record(void* handle, int state, uint64_t word = 0, bool no_arguments = false) {
    StateArgs arguments;
    memset(static_cast<void*>(&arguments), 0, sizeof(arguments));
    memcpy(static_cast<void*>(&arguments), &word, sizeof(word));
    plugin->record_event_state(handle, state, no_arguments ? nullptr : &arguments);
  }
  bool wants(uint32_t type) const {
    return abi::is_emitted(type, static_cast<uint32_t>(mask), kVersion);
  }

  // --- the pieces of a call ---------------------------------------------------------------------

  void* start_group_api(const Comm& comm, int depth) {
    if constexpr (kHasApi) {
      if (!wants(abi::kGroupApi)) return nullptr;
      Descriptor descriptor = blank(abi::kGroupApi);
      descriptor.group_api = {false, depth};
      void* handle = start(comm, descriptor);
      if (handle != nullptr) record(handle, abi::kGroupStartApiStop, 0, true);
      return handle;
    }
    return nullptr;
  }
  void* start_call(const Comm& comm, const Op& op, void* group) {
    if constexpr (kHasApi) {
      if (!wants(op.is_p2p() ? abi::kP2pApi : abi::kCollApi)) return nullptr;
      Descriptor descriptor = blank(op.is_p2p() ? abi::kP2pApi : abi::kCollApi, group);
      if (op.is_p2p()) {
        static_cast<abi::v5::P2pApiFields&>(descriptor.p2p_api) = {op.func, op.count, "ncclFloat32",
                                                                   stream(), op.is_captured};
        if constexpr (kVersion >= 7) descriptor.p2p_api.user_tag = op.user_tag;
      } else {
        static_cast<abi::v5::CollApiFields&>(descriptor.coll_api) = {
            op.func, op.count, "ncclFloat32", op.peer, stream(), op.is_captured};
        if constexpr (kVersion >= 7) descriptor.coll_api.user_tag = op.user_tag;
      }
      return start(comm, descriptor);
    }
    return nullptr;
  }
  void launch_kernel(const Comm& comm, void* group_api) {
    if constexpr (kHasApi) {
      if (!wants(abi::kKernelLaunch)) return;
      Descriptor descriptor = blank(abi::kKernelLaunch, group_api);
      descriptor.kernel_launch = {stream()};
      stop(start(comm, descriptor));
    }
  }
  void* start_operation(const Comm& comm, const Op& op, void* api, void* group,
                        uint8_t channels = 2) {
    if (kVersion <= 4 && group == nullptr) return nullptr;  // NCCL issue 1544
    const uint32_t type = op.is_p2p() ? abi::kP2p : abi::kColl;
    if (!wants(type)) return nullptr;
    Descriptor descriptor = blank(type, kHasApi ? api : group);
    descriptor.rank = comm.rank;
    op.is_p2p() ? fill_p2p(descriptor.p2p, op, comm, channels)
                : fill_coll(descriptor.coll, op, comm, channels);
    if constexpr (kHasApi) {
      (op.is_p2p() ? descriptor.p2p.parent_group : descriptor.coll.parent_group) = group;
    }
    return start(comm, descriptor);
  }
  void* start_kernel(const Comm& comm, void* operation, uint8_t channel, uint64_t timer_ns) {
    if constexpr (kVersion >= 3) {
      Descriptor descriptor = blank(abi::kKernelCh, operation);
      descriptor.kernel_ch.channel = channel;
      if constexpr (kVersion >= 4) descriptor.kernel_ch.timer_ns = timer_ns;
      return start(comm, descriptor);
    }
    return nullptr;
  }
  // NCCL 2.31, on the same thread as the KernelCh.
  void* start_phase(const Comm& comm, void* kernel, uint8_t channel, uint8_t phase,
                    uint64_t timer_ns) {
    static_assert(kVersion >= 7);
    constexpr const char* kNames[] = {"initial_sync", "compute", "final_sync"};
    Descriptor descriptor = blank(abi::kKernelPhase, kernel);
    descriptor.kernel_phase = {channel, phase, phase < 3 ? kNames[phase] : "another", timer_ns};
    return start(comm, descriptor);
  }
  void* start_proxy_op(const Comm& comm, void* operation, uint8_t channel, int peer, bool is_send,
                       int pid = getpid()) {
    Descriptor descriptor = blank(abi::kProxyOp, operation);
    descriptor.proxy_op = {pid, channel, peer, 4, 1 << 20, is_send ? 1 : 0};
    return start(comm, descriptor);
  }
  void* start_proxy_step(const Comm& comm, void* proxy_op, int step) {
    Descriptor descriptor = blank(abi::kProxyStep, proxy_op);
    descriptor.proxy_step.step = step;
    return start(comm, descriptor);
  }

  // --- whole calls ------------------------------------------------------------------------------

  // Kernel launch, Group, Coll and P2p of what was called, in the order of the list.
  void carry_out(const Comm& comm, std::vector<Task>& tasks, void* group_api) {
    if (kHasApi && group_api != nullptr) record(group_api, abi::kGroupEndApiStart, 0, true);
    launch_kernel(comm, group_api);
    void* group = nullptr;
    if (wants(abi::kGroup)) {
      Descriptor descriptor = blank(abi::kGroup);
      group = start(comm, descriptor);
    }
    // Up to NCCL 2.25 whatever the plugin gave for them is stopped.
    const bool stops_null = kVersion <= 2 && group != nullptr && wants(abi::kColl);
    for (Task& task : tasks) {
      task.handle = start_operation(comm, task.op, task.api, group);
      if (task.handle != nullptr || stops_null) plugin->stop_event(task.handle);
    }
    stop(group);
    stop(group_api);
  }
  // The user's group, or with one operation and depth 1 a bare call.
  std::vector<Task> run(const Comm& comm, const std::vector<Op>& ops, int depth) {
    void* group_api = start_group_api(comm, depth);
    std::vector<Task> tasks;
    for (const Op& op : ops) {
      Task task{.op = op};
      task.api = start_call(comm, op, group_api);
      stop(task.api);
      tasks.push_back(task);
    }
    carry_out(comm, tasks, group_api);
    return tasks;
  }
  Task call(const Comm& comm, const Op& op) { return run(comm, {op}, 1)[0]; }
  std::vector<Task> group(const Comm& comm, const std::vector<Op>& ops) {
    return run(comm, ops, 2);
  }

  static void* stream() { return reinterpret_cast<void*>(uintptr_t{0x57}); }

 private:
  template <class Fields>
  static void name_operation(Fields& fields, const Op& op, const Comm& comm) {
    if constexpr (kVersion <= 3) {
      fields.name = "mini";
      fields.comm_hash = comm.id;
    }
    if constexpr (kVersion == 1) {
      constexpr const char* kFuncs[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};
      for (uint8_t i = 0; i < 8; ++i) {
        if (strcmp(kFuncs[i], op.func) == 0) fields.func = i;
      }
      fields.datatype = 7;
    } else {
      fields.func = op.func;
      fields.datatype = "ncclFloat32";
    }
    fields.count = op.count;
  }
  template <class Fields>
  static void fill_coll(Fields& fields, const Op& op, const Comm& comm, uint8_t channels) {
    name_operation(fields, op, comm);
    fields.seq_number = 0;
    fields.send = op.send;
    fields.recv = op.recv;
    fields.root = op.peer;
    fields.channels = channels;
    fields.warps = 16;
    if constexpr (kVersion == 1) {
      fields.algorithm = 1;
      fields.protocol = 2;
    } else {
      fields.algorithm = "RING";
      fields.protocol = "SIMPLE";
    }
    if constexpr (kVersion >= 7) {
      fields.kernel_variant = nullptr;
      fields.is_symmetric = false;
      fields.user_tag = op.user_tag;
    }
  }
  template <class Fields>
  static void fill_p2p(Fields& fields, const Op& op, const Comm& comm, uint8_t channels) {
    name_operation(fields, op, comm);
    fields.buffer = const_cast<void*>(op.send);
    fields.peer = op.peer;
    if constexpr (kVersion >= 4) fields.channels = channels;
    if constexpr (kVersion >= 7) fields.user_tag = op.user_tag;
  }
};

}  // namespace rollcall::mini
